package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRunSpec is one run: which database, which workload, how much load, what must hold.
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

	// RunID tells one run of this object from the next: changing it, and nothing else, runs again. The status then
	// starts over.
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

	// Load is how many clients there are, how they arrive, and for how long. Every field has a default: {} is a
	// closed loop of 100 clients per region for 30 s after 10 s of warm-up.
	// +required
	Load Load `json:"load"`

	// Faults is a timeline, relative to the start of measuring.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Faults []Fault `json:"faults,omitempty"`

	// FaultInjection says who injects the faults on a cluster: Auto, which is the default, or ChaosMesh for everything but faults
	// of links, which are always merged into the emulation of the link. Without a cluster it says nothing.
	// +kubebuilder:validation:Enum=Auto;ChaosMesh
	// +optional
	FaultInjection FaultInjection `json:"faultInjection,omitempty"`

	// Objectives that the results must meet for the verdict Passed.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Objectives []Objective `json:"objectives,omitempty"`

	// Verify lists what is checked about the answers and the data at the end.
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Verify []Verification `json:"verify,omitempty"`

	// FunctionalTests come before the run, each as a short run of its own on the same database, with rows and a result of its own,
	// called as this one, in at most 23 characters, with -deadlock or -snapshot behind. This run begins when all have passed;
	// otherwise nothing of it is measured. On a cluster they are BenchmarkRuns that this one owns, which have their turns right before it.
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +optional
	FunctionalTests []FunctionalTest `json:"functionalTests,omitempty"`

	// Deadline for the whole run, from its start. Unset, it is what the load takes (all
	// warm-ups, repetitions and the pauses between them) plus 15m.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('8760h')",message="must be longer than 0s and at most 8760h, for example 15m"
	// +optional
	Deadline *Duration `json:"deadline,omitempty"`

	// BaselineRef names a BenchmarkRun, in the same namespace, that this one is compared with at its end: see status.baseline
	// and the condition NotRegressed. The comparison does not change the verdict.
	// +optional
	BaselineRef *LocalReference `json:"baselineRef,omitempty"`

	// Cancel ends a run that is under way, with the verdict Invalid and the reason Cancelled. Take it back when you change
	// runID: a run that starts with it is cancelled at once.
	// +kubebuilder:default=false
	// +optional
	Cancel bool `json:"cancel,omitempty"`

	// Suspend, when true, keeps a run on a cluster from beginning: it takes no database, and others may go first. Taken back, it lets
	// the run begin. A run that has its database already goes on to its end, and so does one that is cancelled.
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
	// FunctionalGlobalSnapshot reads four balances that are always changed together, while they are: those that it reads must be
	// equal.
	FunctionalGlobalSnapshot FunctionalTest = "GlobalSnapshot"
)

// TTLSecondsAfterFinished is how long runs are kept, by their verdicts.
//
// +kubebuilder:validation:XValidation:rule="has(self.passed) || has(self.failed) || has(self.invalid)",message="no verdict is listed: set at least one of passed, failed, invalid, or leave ttlSecondsAfterFinished out to keep the run"
type TTLSecondsAfterFinished struct {
	// Passed is for the verdict Passed, in seconds; 0 is at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Passed *int32 `json:"passed,omitempty"`
	// Failed is for the verdict Failed, in seconds; 0 is at once.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	// +optional
	Failed *int32 `json:"failed,omitempty"`
	// Invalid is for the verdict Invalid, in seconds; 0 is at once.
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
	// ConditionNotRegressed says how the run compares with its baseline: true for an improvement or no difference, false for
	// a regression, unknown while it cannot be said.
	ConditionNotRegressed = "NotRegressed"
	// ConditionCompleted is true when the run is over; its reason is the verdict's.
	ConditionCompleted = "Completed"
	// ConditionCleanupFailed is true when something of the run could not be removed.
	ConditionCleanupFailed = "CleanupFailed"
)

// BenchmarkRunStatus is how far a run is and what it found.
type BenchmarkRunStatus struct {
	// ObservedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// RunID is the spec.runID that this status describes.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	RunID string `json:"runID,omitempty"`
	// Execution names one execution of the run: it is random, and chosen when the run starts. A run that returns to an earlier
	// runID is another execution, whose objects have other names and whose result has another seal.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Execution string `json:"execution,omitempty"`
	// Stage summarises the conditions: what the run does now.
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// StageStartTime is when the stage began; each stage has a deadline.
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// Conditions: Accepted, DatabaseReady, NetworkVerified, DataLoaded, Measured, Completed; and Ready, Reconciling, Stalled,
	// Succeeded, by which other tools judge the run.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// StartTime is when Preflight began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// WarmupStartTime is the instant at which all workers begin their warm-up, set before they are told.
	// +optional
	WarmupStartTime *metav1.MicroTime `json:"warmupStartTime,omitempty"`
	// MeasureStartTime is the instant at which all workers begin to measure, set before they are told.
	// +optional
	MeasureStartTime *metav1.MicroTime `json:"measureStartTime,omitempty"`
	// CompletionTime is when the run reached Completed or Failed.
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
	// DatabaseIncarnation is the database's incarnation that the data was loaded into. When the database has another
	// one before the end, nodes were replaced and the answers cannot be trusted.
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
	// ReportDigest is the digest of that document: a ConfigMap that holds another one was made by somebody else.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ReportDigest string `json:"reportDigest,omitempty"`
	// ManifestsDigest is the digest of the manifests that the run began with. It is judged by these, and its result shows them,
	// whatever is edited meanwhile.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	ManifestsDigest string `json:"manifestsDigest,omitempty"`
	// MeasuredDigest stands for what the run measures: the specs of itself, of its database and of its network, but for the name of the
	// database and for what can change of a run. Runs with equal ones measure the same, and an Experiment takes a run for one of its
	// points by it.
	// +kubebuilder:validation:MaxLength=71
	// +optional
	MeasuredDigest string `json:"measuredDigest,omitempty"`
}

// BaselineStatus is how a run compares with another.
type BaselineStatus struct {
	// Name of the BenchmarkRun that is the baseline.
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
	// Verdict of the comparison.
	// +optional
	Verdict Change `json:"verdict,omitempty"`
	// Message names what is worse or better, with confidence intervals, or why it cannot be said.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// Change is how a result compares with its baseline.
// +kubebuilder:validation:Enum=Regression;Improvement;NoDifference;Undecided
type Change string

const (
	// ChangeRegression means significantly worse.
	ChangeRegression Change = "Regression"
	// ChangeImprovement means significantly better.
	ChangeImprovement Change = "Improvement"
	// ChangeNoDifference means that no significant difference was found.
	ChangeNoDifference Change = "NoDifference"
	// ChangeUndecided means that there are too few repetitions to tell a difference from chance, or that a result is missing.
	ChangeUndecided Change = "Undecided"
)

// RepetitionStatus is one measured period.
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
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
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
	// ClientsBusy is true where the run is Invalid for no other reason than that all clients of a region were busy, so that
	// arrivals of an open loop were never sent: the database serves less than the rate, or needs more clientsPerRegion for it.
	// +optional
	ClientsBusy bool `json:"clientsBusy,omitempty"`
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
	// BytesPerTransaction is bytes sent between nodes per committed transaction.
	// +optional
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// CrossRegionBytesPerTransaction is the part of those that left a region.
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

// RunRegionStatus is what the clients of a region saw.
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
	// LatencyMicroseconds of the transactions that were due, but for aborted ones.
	// +optional
	LatencyMicroseconds LatencyMicroseconds `json:"latencyMicroseconds"`
	// AbortPPM is aborted transactions of all, in parts per million.
	// +optional
	AbortPPM int64 `json:"abortPPM"`
}

// ObjectiveStatus says whether an objective holds.
type ObjectiveStatus struct {
	// Name of the objective, for example latencyP99(balance, us-west-2) <= 250ms.
	// +kubebuilder:validation:MaxLength=256
	// +required
	Name string `json:"name"`
	// Measured value with its unit, for example 231.4ms, and what was left out.
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
	// Message says what was compared.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Message string `json:"message,omitempty"`
}

// BenchmarkRun is one run of a workload against a database.
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
	// Status says how far the run is and what it found. Until the operator has seen the run, observedGeneration is -1.
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
