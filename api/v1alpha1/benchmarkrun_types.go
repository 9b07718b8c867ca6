package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRunSpec describes one run: database, workload, load, faults and objectives.
//
// It is immutable except for runID, cancel, suspend and ttlSecondsAfterFinished. A new runID runs the same manifest
// again, so a Git repository can request another run without renaming the object. To keep the old result, create a run
// with a new name instead.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workload.tpcc) || self.workload.tpcc.keyingAndThinkTimePercent == 0 || self.load.arrival == 'Closed'",messageExpression="'keyingAndThinkTimePercent is %d, but arrival %s has neither keying nor think times: set spec.load.arrival to Closed, or leave it 0'.format([self.workload.tpcc.keyingAndThinkTimePercent, self.load.arrival])",fieldPath=".workload.tpcc.keyingAndThinkTimePercent"
// +kubebuilder:validation:XValidation:rule="self.databaseRef == oldSelf.databaseRef && self.seed == oldSelf.seed && self.workload == oldSelf.workload && self.load == oldSelf.load && has(self.faults) == has(oldSelf.faults) && (!has(self.faults) || self.faults == oldSelf.faults) && has(self.faultInjection) == has(oldSelf.faultInjection) && (!has(self.faultInjection) || self.faultInjection == oldSelf.faultInjection) && has(self.objectives) == has(oldSelf.objectives) && (!has(self.objectives) || self.objectives == oldSelf.objectives) && has(self.verify) == has(oldSelf.verify) && (!has(self.verify) || self.verify == oldSelf.verify) && has(self.functionalTests) == has(oldSelf.functionalTests) && (!has(self.functionalTests) || self.functionalTests == oldSelf.functionalTests) && has(self.deadline) == has(oldSelf.deadline) && (!has(self.deadline) || self.deadline == oldSelf.deadline) && has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="the spec of a BenchmarkRun cannot change, except runID, cancel, suspend and ttlSecondsAfterFinished: create a run with another name, or change runID to run this one again"
type BenchmarkRunSpec struct {
	// DatabaseRef names a GeoDatabase in the same namespace.
	// +required
	DatabaseRef LocalReference `json:"databaseRef"`

	// RunID identifies one execution of this object. Change only this field to run the benchmark again; the status then
	// starts from scratch.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	RunID string `json:"runID,omitempty"`

	// Seed of all random choices of the workload. In a simulation, the same manifests and seed give the same result.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Seed int64 `json:"seed"`

	// Workload defines the transactions that clients send, and the initial data.
	// +required
	Workload Workload `json:"workload"`

	// Load sets the number of clients, the arrival of their transactions and the duration. Every field has a default: {}
	// is a closed loop of 100 clients per region for 30 s after 10 s of warm-up.
	// +required
	Load Load `json:"load"`

	// Faults is the timeline of faults. Its times are relative to the start of the measured window.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []Fault `json:"faults,omitempty"`

	// FaultInjection selects the injector of faults on a cluster. With Auto, the default, Geobench chooses an injector for
	// each fault. With ChaosMesh, Chaos Mesh injects all faults except link faults, which are always merged into the
	// emulation of the link. Without a cluster the field has no effect.
	// +kubebuilder:validation:Enum=Auto;ChaosMesh
	// +optional
	FaultInjection FaultInjection `json:"faultInjection,omitempty"`

	// Objectives are bounds that the results must meet for the verdict Passed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []Objective `json:"objectives,omitempty"`

	// Verify lists the checks that validate the answers and the data after the run.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`

	// FunctionalTests run before this run, each as a separate short run on the same database, with separate rows
	// and results. The name of a test is the name of this run with a suffix such as -deadlock or -snapshot. The
	// name of this run may then have at most 23 characters. This run starts once all tests have passed; if a test
	// fails, nothing is measured. On a cluster, the tests are BenchmarkRuns that this run owns.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +optional
	FunctionalTests []FunctionalTest `json:"functionalTests,omitempty"`

	// Deadline for the whole run, from its start. The default is the duration of the load (all warm-ups, repetitions and
	// the pauses between them) plus 15m.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('8760h')",message="must be longer than 0s and at most 8760h, for example 15m"
	// +optional
	Deadline *Duration `json:"deadline,omitempty"`

	// BaselineRef names a BenchmarkRun in the same namespace with which this run is compared when it finishes. The result
	// is in status.baseline and the condition NotRegressed. The comparison does not change the verdict.
	// +optional
	BaselineRef *LocalReference `json:"baselineRef,omitempty"`

	// Cancel stops a run in progress, with the verdict Invalid and the reason Cancelled. Reset it when you change runID: a
	// run that starts with cancel set is cancelled immediately.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// Suspend, when true, keeps a run on a cluster from starting. The run then does not reserve its database, so other
	// runs can use it first. Set it to false to let the run start. It has no effect on a cancelled run or on a run that
	// already has its database.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// TTLSecondsAfterFinished sets, for each verdict, the number of seconds after which a finished run is deleted from
	// the cluster. The result remains in the ConfigMap that status.reportRef names. Runs with a verdict that is not
	// listed are kept.
	// +optional
	TTLSecondsAfterFinished *TTLSecondsAfterFinished `json:"ttlSecondsAfterFinished,omitempty"`
}

// FunctionalTest is a test that a database must pass before it is measured (Dike, section 4.2 and figure 13).
// +kubebuilder:validation:Enum=GlobalDeadlock;GlobalSnapshot
type FunctionalTest string

const (
	// FunctionalGlobalDeadlock runs transactions that add to five balances in several partitions, in any order. Every
	// transaction must be answered, and some must commit.
	FunctionalGlobalDeadlock FunctionalTest = "GlobalDeadlock"
	// FunctionalGlobalSnapshot reads four balances while other transactions change all four together. The balances in
	// each read must be equal.
	FunctionalGlobalSnapshot FunctionalTest = "GlobalSnapshot"
)

// TTLSecondsAfterFinished sets, for each verdict, the retention time of finished runs.
//
// +kubebuilder:validation:XValidation:rule="has(self.passed) || has(self.failed) || has(self.invalid)",message="no verdict is listed: set at least one of passed, failed, invalid, or leave ttlSecondsAfterFinished out to keep the run"
type TTLSecondsAfterFinished struct {
	// Passed is the time in seconds to keep runs with the verdict Passed; 0 deletes them immediately.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Passed *int32 `json:"passed,omitempty"`
	// Failed is the time in seconds to keep runs with the verdict Failed; 0 deletes them immediately.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Failed *int32 `json:"failed,omitempty"`
	// Invalid is the time in seconds to keep runs with the verdict Invalid; 0 deletes them immediately.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Invalid *int32 `json:"invalid,omitempty"`
}

// Stage is the current step of a run.
// +kubebuilder:validation:Enum=Preflight;Provision;Emulate;Load;Warmup;Measure;Recover;Collect;Evaluate;Completed;Failed
type Stage string

const (
	// StagePreflight checks that the manifest can be executed on this cluster.
	StagePreflight Stage = "Preflight"
	// StageProvision waits until the database is ready.
	StageProvision Stage = "Provision"
	// StageEmulate waits until the emulated network is in place and verified.
	StageEmulate Stage = "Emulate"
	// StageLoad loads the data set into the database.
	StageLoad Stage = "Load"
	// StageWarmup runs the load without measuring.
	StageWarmup Stage = "Warmup"
	// StageMeasure runs the load and measures.
	StageMeasure Stage = "Measure"
	// StageRecover waits until all faults are removed.
	StageRecover Stage = "Recover"
	// StageCollect collects the workers' reports.
	StageCollect Stage = "Collect"
	// StageEvaluate checks objectives, invariants and history.
	StageEvaluate Stage = "Evaluate"
	// StageCompleted is the final stage of a run with a result, whatever its verdict.
	StageCompleted Stage = "Completed"
	// StageFailed is the final stage of a run without a result.
	StageFailed Stage = "Failed"
)

// Verdict is the outcome of a run.
// +kubebuilder:validation:Enum=Passed;Failed;Invalid
type Verdict string

const (
	// VerdictPassed means that every objective holds and every check passed.
	VerdictPassed Verdict = "Passed"
	// VerdictFailed means that the measurement is valid, but an objective was missed or a check failed.
	VerdictFailed Verdict = "Failed"
	// VerdictInvalid means that the measurement cannot be trusted, for example because the load generators were the
	// bottleneck. It can also mean that there is no measurement because the run was refused or stopped early.
	VerdictInvalid Verdict = "Invalid"
)

// Conditions of a BenchmarkRun.
const (
	// ConditionAccepted is true once Preflight has accepted the manifest.
	ConditionAccepted = "Accepted"
	// ConditionDatabaseReady is true while the database is ready and reserved for this run.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionDataLoaded is true once the data set is in the database.
	ConditionDataLoaded = "DataLoaded"
	// ConditionWorkersCreated is true once all worker Jobs were created. From then on a missing Job is never created
	// again, because its workers may already have run.
	ConditionWorkersCreated = "WorkersCreated"
	// ConditionMeasured is true once every worker has reported.
	ConditionMeasured = "Measured"
	// ConditionDatabaseQuiet is true once every node has finished all transactions. Only a quiescent database can be
	// checked.
	ConditionDatabaseQuiet = "DatabaseQuiet"
	// ConditionManifestsUnchanged is false if the database or its network profile was edited during the run. The run
	// continues with the manifests that it started with.
	ConditionManifestsUnchanged = "ManifestsUnchanged"
	// ConditionNotRegressed is the result of the comparison with the baseline. It is True for an improvement or no
	// difference, False for a regression, and Unknown while there is no result.
	ConditionNotRegressed = "NotRegressed"
	// ConditionCompleted is true once the run is over; its reason is the reason of the verdict.
	ConditionCompleted = "Completed"
	// ConditionCleanupFailed is true if an object of the run could not be removed.
	ConditionCleanupFailed = "CleanupFailed"
)

// BenchmarkRunStatus reports the progress and the results of a run.
type BenchmarkRunStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// RunID is the spec.runID that this status describes.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RunID string `json:"runID,omitempty"`
	// Execution identifies one execution of the run. It is random and is chosen when the run starts. A run that is
	// set back to an earlier runID is a new execution. It has new object names and a new key for the seal of its
	// result.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Execution string `json:"execution,omitempty"`
	// Stage summarises the conditions as the current step of the run.
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// StageStartTime is the start of the current stage. Each stage has a deadline.
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// Conditions of the run: Accepted, DatabaseReady, NetworkVerified, DataLoaded, Measured and Completed. Ready,
	// Reconciling, Stalled and Succeeded are for generic tools such as Flux and Helm.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// StartTime is the start of Preflight.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// WarmupStartTime is the time at which all workers start their warm-up. It is set before the workers are notified.
	// +optional
	WarmupStartTime *metav1.MicroTime `json:"warmupStartTime,omitempty"`
	// MeasureStartTime is the time at which all workers start to measure. It is set before the workers are notified.
	// +optional
	MeasureStartTime *metav1.MicroTime `json:"measureStartTime,omitempty"`
	// CompletionTime is the time at which the run reached Completed or Failed.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Verdict is set when the run is over.
	// +optional
	Verdict Verdict `json:"verdict,omitempty"`
	// Reason is the reason for the verdict in CamelCase, for example ObjectiveMissed, DriverBound or DeadlineExceeded.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message describes in a sentence what went wrong, where, and how to correct it.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// DatabaseUID is the UID of the GeoDatabase with which the run started.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseUID string `json:"databaseUID,omitempty"`
	// DatabaseIncarnation is the incarnation of the database into which the data was loaded. If the incarnation changes
	// before the run finishes, nodes were replaced and the answers cannot be trusted.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseIncarnation string `json:"databaseIncarnation,omitempty"`
	// Repetitions that have been measured, in order.
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Repetitions []RepetitionStatus `json:"repetitions,omitempty"`
	// Faults reports the progress of each fault of the timeline.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []FaultStatus `json:"faults,omitempty"`
	// Summary of the measurements over all regions and transactions.
	// +optional
	Summary *RunSummary `json:"summary,omitempty"`
	// Regions reports the measurements of the clients of each region.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Regions []RunRegionStatus `json:"regions,omitempty"`
	// Objectives reports whether each objective holds, in the order of the spec.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []ObjectiveStatus `json:"objectives,omitempty"`
	// Checks reports the outcomes of the checks of the answers and the data.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	Checks []CheckStatus `json:"checks,omitempty"`
	// Baseline is the comparison with spec.baselineRef.
	// +optional
	Baseline *BaselineStatus `json:"baseline,omitempty"`
	// ReportRef names the ConfigMap that holds the full result document.
	// +optional
	ReportRef *LocalReference `json:"reportRef,omitempty"`
	// ReportDigest is the digest of the result document. A ConfigMap with a different digest was not written by the
	// operator.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ReportDigest string `json:"reportDigest,omitempty"`
	// ManifestsDigest is the digest of the manifests with which the run started. The run's result includes these
	// manifests, and its verdict depends on them, even if the objects are edited during the run.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ManifestsDigest string `json:"manifestsDigest,omitempty"`
	// MeasuredDigest identifies the configuration that the run measures: the specs of the run, its database and its
	// network. The database's name and the mutable fields of the run are not included. Runs with equal digests measure
	// the same configuration. An Experiment uses the digest to match runs with its points.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	MeasuredDigest string `json:"measuredDigest,omitempty"`
}

// BaselineStatus is the comparison of a run with its baseline.
type BaselineStatus struct {
	// Name of the BenchmarkRun that is the baseline.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// Verdict of the comparison.
	// +optional
	Verdict Change `json:"verdict,omitempty"`
	// Message names the metrics that are worse or better, with confidence intervals, or explains why there is no result.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// Change is the outcome of a comparison with the baseline.
// +kubebuilder:validation:Enum=Regression;Improvement;NoDifference;Undecided
type Change string

const (
	// ChangeRegression means that the run is significantly worse than the baseline.
	ChangeRegression Change = "Regression"
	// ChangeImprovement means that the run is significantly better than the baseline.
	ChangeImprovement Change = "Improvement"
	// ChangeNoDifference means that no significant difference was found.
	ChangeNoDifference Change = "NoDifference"
	// ChangeUndecided means that there are too few repetitions to distinguish a difference from random variation, or that
	// a result is missing.
	ChangeUndecided Change = "Undecided"
)

// RepetitionStatus reports the measurements of one repetition.
type RepetitionStatus struct {
	// Index of the repetition, from 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Index int32 `json:"index"`
	// StartTime is the time at which all workers started to measure.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`
	// Committed is the number of committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted is the number of transactions that aborted, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is the number of committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds is the latency of all transactions that were due, excluding aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is the share of all transactions that aborted, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// RunSummary reports the main measurements of a run.
type RunSummary struct {
	// Committed is the number of committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted is the number of transactions that aborted, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is the number of committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// OfferedPerSecond is the number of transactions per second that were due, whether they were sent or not. It is set
	// only in an open loop.
	// +optional
	OfferedPerSecond int64 `json:"offeredPerSecond,omitempty"`
	// LeastServed is the region with the smallest committed share of the transactions that were due. It is set only in an
	// open loop. It exposes a badly served region that the total throughput hides.
	// +optional
	LeastServed *ServedRegion `json:"leastServed,omitempty"`
	// Overloaded is true if the run is Invalid only because the database did not serve the load. Either it
	// committed nothing, or transactions were still unfinished long after the last answer. Or all clients of a
	// region were busy, so that some arrivals of an open loop were never sent. Busy clients may also mean that
	// clientsPerRegion is too low for the rate.
	// +optional
	Overloaded bool `json:"overloaded,omitempty"`
	// LatencyMicroseconds is the latency of all transactions that were due, excluding aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is the share of all transactions that aborted, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
	// BytesPerTransaction is the number of bytes sent between nodes per committed transaction.
	// +optional
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// CrossRegionBytesPerTransaction is the part of bytesPerTransaction that was sent to another region.
	// +optional
	CrossRegionBytesPerTransaction int64 `json:"crossRegionBytesPerTransaction"`
	// MultiHomePPM is the share of multi-home transactions, in parts per million of all transactions.
	// +optional
	MultiHomePPM int64 `json:"multiHomePPM"`
	// MultiPartitionPPM is the share of multi-partition transactions, in parts per million of all transactions.
	// +optional
	MultiPartitionPPM int64 `json:"multiPartitionPPM"`
}

// ServedRegion is the share of a region's transactions that committed.
type ServedRegion struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// CommittedPPM is the number of transactions that committed in the measured windows, in parts per million of the
	// transactions that were due. It can exceed 1000000, because some committed transactions were due before the windows
	// opened.
	// +required
	CommittedPPM int64 `json:"committedPPM"`
	// ChancePPM is three standard deviations of CommittedPPM, in parts per million. The share varies because transactions
	// are in flight when windows open and close.
	// +optional
	ChancePPM int64 `json:"chancePPM,omitempty"`
}

// RunRegionStatus reports the measurements of the clients of a region.
type RunRegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// Committed is the number of committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// ThroughputPerSecond is the number of committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds is the latency of all transactions that were due, excluding aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is the share of the region's transactions that aborted, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// ObjectiveStatus reports whether an objective holds.
type ObjectiveStatus struct {
	// Name of the objective, for example latencyP99(balance, us-west-2) <= 250ms.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Measured is the measured value with its unit, for example 231.4ms, and a note about any omitted data.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Measured string `json:"measured"`
	// Holds is true if the measured value is within the bounds.
	// +optional
	Holds bool `json:"holds"`
}

// CheckStatus is the outcome of a check.
type CheckStatus struct {
	// Name of the check, for example smallbank-total.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name"`
	// Passed is true if the check found no error.
	// +optional
	Passed bool `json:"passed"`
	// Message contains the values that were compared.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// BenchmarkRun runs a workload once against a database.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=brun;br,categories=geobench
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.databaseRef.name`
// +kubebuilder:printcolumn:name="Test of",type=string,JSONPath=`.metadata.labels['geobench\.dev/run']`
// +kubebuilder:printcolumn:name="Txn/s",type=integer,JSONPath=`.status.summary.throughputPerSecond`
// +kubebuilder:printcolumn:name="P50(us)",type=string,JSONPath=`.status.summary.latencyMicroseconds.p50`
// +kubebuilder:printcolumn:name="P99(us)",type=string,JSONPath=`.status.summary.latencyMicroseconds.p99`
// +kubebuilder:printcolumn:name="Aborts(ppm)",type=integer,JSONPath=`.status.summary.abortPPM`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 32 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",messageExpression="'metadata.name ' + self.metadata.name + ' names worker pods together with the region: it must be at most 32 lower-case letters, digits and dashes, and start with a letter'"
type BenchmarkRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec defines the run. It is immutable except for runID, cancel, suspend and ttlSecondsAfterFinished.
	// +required
	Spec BenchmarkRunSpec `json:"spec"`
	// Status reports the progress and the results of the run. observedGeneration is -1 until the operator has processed
	// the run for the first time.
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status BenchmarkRunStatus `json:"status,omitzero"`
}

// BenchmarkRunList is a list of runs.
//
// +kubebuilder:object:root=true
type BenchmarkRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BenchmarkRun `json:"items"`
}
