package kube

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// maxWorkerName leaves room for what an indexed Job appends to its name: the index and five random characters.
const maxWorkerName = 52

// RegionName names the Service and the StatefulSet of a region of a database without roles.
func RegionName(db *v1alpha1.GeoDatabase, region string) string {
	return deploy.SetName(db.Name, region, "")
}

// PodName names the node with this ordinal in a region: partition x replicas + replica.
func PodName(db *v1alpha1.GeoDatabase, region string, ordinal int) string {
	return fmt.Sprintf("%s-%d", RegionName(db, region), ordinal)
}

// NodePodName returns the name of a node's pod; empty if it has none, as in a region with fewer pods than another
// region.
func NodePodName(db *v1alpha1.GeoDatabase, t *geo.Topology, n geo.NodeID) string {
	if len(db.Spec.Roles) > 0 {
		if pods := deploy.PodsIn(db, t.Regions[t.RegionOf(n)]); t.ReplicaOf(n) < len(pods) {
			return pods[t.ReplicaOf(n)].Name
		}
		return ""
	}
	return PodName(db, t.Regions[t.RegionOf(n)], t.PartitionOf(n)*t.Replicas+t.ReplicaOf(n))
}

// TopologyName names the ConfigMap of a database's incarnation.
func TopologyName(db *v1alpha1.GeoDatabase, incarnation string) string {
	return deploy.JoinName(253, db.Name, "topology", incarnation)
}

// NodesAccountName returns the name of the ServiceAccount of a database's nodes, and of the steps of spec.init. It
// depends only on the database's name, so that authors of policies can derive it.
func NodesAccountName(db *v1alpha1.GeoDatabase) string { return db.Name + "-nodes" }

// NetworkName returns the name of the ConfigMap with the network of a region's sidecars.
func NetworkName(db *v1alpha1.GeoDatabase, region string) string {
	return deploy.JoinName(253, db.Name, "network", region)
}

// GeneratorsName names the Service of a region's load generators.
func GeneratorsName(db *v1alpha1.GeoDatabase, region string) string {
	return deploy.GeneratorsName(db.Name, region)
}

// InitName names the Job of a step of spec.init in an incarnation of a database.
func InitName(db *v1alpha1.GeoDatabase, incarnation, step string) string {
	return deploy.JoinName(maxWorkerName, db.Name, "init", step, incarnation)
}

// NewExecution makes up the name of an execution of a run: see v1alpha1.BenchmarkRunStatus.Execution.
func NewExecution() string { return strings.ToLower(rand.Text()[:16]) }

// Attempt identifies one execution of a run in names, labels and seals. A run that returns to an earlier spec.runID is
// a new attempt. So it accepts neither remains of the earlier attempt nor objects that a user restores.
func Attempt(run *v1alpha1.BenchmarkRun) string {
	of := []string{string(run.UID), run.Status.RunID}
	if run.Status.Execution != "" { // a run that an earlier version of the operator started has none
		of = append(of, run.Status.Execution)
	}
	return deploy.ShortHash(of...)
}

// WorkerName names the Job, the ServiceAccount, the Role, the RoleBinding and the ConfigMap of a region's workers.
func WorkerName(run *v1alpha1.BenchmarkRun, region string) string {
	return deploy.JoinName(maxWorkerName, run.Name, region, Attempt(run))
}

// StewardName names the Job that loads and audits a database for a run, its ServiceAccount, and the ConfigMap that it
// reads.
func StewardName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(maxWorkerName, run.Name, deploy.Steward, Attempt(run))
}

// ReportName names the ConfigMap where worker number index of a region meets the operator.
func ReportName(run *v1alpha1.BenchmarkRun, region string, index int) string {
	return fmt.Sprintf("%s-%d", WorkerName(run, region), index)
}

// SnapshotName names the ConfigMap with the nodes' counters from before and after measuring.
func SnapshotName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "nodes", Attempt(run))
}

// ManifestsName names the ConfigMap with the manifests that an attempt of a run began with.
func ManifestsName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "manifests", Attempt(run))
}

// CredentialsName names the Secret with the credentials of a database's pods.
func CredentialsName(db *v1alpha1.GeoDatabase) string {
	return deploy.JoinName(253, db.Name, "credentials")
}

// RunCredentialsName names the Secret with the credentials of an attempt's workers.
func RunCredentialsName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "credentials", Attempt(run))
}

// ResultName names the ConfigMap with a run's result document.
func ResultName(run *v1alpha1.BenchmarkRun) string { return deploy.JoinName(253, run.Name, "result") }

// FindingsName names the ConfigMap with an experiment's report.
func FindingsName(e *v1alpha1.Experiment) string { return deploy.JoinName(253, e.Name, "findings") }
