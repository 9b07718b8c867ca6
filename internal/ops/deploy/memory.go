package deploy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// OwnMemory is the default memory limit of a node or a worker. It prevents a process that grows without bound from
// ending others on its machine. A node rejects a data set that does not fit.
const OwnMemory = "8Gi"

// FullPercent is the share of its memory that a node may fill with loaded rows. The rest is for the versions, locks and
// messages of a run, and for garbage that is not collected yet.
const FullPercent = 75

// MemoryLimit returns the memory limit of a program of Geobench with these resources: a request beyond OwnMemory is the
// limit.
func MemoryLimit(r *corev1.ResourceRequirements) resource.Quantity {
	if limit, ok := r.Limits[corev1.ResourceMemory]; ok {
		return limit
	}
	limit := resource.MustParse(OwnMemory)
	if request := r.Requests.Memory(); request.Cmp(limit) > 0 {
		return *request
	}
	return limit
}

// RuntimeMemory returns the memory limit of the Go runtime (GOMEMLIMIT) in a container that may use limit bytes, in
// bytes: the garbage collector works harder beyond 90% of the limit.
func RuntimeMemory(limit int64) int64 { return limit / 10 * 9 }
