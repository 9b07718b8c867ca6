package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRunSpec describes one run: database, workload, load and objectives.
//
// It is immutable but for runID, cancel, suspend and ttlSecondsAfterFinished: a new runID runs the same manifest again, so that a Git
// repository can ask for a re-run without renaming anything. A new name does the same and keeps the old result.
//
// +kubebuilder:validation:XValidation:rule="!has(self.workload.tpcc) || self.workload.tpcc.keyingAndThinkTimePercent == 0 || self.load.arrival == 'Closed'",messageExpression="'keyingAndThinkTimePercent is %d, but arrival %s has neither keying nor think times: set spec.load.arrival to Closed, or leave it 0'.format([self.workload.tpcc.keyingAndThinkTimePercent, self.load.arrival])",fieldPath=".workload.tpcc.keyingAndThinkTimePercent"
// +kubebuilder:validation:XValidation:rule="self.databaseRef == oldSelf.databaseRef && self.seed == oldSelf.seed && self.workload == oldSelf.workload && self.load == oldSelf.load && has(self.faults) == has(oldSelf.faults) && (!has(self.faults) || self.faults == oldSelf.faults) && has(self.faultInjection) == has(oldSelf.faultInjection) && (!has(self.faultInjection) || self.faultInjection == oldSelf.faultInjection) && has(self.objectives) == has(oldSelf.objectives) && (!has(self.objectives) || self.objectives == oldSelf.objectives) && has(self.verify) == has(oldSelf.verify) && (!has(self.verify) || self.verify == oldSelf.verify) && has(self.functionalTests) == has(oldSelf.functionalTests) && (!has(self.functionalTests) || self.functionalTests == oldSelf.functionalTests) && has(self.deadline) == has(oldSelf.deadline) && (!has(self.deadline) || self.deadline == oldSelf.deadline) && has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="the spec of a BenchmarkRun cannot change, except runID, cancel, suspend and ttlSecondsAfterFinished: create a run with another name, or change runID to run this one again"
type BenchmarkRunSpec struct {
	// DatabaseRef names the GeoDatabase, in the same namespace.
	// +required
	DatabaseRef LocalReference `json:"databaseRef"`

	// RunID identifies one execution of this object. Changing it, and nothing else, runs the benchmark again, and the
	// status starts over.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	RunID string `json:"runID,omitempty"`

	// Seed of every random choice of the workload. The same manifests and seed give the same simulated result.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:default=1
	// +optional
	Seed int64 `json:"seed"`

	// Workload is what clients do.
	// +required
	Workload Workload `json:"workload"`

	// Load sets the number of clients, the arrival of their transactions and the duration. Every field has a default: {}
	// is a closed loop of 100 clients per region for 30 s after 10 s of warm-up.
	// +required
	Load Load `json:"load"`

	// Faults is a timeline, relative to the start of measuring.
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

	// Objectives that the results must meet for the verdict Passed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []Objective `json:"objectives,omitempty"`

	// Verify lists the checks of the answers and the data at the end of the run.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`

	// FunctionalTests run before this run, each as a separate short run on the same database, with separate rows and
	// results. The name of each is the name of this run, which may have at most 23 characters, and a suffix such as
	// -deadlock or -snapshot. This run starts when all tests have passed; otherwise nothing is measured. On a cluster the
	// tests are BenchmarkRuns that this run owns, and they run directly before it.
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

	// Suspend, when true, keeps a run on a cluster from starting: the run takes no database, and other runs may go first.
	// When it is false again, the run can start. It does not affect a run that already has its database, or a cancelled
	// run.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// TTLSecondsAfterFinished is after how many seconds from its end a cluster deletes the run, by its verdict. Its result stays, in the
	// ConfigMap that status.reportRef names. A verdict that is not listed keeps the run.
	// +optional
	TTLSecondsAfterFinished *TTLSecondsAfterFinished `json:"ttlSecondsAfterFinished,omitempty"`
}

// FunctionalTest is a test that a database passes before it is measured (Dike, section 4.2 and figure 13).
// +kubebuilder:validation:Enum=GlobalDeadlock;GlobalSnapshot
type FunctionalTest string

const (
	// FunctionalGlobalDeadlock adds to five balances of several partitions in any order: no transaction may be left without an
	// answer, and some must be committed.
	FunctionalGlobalDeadlock FunctionalTest = "GlobalDeadlock"
	// FunctionalGlobalSnapshot reads four balances while transactions change all four together: the balances in each read
	// must be equal.
	FunctionalGlobalSnapshot FunctionalTest = "GlobalSnapshot"
)

// TTLSecondsAfterFinished sets the retention time of finished runs for each verdict.
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

// Stage of a run.
// +kubebuilder:validation:Enum=Preflight;Provision;Emulate;Load;Warmup;Measure;Recover;Collect;Evaluate;Completed;Failed
type Stage string

const (
	// StagePreflight checks that the manifest is possible here.
	StagePreflight Stage = "Preflight"
	// StageProvision waits until the database is ready.
	StageProvision Stage = "Provision"
	// StageEmulate waits until the network is injected and verified.
	StageEmulate Stage = "Emulate"
	// StageLoad puts the data set into the database.
	StageLoad Stage = "Load"
	// StageWarmup runs the load without measuring.
	StageWarmup Stage = "Warmup"
	// StageMeasure runs the load and measures.
	StageMeasure Stage = "Measure"
	// StageRecover waits until all faults are gone.
	StageRecover Stage = "Recover"
	// StageCollect gathers the workers' reports.
	StageCollect Stage = "Collect"
	// StageEvaluate judges objectives, invariants and history.
	StageEvaluate Stage = "Evaluate"
	// StageCompleted is the end of a run that has a result, good or bad.
	StageCompleted Stage = "Completed"
	// StageFailed is the end of a run that has no result.
	StageFailed Stage = "Failed"
)

// Verdict of a run.
// +kubebuilder:validation:Enum=Passed;Failed;Invalid
type Verdict string

const (
	// VerdictPassed means that every objective holds and every check passed.
	VerdictPassed Verdict = "Passed"
	// VerdictFailed means that a sound measurement missed an objective or a check.
	VerdictFailed Verdict = "Failed"
	// VerdictInvalid means that the measurement cannot be trusted, for example because the driver was the bottleneck, or that
	// there is none: the run was refused, or stopped before its end.
	VerdictInvalid Verdict = "Invalid"
)

// Conditions of a BenchmarkRun.
const (
	// ConditionAccepted is true once Preflight found the manifest possible.
	ConditionAccepted = "Accepted"
	// ConditionDatabaseReady is true while the database serves this run.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionDataLoaded is true once the data set is in the database.
	ConditionDataLoaded = "DataLoaded"
	// ConditionWorkersCreated is true once every worker Job was made. From then on a Job that is missing is never made
	// again: its workers may have run.
	ConditionWorkersCreated = "WorkersCreated"
	// ConditionMeasured is true once every worker has reported.
	ConditionMeasured = "Measured"
	// ConditionDatabaseQuiet is true once every node has finished all transactions: only then can the data be judged.
	ConditionDatabaseQuiet = "DatabaseQuiet"
	// ConditionManifestsUnchanged is false when the database or its network was edited while the run went on as it had
	// begun.
	ConditionManifestsUnchanged = "ManifestsUnchanged"
	// ConditionNotRegressed compares the run with its baseline. It is True for an improvement or no difference, False for
	// a regression, and Unknown while there is no result.
	ConditionNotRegressed = "NotRegressed"
	// ConditionCompleted is true when the run is over; its reason is the verdict's.
	ConditionCompleted = "Completed"
	// ConditionCleanupFailed is true when something of the run could not be removed.
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
	// Execution identifies one execution of the run. It is random, and is chosen when the run starts. A run that returns
	// to an earlier runID is a new execution, with new object names and a new seal of the result.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Execution string `json:"execution,omitempty"`
	// Stage summarises the conditions as the current step of the run.
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// StageStartTime is the start of the current stage; each stage has a deadline.
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// Conditions: Accepted, DatabaseReady, NetworkVerified, DataLoaded, Measured, Completed; and Ready, Reconciling, Stalled,
	// Succeeded, by which other tools judge the run.
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
	// Reason is a CamelCase word for the verdict, for example ObjectiveMissed, DriverBound, DeadlineExceeded.
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says in a sentence what went wrong, where, and what would be right.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
	// DatabaseUID is the GeoDatabase that the run began with.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseUID string `json:"databaseUID,omitempty"`
	// DatabaseIncarnation is the incarnation of the database into which the data was loaded. If the incarnation changes
	// before the run finishes, nodes were replaced and the answers cannot be trusted.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	DatabaseIncarnation string `json:"databaseIncarnation,omitempty"`
	// Repetitions that are done, in order.
	// +listType=map
	// +listMapKey=index
	// +kubebuilder:validation:MaxItems=100
	// +optional
	Repetitions []RepetitionStatus `json:"repetitions,omitempty"`
	// Faults of the timeline, each with where it is in its life.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []FaultStatus `json:"faults,omitempty"`
	// Summary of all regions and transactions.
	// +optional
	Summary *RunSummary `json:"summary,omitempty"`
	// Regions, each with what its clients saw.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Regions []RunRegionStatus `json:"regions,omitempty"`
	// Objectives and whether they hold, in the order of the spec.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []ObjectiveStatus `json:"objectives,omitempty"`
	// Checks of the answers and the data.
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
	// ReportDigest is the digest of that document. A ConfigMap with a different digest was not written by the operator.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ReportDigest string `json:"reportDigest,omitempty"`
	// ManifestsDigest is the digest of the manifests that the run began with. It is judged by these, and its result shows them,
	// whatever is edited meanwhile.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ManifestsDigest string `json:"manifestsDigest,omitempty"`
	// MeasuredDigest identifies the configuration that the run measures: the specs of the run, its database and its
	// network. It omits the database's name and the fields of a run that can change. Runs with equal digests measure the
	// same configuration. An Experiment uses the digest to match runs with its points.
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
	// Message names the metrics that are worse or better, with confidence intervals, or the reason why there is no result.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// Change is the outcome of a comparison with the baseline.
// +kubebuilder:validation:Enum=Regression;Improvement;NoDifference;Undecided
type Change string

const (
	// ChangeRegression means significantly worse.
	ChangeRegression Change = "Regression"
	// ChangeImprovement means significantly better.
	ChangeImprovement Change = "Improvement"
	// ChangeNoDifference means that no significant difference was found.
	ChangeNoDifference Change = "NoDifference"
	// ChangeUndecided means that there are too few repetitions to distinguish a difference from random variation, or that
	// a result is missing.
	ChangeUndecided Change = "Undecided"
)

// RepetitionStatus reports one measured period.
type RepetitionStatus struct {
	// Index counts from 1.
	// +kubebuilder:validation:Minimum=1
	// +required
	Index int32 `json:"index"`
	// StartTime is the instant at which all workers began to measure.
	// +optional
	StartTime *metav1.MicroTime `json:"startTime,omitempty"`
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted transactions, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds is the latency of the transactions that were due, without aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// RunSummary is the gist of a measurement.
type RunSummary struct {
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// Aborted transactions, for any reason.
	// +optional
	Aborted int64 `json:"aborted"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// OfferedPerSecond is the transactions that were due per second, sent or not; only in an open loop.
	// +optional
	OfferedPerSecond int64 `json:"offeredPerSecond,omitempty"`
	// LeastServed is the region of which the smallest share of the transactions that were due committed; only in an
	// open loop. A region that is served badly does not show in the throughput of all regions together.
	// +optional
	LeastServed *ServedRegion `json:"leastServed,omitempty"`
	// ClientsBusy is true if busy clients are the only reason why the run is Invalid: all clients of a region were busy,
	// so some arrivals of an open loop were never sent. Either the database cannot serve the rate, or the rate needs a
	// higher clientsPerRegion.
	// +optional
	ClientsBusy bool `json:"clientsBusy,omitempty"`
	// LatencyMicroseconds is the latency of the transactions that were due, without aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
	// BytesPerTransaction is bytes sent between nodes per committed transaction.
	// +optional
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// CrossRegionBytesPerTransaction is the part of bytesPerTransaction that left a region.
	// +optional
	CrossRegionBytesPerTransaction int64 `json:"crossRegionBytesPerTransaction"`
	// MultiHomePPM is the share of multi-home transactions among all, in parts per million.
	// +optional
	MultiHomePPM int64 `json:"multiHomePPM"`
	// MultiPartitionPPM is the share of multi-partition transactions among all, in parts per million.
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
	// transactions that were due. It can exceed 1000000, because some were due before the windows opened.
	// +required
	CommittedPPM int64 `json:"committedPPM"`
	// ChancePPM is three standard deviations of CommittedPPM: transactions are in flight when windows open and close.
	// +optional
	ChancePPM int64 `json:"chancePPM,omitempty"`
}

// RunRegionStatus reports the measurements of the clients of a region.
type RunRegionStatus struct {
	// Name of the region.
	// +kubebuilder:validation:MaxLength=24
	// +required
	Name string `json:"name"`
	// Committed transactions.
	// +optional
	Committed int64 `json:"committed"`
	// ThroughputPerSecond is committed transactions per second.
	// +optional
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// LatencyMicroseconds is the latency of the transactions that were due, without aborted transactions.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// ObjectiveStatus reports whether an objective holds.
type ObjectiveStatus struct {
	// Name of the objective, for example latencyP99(balance, us-west-2) <= 250ms.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Measured value with its unit, for example 231.4ms, and a note of any omitted data.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Measured string `json:"measured"`
	// Holds is true when the measured value is within the bounds.
	// +optional
	Holds bool `json:"holds"`
}

// CheckStatus is the outcome of a check.
type CheckStatus struct {
	// Name of the check, for example smallbank-total.
	// +kubebuilder:validation:MaxLength=128
	// +required
	Name string `json:"name"`
	// Passed is true when the check found nothing wrong.
	// +optional
	Passed bool `json:"passed"`
	// Message names the compared values.
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

	// Spec says what to run; it is immutable but for runID, cancel, suspend and ttlSecondsAfterFinished.
	// +required
	Spec BenchmarkRunSpec `json:"spec"`
	// Status reports the progress and the results of the run. Until the operator has seen the run, observedGeneration is
	// -1.
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
