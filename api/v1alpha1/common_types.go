package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Duration is a Go duration string of one to four numbers, each with a unit of ns, us, ms, s, m or h. Examples are
// 400us, 5ms and 1m30s. The API server compares durations by value, so "90s" equals "1m30s".
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=duration
// +kubebuilder:validation:MaxLength=18
// +kubebuilder:validation:Pattern=`^-?([0-9]{1,6}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,4}$`
type Duration struct {
	time.Duration `json:"-"`
}

// Bound is a limit of an objective: a duration string for latencies, or an integer for all other metrics.
//
// +kubebuilder:validation:XIntOrString
type Bound = intstr.IntOrString

// Conditions of BenchmarkRuns, Experiments and GeoDatabases for tools that do not know these kinds. The first three are
// the conditions of kstatus, which Flux and Helm use; Succeeded is the condition of Knative and Tekton. Package health
// sets them.
const (
	// ConditionReady is present once the operator has processed the object. It is true if the actual state matches the
	// spec and, for a run or an experiment, once it has finished successfully.
	ConditionReady = "Ready"
	// ConditionReconciling is present, and true, while the operator works on the object.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is present, and true, if the object cannot make progress until a user changes something.
	ConditionStalled = "Stalled"
	// ConditionSucceeded is present once a run or an experiment has finished. It is true if the object succeeded.
	ConditionSucceeded = "Succeeded"
)

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// LatencyMicroseconds contains percentiles of the time from when a transaction was due until it committed, in
// microseconds. Transactions that were due and never committed rank above all others, so a percentile that falls among
// them is only a lower bound.
type LatencyMicroseconds struct {
	// P50 is the median.
	// +optional
	P50 Quantile `json:"p50"`
	// P90 is the 90th percentile.
	// +optional
	P90 Quantile `json:"p90"`
	// P95 is the 95th percentile.
	// +optional
	P95 Quantile `json:"p95"`
	// P99 is the 99th percentile.
	// +optional
	P99 Quantile `json:"p99"`
}

// RTTMicroseconds contains percentiles of a measured round-trip time, in microseconds.
type RTTMicroseconds struct {
	// P50 is the median.
	// +optional
	P50 int64 `json:"p50"`
	// P99 is the 99th percentile.
	// +optional
	P99 int64 `json:"p99"`
}
