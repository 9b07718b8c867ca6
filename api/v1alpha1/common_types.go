package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Duration is a Go duration string: one to four numbers, each with a unit of ns, us, ms, s, m, h; for example 400us, 5ms,
// 1m30s. The API server compares durations by value, so "90s" equals "1m30s".
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

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
}

// LatencyMicroseconds holds percentiles of a latency, in microseconds.
type LatencyMicroseconds struct {
	// P50 is the median.
	// +optional
	P50 int64 `json:"p50"`
	// P90 is the 90th percentile.
	// +optional
	P90 int64 `json:"p90"`
	// P95 is the 95th percentile.
	// +optional
	P95 int64 `json:"p95"`
	// P99 is the 99th percentile.
	// +optional
	P99 int64 `json:"p99"`
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
