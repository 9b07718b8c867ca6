package deploy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// OwnMemory is the default memory limit of a node or worker. The limit prevents a process that grows without bound from
// exhausting the memory of its machine. A node rejects a data set that does not fit.
const OwnMemory = "8Gi"

// FullPercent is the percentage of its memory that a node may fill with loaded rows. The rest is for the versions,
// locks and messages of a run, and for uncollected garbage.
const FullPercent = 75

// MemoryLimit returns the memory limit of a Geobench program with these resources. It is the declared limit or, if
// there is none, the larger of OwnMemory and the declared request.
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

// RuntimeMemory returns the memory limit of the Go runtime (GOMEMLIMIT), in bytes, for a container with the given
// limit. It is 90% of the container's limit, so that the garbage collector works harder before the container is killed.
func RuntimeMemory(limit int64) int64 { return limit / 10 * 9 }
