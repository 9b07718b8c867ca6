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

// Bound is a limit of an objective: a duration string for latencies, else an integer.
//
// +kubebuilder:validation:XIntOrString
type Bound = intstr.IntOrString

// Conditions of BenchmarkRuns, Experiments and GeoDatabases for tools that do not know these kinds. They are the
// conditions of kstatus, which Flux and Helm use, and the condition of Knative and Tekton. Package health sets them.
const (
	// ConditionReady is always there once the operator has seen the object. It is true when all is as the spec wants it, and what
	// ends has ended well.
	ConditionReady = "Ready"
	// ConditionReconciling is there, and true, while the operator works on it.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is there, and true, when nothing will come of it without a change.
	ConditionStalled = "Stalled"
	// ConditionSucceeded is present once a run or an experiment has finished, and reports whether it succeeded.
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

// LatencyMicroseconds holds percentiles of the time from when a transaction was due until it committed, in microseconds.
// Transactions that were due and never committed rank above all others, so that a percentile among them is a lower bound.
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

// RTTMicroseconds holds percentiles of a measured round-trip time, in microseconds.
type RTTMicroseconds struct {
	// P50 is the median.
	// +optional
	P50 int64 `json:"p50"`
	// P99 is the 99th percentile.
	// +optional
	P99 int64 `json:"p99"`
}
