package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkRunSpec is one run: which database, which workload, how much load, what must hold.
//
// It is immutable but for runID and cancel: a new runID runs the same manifest again, so that a Git repository can ask for a re-run
// without renaming anything. A new name does the same and keeps the old result.
//
// +kubebuilder:validation:XValidation:rule="self.databaseRef == oldSelf.databaseRef && self.seed == oldSelf.seed && self.workload == oldSelf.workload && self.load == oldSelf.load && has(self.faults) == has(oldSelf.faults) && (!has(self.faults) || self.faults == oldSelf.faults) && has(self.faultInjection) == has(oldSelf.faultInjection) && (!has(self.faultInjection) || self.faultInjection == oldSelf.faultInjection) && has(self.objectives) == has(oldSelf.objectives) && (!has(self.objectives) || self.objectives == oldSelf.objectives) && has(self.verify) == has(oldSelf.verify) && (!has(self.verify) || self.verify == oldSelf.verify) && has(self.deadline) == has(oldSelf.deadline) && (!has(self.deadline) || self.deadline == oldSelf.deadline) && has(self.baselineRef) == has(oldSelf.baselineRef) && (!has(self.baselineRef) || self.baselineRef == oldSelf.baselineRef)",message="the spec of a BenchmarkRun cannot change, except runID and cancel: create a run with another name, or change runID to run this one again"
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
	// +kubebuilder:validation:MaxItems=4
	// +optional
	Verify []Verification `json:"verify,omitempty"`

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
}

// Workload holds exactly one workload.
//
// +kubebuilder:validation:XValidation:rule="has(self.smallbank) != has(self.rmw)",messageExpression="has(self.smallbank) ? 'smallbank and rmw are both set: keep exactly one workload' : 'no workload is set: set exactly one of smallbank, rmw'"
type Workload struct {
	// SmallBank is the banking benchmark of Alomari et al. (2008), with transactions split into phases.
	// +optional
	SmallBank *SmallBank `json:"smallbank,omitempty"`
	// RMW is the microbenchmark of Detock (Nguyen et al., 2023): transactions that read and write random records.
	// +optional
	RMW *RMW `json:"rmw,omitempty"`
}

// SmallBank is the workload of "SmallBank on Detock".
type SmallBank struct {
	// Customers is the number of accounts, each with a checking and a savings balance.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=100000
	// +optional
	Customers int64 `json:"customers,omitempty"`
	// Mix is the share of each transaction.
	// +kubebuilder:default={balance: 40, writeCheck: 25, depositChecking: 15, transactSavings: 15, amalgamate: 5}
	// +optional
	Mix SmallBankMix `json:"mix,omitzero"`
	// MultiHomePercent is the share of final phases that touch accounts with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// MultiPartitionPercent is the share of final phases that touch accounts of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// HotPercent is the skew of the choice of customers: 0 is uniform, 100 the most skewed.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	HotPercent int32 `json:"hotPercent"`
	// Sunflower moves the load from region to region: each entry is active for an equal share of the measured time.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Sunflower []SunflowerTarget `json:"sunflower,omitempty"`
}

// SmallBankMix is the share of each transaction in percent; the shares sum to 100.
//
// +kubebuilder:validation:XValidation:rule="self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate == 100",messageExpression="'balance + writeCheck + depositChecking + transactSavings + amalgamate is %d: it must be 100 (percent)'.format([self.balance + self.writeCheck + self.depositChecking + self.transactSavings + self.amalgamate])"
type SmallBankMix struct {
	// Balance reads the sum of both balances.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Balance int32 `json:"balance"`
	// WriteCheck takes a check from the checking balance, with a penalty of 1 on overdraft.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	WriteCheck int32 `json:"writeCheck"`
	// DepositChecking adds to the checking balance.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	DepositChecking int32 `json:"depositChecking"`
	// TransactSavings adds to or takes from the savings balance.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	TransactSavings int32 `json:"transactSavings"`
	// Amalgamate moves all money of one customer to the checking balance of another.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	Amalgamate int32 `json:"amalgamate"`
}

// SunflowerTarget is a region that draws load from the others for a while.
type SunflowerTarget struct {
	// Region that the clients turn to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=24
	// +required
	Region string `json:"region"`
	// HitPercent is the share of transactions, of every client, that go to that region's data.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +required
	HitPercent int32 `json:"hitPercent"`
}

// RMW reads and writes random records.
//
// +kubebuilder:validation:XValidation:rule="self.writesPerTransaction <= self.recordsPerTransaction",messageExpression="'writesPerTransaction %d is more than recordsPerTransaction (%d): a transaction can write at most the records that it touches'.format([self.writesPerTransaction, self.recordsPerTransaction])",fieldPath=".writesPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction <= self.recordsPerTransaction",messageExpression="'hotRecordsPerTransaction %d is more than recordsPerTransaction (%d)'.format([self.hotRecordsPerTransaction, self.recordsPerTransaction])",fieldPath=".hotRecordsPerTransaction"
// +kubebuilder:validation:XValidation:rule="self.hotRecordsPerTransaction == 0 || self.hotRecords > 0",message="hotRecordsPerTransaction needs hotRecords greater than 0: it says how many records are hot",fieldPath=".hotRecords"
type RMW struct {
	// Records in the database.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=100000
	// +optional
	Records int64 `json:"records,omitempty"`
	// RecordsPerTransaction is how many distinct records a transaction touches.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	RecordsPerTransaction int32 `json:"recordsPerTransaction,omitempty"`
	// WritesPerTransaction is how many of those are written; the others are only read.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	WritesPerTransaction int32 `json:"writesPerTransaction"`
	// ValueBytes is the size of a record's value.
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=65536
	// +kubebuilder:default=100
	// +optional
	ValueBytes int32 `json:"valueBytes,omitempty"`
	// MultiHomePercent is the share of transactions that touch records with different home regions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiHomePercent int32 `json:"multiHomePercent"`
	// HomesPerMultiHome is how many home regions a multi-home transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=32
	// +kubebuilder:default=2
	// +optional
	HomesPerMultiHome int32 `json:"homesPerMultiHome,omitempty"`
	// MultiPartitionPercent is the share of transactions that touch records of different partitions.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=0
	// +optional
	MultiPartitionPercent int32 `json:"multiPartitionPercent"`
	// PartitionsPerMultiPartition is how many partitions a multi-partition transaction touches.
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=2
	// +optional
	PartitionsPerMultiPartition int32 `json:"partitionsPerMultiPartition,omitempty"`
	// HotRecords is the number of hot records of each partition and home; 0 is no hot records, all are chosen uniformly.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	// +kubebuilder:default=0
	// +optional
	HotRecords int64 `json:"hotRecords"`
	// HotRecordsPerTransaction is how many of a transaction's records are hot ones.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=0
	// +optional
	HotRecordsPerTransaction int32 `json:"hotRecordsPerTransaction"`
}

// Load is how many clients there are in each region, how their transactions arrive, and for how long.
//
// +kubebuilder:validation:XValidation:rule="self.duration > self.warmup",messageExpression="'duration %s is not longer than warmup (%s): measure for longer than the warm-up'.format([self.duration, self.warmup])",fieldPath=".duration"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.ratePerSecond > 0",messageExpression="'ratePerSecond is 0, but arrival %s is an open loop: say how many transactions arrive per second in each region'.format([self.arrival])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival != 'Closed' || self.ratePerSecond == 0",messageExpression="'ratePerSecond is %d, but arrival Closed has no rate: set arrival to Constant or Poisson, or leave ratePerSecond 0'.format([self.ratePerSecond])",fieldPath=".ratePerSecond"
// +kubebuilder:validation:XValidation:rule="self.arrival == 'Closed' || self.thinkTime == duration('0s')",messageExpression="'thinkTime is %s, but arrival %s has no think time: set arrival to Closed, or leave thinkTime 0s'.format([self.thinkTime, self.arrival])",fieldPath=".thinkTime"
// +kubebuilder:validation:XValidation:rule="self.workersPerRegion <= self.clientsPerRegion",messageExpression="'workersPerRegion %d is more than clientsPerRegion (%d): each worker needs a client'.format([self.workersPerRegion, self.clientsPerRegion])",fieldPath=".workersPerRegion"
type Load struct {
	// ClientsPerRegion is the number of concurrent clients in each region; in an open loop, the largest number of
	// transactions that are under way at once.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=100
	// +optional
	ClientsPerRegion int32 `json:"clientsPerRegion,omitempty"`
	// WorkersPerRegion is the number of worker processes that share a region's clients.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +kubebuilder:default=1
	// +optional
	WorkersPerRegion int32 `json:"workersPerRegion,omitempty"`
	// Arrival is Closed (a client sends its next transaction after the answer and its think time), Constant or Poisson
	// (transactions arrive at ratePerSecond whatever the database does; latency counts from the intended start).
	// +kubebuilder:default=Closed
	// +optional
	Arrival Arrival `json:"arrival,omitempty"`
	// RatePerSecond is how many transactions arrive per second in each region, in an open loop.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000000
	// +kubebuilder:default=0
	// +optional
	RatePerSecond int64 `json:"ratePerSecond"`
	// ThinkTime is the mean of what passes between an answer and the client's next transaction, in a closed loop: think times
	// are exponentially distributed, as in TPC-C, and at most ten times the mean.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('1h')",message="must be 0s to 1h"
	// +kubebuilder:default="0s"
	// +optional
	ThinkTime Duration `json:"thinkTime"`
	// RequestTimeout after which a transaction without an answer counts as timed out.
	// +kubebuilder:validation:XValidation:rule="self > duration('0s') && self <= duration('1h')",message="must be longer than 0s and at most 1h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	RequestTimeout Duration `json:"requestTimeout,omitzero"`
	// Warmup runs the load without measuring, before each repetition.
	// +kubebuilder:validation:XValidation:rule="self >= duration('0s') && self <= duration('168h')",message="must be 0s to 168h, for example 10s"
	// +kubebuilder:default="10s"
	// +optional
	Warmup Duration `json:"warmup"`
	// Duration of one measured repetition.
	// +kubebuilder:validation:XValidation:rule="self <= duration('168h')",message="must be at most 168h, for example 30s"
	// +kubebuilder:default="30s"
	// +optional
	Duration Duration `json:"duration,omitzero"`
	// Repetitions of the warm-up and the measured period, on the same data.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Repetitions int32 `json:"repetitions,omitempty"`
	// Resources of one worker pod. A run whose worker uses over 80% of its CPU is Invalid.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// Arrival says how transactions arrive.
// +kubebuilder:validation:Enum=Closed;Constant;Poisson
type Arrival string

const (
	// ArrivalClosed is a closed loop: each client has one transaction under way.
	ArrivalClosed Arrival = "Closed"
	// ArrivalConstant is an open loop with equal gaps.
	ArrivalConstant Arrival = "Constant"
	// ArrivalPoisson is an open loop with exponentially distributed gaps.
	ArrivalPoisson Arrival = "Poisson"
)

// Objective is a bound on a measured figure.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="min and max are both missing: an objective needs at least one bound"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !self.metric.startsWith('latency') || (type(self.max) == string && size(self.max) <= 18 && duration(self.max) >= duration('0s'))",message="the bound of a latency is a duration, for example 250ms",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !self.metric.startsWith('latency') || (type(self.min) == string && size(self.min) <= 18 && duration(self.min) >= duration('0s'))",message="the bound of a latency is a duration, for example 1ms",fieldPath=".min"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.metric.startsWith('latency') || (type(self.max) == int && self.max >= 0 && self.max <= 2147483647)",messageExpression="'max is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.max, self.metric])",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || self.metric.startsWith('latency') || (type(self.min) == int && self.min >= 0 && self.min <= 2147483647)",messageExpression="'min is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.min, self.metric])",fieldPath=".min"
type Objective struct {
	// Metric that is bounded: throughput (committed transactions per second), latencyP50 to latencyP99 (of committed
	// transactions), or abortPPM (aborted of all, in parts per million).
	// +required
	Metric Metric `json:"metric"`
	// Transaction restricts the metric to one type, for example balance; unset, it is over all.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Transaction string `json:"transaction,omitempty"`
	// Region restricts the metric to clients of one region; unset, it is over all.
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Min is the least value that holds: a duration for latencies, else an integer.
	// +optional
	Min *Bound `json:"min,omitempty"`
	// Max is the greatest value that holds: a duration for latencies, else an integer.
	// +optional
	Max *Bound `json:"max,omitempty"`
}

// Metric is a measured figure that an objective can bound.
// +kubebuilder:validation:Enum=throughput;latencyP50;latencyP90;latencyP95;latencyP99;abortPPM
type Metric string

const (
	// MetricThroughput is committed transactions per second.
	MetricThroughput Metric = "throughput"
	// MetricLatencyP50 is the median latency of committed transactions.
	MetricLatencyP50 Metric = "latencyP50"
	// MetricLatencyP90 is the 90th percentile of the latency of committed transactions.
	MetricLatencyP90 Metric = "latencyP90"
	// MetricLatencyP95 is the 95th percentile of the latency of committed transactions.
	MetricLatencyP95 Metric = "latencyP95"
	// MetricLatencyP99 is the 99th percentile of the latency of committed transactions.
	MetricLatencyP99 Metric = "latencyP99"
	// MetricAbortPPM is the share of aborted transactions, in parts per million.
	MetricAbortPPM Metric = "abortPPM"
)

// Verification is a check of the answers and the data.
// +kubebuilder:validation:Enum=Invariants;Serializable;StrictSerializable;Convergence
type Verification string

const (
	// VerifyInvariants checks the workload's invariants at the end, for example the sum of all money.
	VerifyInvariants Verification = "Invariants"
	// VerifySerializable checks that the recorded history has a serial order.
	VerifySerializable Verification = "Serializable"
	// VerifyStrictSerializable checks that the serial order also agrees with real time.
	VerifyStrictSerializable Verification = "StrictSerializable"
	// VerifyConvergence checks that all copies of the data are equal at the end.
	VerifyConvergence Verification = "Convergence"
)

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
	// VerdictFailed means that an objective does not hold, a check failed, or the run could not finish.
	VerdictFailed Verdict = "Failed"
	// VerdictInvalid means that the measurement cannot be trusted, for example because the driver was the bottleneck.
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
	// ConditionMeasured is true once every worker has reported.
	ConditionMeasured = "Measured"
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
	// Stage summarises the conditions: what the run does now.
	// +optional
	Stage Stage `json:"stage,omitempty"`
	// StageStartTime is when the stage began; each stage has a deadline.
	// +optional
	StageStartTime *metav1.Time `json:"stageStartTime,omitempty"`
	// Conditions: Accepted, DatabaseReady, NetworkVerified, DataLoaded, Measured, Completed.
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
	// LatencyMicroseconds of committed transactions.
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
	// LatencyMicroseconds of committed transactions.
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
	// MultiHomePPM is the realised share of multi-home transactions, in parts per million.
	// +optional
	MultiHomePPM int64 `json:"multiHomePPM"`
	// MultiPartitionPPM is the realised share of multi-partition transactions, in parts per million.
	// +optional
	MultiPartitionPPM int64 `json:"multiPartitionPPM"`
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
	// LatencyMicroseconds of committed transactions.
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
	// Measured value with its unit, for example 231.4ms.
	// +kubebuilder:validation:MaxLength=64
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
// +kubebuilder:printcolumn:name="Txn/s",type=integer,JSONPath=`.status.summary.throughputPerSecond`
// +kubebuilder:printcolumn:name="P50(us)",type=integer,JSONPath=`.status.summary.latencyMicroseconds.p50`
// +kubebuilder:printcolumn:name="P99(us)",type=integer,JSONPath=`.status.summary.latencyMicroseconds.p99`
// +kubebuilder:printcolumn:name="Aborts(ppm)",type=integer,JSONPath=`.status.summary.abortPPM`
// +kubebuilder:printcolumn:name="Verdict",type=string,JSONPath=`.status.verdict`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 32 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",messageExpression="'metadata.name ' + self.metadata.name + ' names worker pods together with the region: it must be at most 32 lower-case letters, digits and dashes, and start with a letter'"
type BenchmarkRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec says what to run; it is immutable but for runID.
	// +required
	Spec BenchmarkRunSpec `json:"spec"`
	// Status says how far the run is and what it found.
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
