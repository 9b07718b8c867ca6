package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/geo"
)

const (
	// maxRegionName leaves room, in a pod's label of 63 characters, for what a StatefulSet appends to its name.
	maxRegionName = 52
	// maxWorkerName leaves room for what an indexed Job appends to its name: the index and five random characters.
	maxWorkerName = 52
)

// JoinName joins parts to a DNS label of at most limit characters that starts with a letter. A name that had to be
// changed ends in a hash of the parts, so that different parts make different names.
func JoinName(limit int, parts ...string) string {
	name := strings.Join(parts, "-")
	clean := strings.ReplaceAll(name, ".", "-")
	if clean[0] < 'a' || clean[0] > 'z' {
		clean = "g" + clean
	}
	if clean == name && len(name) <= limit {
		return name
	}
	hash := ShortHash(parts...)
	if room := limit - len(hash) - 1; len(clean) > room {
		clean = strings.TrimRight(clean[:room], "-")
	}
	return clean + "-" + hash
}

// ShortHash is eight hexadecimal digits that stand for the parts.
func ShortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// RegionName names the Service and the StatefulSet of a database's region.
func RegionName(db *v1alpha1.GeoDatabase, region string) string {
	return JoinName(maxRegionName, db.Name, region)
}

// PodName names the node with this ordinal in a region: partition x replicas + replica.
func PodName(db *v1alpha1.GeoDatabase, region string, ordinal int) string {
	return fmt.Sprintf("%s-%d", RegionName(db, region), ordinal)
}

// NodePodName names the pod of a node.
func NodePodName(db *v1alpha1.GeoDatabase, t *geo.Topology, n geo.NodeID) string {
	return PodName(db, t.Regions[t.RegionOf(n)], t.PartitionOf(n)*t.Replicas+t.ReplicaOf(n))
}

// TopologyName names the ConfigMap of a database's incarnation.
func TopologyName(db *v1alpha1.GeoDatabase, incarnation string) string {
	return JoinName(253, db.Name, "topology", incarnation)
}

// NetworkName names the ConfigMap that tells the sidecars of a region.
func NetworkName(db *v1alpha1.GeoDatabase, region string) string {
	return JoinName(253, db.Name, "network", region)
}

// GeneratorsName names the Service of a region's load generators.
func GeneratorsName(db *v1alpha1.GeoDatabase, region string) string {
	return JoinName(63, db.Name, region, "workers")
}

// Attempt names one execution of a run: another object or another spec.runID is another attempt.
func Attempt(run *v1alpha1.BenchmarkRun) string {
	return ShortHash(string(run.UID), run.Status.RunID)
}

// WorkerName names the Job, the ServiceAccount, the Role, the RoleBinding and the ConfigMap of a region's workers.
func WorkerName(run *v1alpha1.BenchmarkRun, region string) string {
	return JoinName(maxWorkerName, run.Name, region, Attempt(run))
}

// StewardName names the Job that loads and audits a database for a run, and the ConfigMap that it reads.
func StewardName(run *v1alpha1.BenchmarkRun) string {
	return JoinName(maxWorkerName, run.Name, "steward", Attempt(run))
}

// ReportName names the ConfigMap where worker number index of a region meets the operator.
func ReportName(run *v1alpha1.BenchmarkRun, region string, index int) string {
	return fmt.Sprintf("%s-%d", WorkerName(run, region), index)
}

// SnapshotName names the ConfigMap with the nodes' counters from before and after measuring.
func SnapshotName(run *v1alpha1.BenchmarkRun) string {
	return JoinName(253, run.Name, "nodes", Attempt(run))
}

// ManifestsName names the ConfigMap with the manifests that an attempt of a run began with.
func ManifestsName(run *v1alpha1.BenchmarkRun) string {
	return JoinName(253, run.Name, "manifests", Attempt(run))
}

// CredentialsName names the Secret with the credentials of a database's pods.
func CredentialsName(db *v1alpha1.GeoDatabase) string { return JoinName(253, db.Name, "credentials") }

// RunCredentialsName names the Secret with the credentials of an attempt's workers.
func RunCredentialsName(run *v1alpha1.BenchmarkRun) string {
	return JoinName(253, run.Name, "credentials", Attempt(run))
}

// ResultName names the ConfigMap with a run's result document.
func ResultName(run *v1alpha1.BenchmarkRun) string { return JoinName(253, run.Name, "result") }

// FindingsName names the ConfigMap with an experiment's report.
func FindingsName(e *v1alpha1.Experiment) string { return JoinName(253, e.Name, "findings") }
