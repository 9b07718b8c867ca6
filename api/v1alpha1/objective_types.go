package v1alpha1

// Objective is a bound on a metric of a run.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="min and max are both missing: an objective needs at least one bound"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || !self.metric.startsWith('latency') || (type(self.max) == string && size(self.max) <= 18 && duration(self.max) >= duration('0s'))",message="the bound of a latency is a duration, for example 250ms",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !self.metric.startsWith('latency') || (type(self.min) == string && size(self.min) <= 18 && duration(self.min) >= duration('0s'))",message="the bound of a latency is a duration, for example 1ms",fieldPath=".min"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.metric.startsWith('latency') || (type(self.max) == int && self.max >= 0 && self.max <= 2147483647)",messageExpression="'max is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.max, self.metric])",fieldPath=".max"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || self.metric.startsWith('latency') || (type(self.min) == int && self.min >= 0 && self.min <= 2147483647)",messageExpression="'min is %s: the bound of %s must be a whole number from 0 to 2147483647, for example 1000'.format([self.min, self.metric])",fieldPath=".min"
type Objective struct {
	// Metric that is bounded. throughput is the number of committed transactions per second. latencyP50 to latencyP99 are
	// latency percentiles of all transactions that were due, excluding aborted transactions. abortPPM and unknownPPM are
	// the shares of transactions that aborted or have no answer, in parts per million. A transaction with retries counts
	// once, with the outcome of its last attempt.
	// +required
	Metric Metric `json:"metric"`
	// Transaction restricts the metric to one transaction type, for example balance. The default is all types.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Transaction string `json:"transaction,omitempty"`
	// Region restricts the metric to the clients of one region. The default is all regions.
	// +kubebuilder:validation:MaxLength=24
	// +optional
	Region string `json:"region,omitempty"`
	// Min is the smallest value that meets the objective: a duration for latencies, an integer for all other metrics.
	// +optional
	Min *Bound `json:"min,omitempty"`
	// Max is the largest value that meets the objective: a duration for latencies, an integer for all other metrics.
	// +optional
	Max *Bound `json:"max,omitempty"`
}

// Metric is a measured value that an objective can bound.
// +kubebuilder:validation:Enum=throughput;latencyP50;latencyP90;latencyP95;latencyP99;abortPPM;unknownPPM
type Metric string

const (
	// MetricThroughput is the number of committed transactions per second.
	MetricThroughput Metric = "throughput"
	// MetricLatencyP50 is the median latency.
	MetricLatencyP50 Metric = "latencyP50"
	// MetricLatencyP90 is the 90th percentile of the latency.
	MetricLatencyP90 Metric = "latencyP90"
	// MetricLatencyP95 is the 95th percentile of the latency.
	MetricLatencyP95 Metric = "latencyP95"
	// MetricLatencyP99 is the 99th percentile of the latency.
	MetricLatencyP99 Metric = "latencyP99"
	// MetricAbortPPM is the share of aborted transactions, in parts per million. Aborted attempts that were retried do
	// not count.
	MetricAbortPPM Metric = "abortPPM"
	// MetricUnknownPPM is the share of transactions without an answer, in parts per million of the transactions that were
	// due. Such a transaction has an unknown outcome (for example after requestTimeout), was never sent, or was hanging
	// when the window closed. A transaction hangs if it has waited for more than one second and more than three times the
	// 99th percentile.
	MetricUnknownPPM Metric = "unknownPPM"
)

// Verification is a check of the answers and the data of a run.
// +kubebuilder:validation:Enum=Invariants;ReadCommitted;SnapshotIsolation;SessionSnapshotIsolation;StrongSnapshotIsolation;Serializable;SessionSerializable;StrictSerializable;Convergence;Isolation
type Verification string

const (
	// VerifyInvariants checks the workload's invariants after the run, for example that the total balance is unchanged.
	VerifyInvariants Verification = "Invariants"
	// VerifyReadCommitted checks that no transaction in the recorded history read aborted or unfinished writes, and that
	// the flow of information between transactions has no cycle.
	VerifyReadCommitted Verification = "ReadCommitted"
	// VerifySnapshotIsolation checks that each transaction read from a snapshot, which may be old. It also checks
	// that only one of several concurrent transactions that wrote the same row committed.
	VerifySnapshotIsolation Verification = "SnapshotIsolation"
	// VerifySessionSnapshotIsolation checks snapshot isolation, and that a snapshot includes all earlier reads and writes
	// of the same client.
	VerifySessionSnapshotIsolation Verification = "SessionSnapshotIsolation"
	// VerifyStrongSnapshotIsolation checks snapshot isolation, and that a snapshot includes the effects of all
	// transactions that were answered before the snapshot was requested.
	VerifyStrongSnapshotIsolation Verification = "StrongSnapshotIsolation"
	// VerifySerializable checks that the recorded history is equivalent to a serial execution of its transactions.
	VerifySerializable Verification = "Serializable"
	// VerifySessionSerializable checks for a serial order that agrees with the order of each client's transactions.
	VerifySessionSerializable Verification = "SessionSerializable"
	// VerifyStrictSerializable checks for a serial order that agrees with real time.
	VerifyStrictSerializable Verification = "StrictSerializable"
	// VerifyIsolation checks that the recorded history has the isolation level that the database's engine promises.
	VerifyIsolation Verification = "Isolation"
	// VerifyConvergence checks that all copies of the data are equal at the end.
	VerifyConvergence Verification = "Convergence"
)
