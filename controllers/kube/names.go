package kube

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// maxWorkerName is the maximum length of a Job's name. It leaves room for the suffix that an indexed Job adds to the
// names of its pods: the index and five random characters.
const maxWorkerName = 52

// RegionName returns the name of the Service and the StatefulSet of a region, for a database without roles.
func RegionName(db *v1alpha1.GeoDatabase, region string) string {
	return deploy.SetName(db.Name, region, "")
}

// PodName returns the name of the pod with the given ordinal in a region: partition x replicas + replica.
func PodName(db *v1alpha1.GeoDatabase, region string, ordinal int) string {
	return fmt.Sprintf("%s-%d", RegionName(db, region), ordinal)
}

// NodePodName returns the name of a node's pod. It returns "" if the node has no pod, because its region has fewer pods
// than another region.
func NodePodName(db *v1alpha1.GeoDatabase, t *geo.Topology, n geo.NodeID) string {
	if len(db.Spec.Roles) > 0 {
		if pods := deploy.PodsIn(db, t.Regions[t.RegionOf(n)]); t.ReplicaOf(n) < len(pods) {
			return pods[t.ReplicaOf(n)].Name
		}
		return ""
	}
	return PodName(db, t.Regions[t.RegionOf(n)], t.PartitionOf(n)*t.Replicas+t.ReplicaOf(n))
}

// TopologyName returns the name of the ConfigMap of a database's incarnation.
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

// GeneratorsName returns the name of the Service of a region's load generators.
func GeneratorsName(db *v1alpha1.GeoDatabase, region string) string {
	return deploy.GeneratorsName(db.Name, region)
}

// InitName returns the name of the Job of a step of spec.init in an incarnation of a database.
func InitName(db *v1alpha1.GeoDatabase, incarnation, step string) string {
	return deploy.JoinName(maxWorkerName, db.Name, "init", step, incarnation)
}

// NewExecution returns a random name for an execution of a run: see v1alpha1.BenchmarkRunStatus.Execution.
func NewExecution() string { return strings.ToLower(rand.Text()[:16]) }

// Attempt returns an identifier of one execution of a run, for names, labels and seals. Setting spec.runID back to an
// earlier value starts a new attempt. So the run accepts neither leftovers of the earlier attempt nor objects that a
// user restores.
func Attempt(run *v1alpha1.BenchmarkRun) string {
	of := []string{string(run.UID), run.Status.RunID}
	if run.Status.Execution != "" { // empty for a run that an earlier version of the operator started
		of = append(of, run.Status.Execution)
	}
	return deploy.ShortHash(of...)
}

// WorkerName returns the name of the Job, the ServiceAccount, the Role, the RoleBinding and the ConfigMap of a region's
// workers.
func WorkerName(run *v1alpha1.BenchmarkRun, region string) string {
	return deploy.JoinName(maxWorkerName, run.Name, region, Attempt(run))
}

// StewardName returns the name of the Job that loads and audits a database for a run, of its ServiceAccount, and of its
// ConfigMap.
func StewardName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(maxWorkerName, run.Name, deploy.Steward, Attempt(run))
}

// ReportName returns the name of the ConfigMap through which worker number index of a region communicates with the
// operator.
func ReportName(run *v1alpha1.BenchmarkRun, region string, index int) string {
	return fmt.Sprintf("%s-%d", WorkerName(run, region), index)
}

// SnapshotName returns the name of the ConfigMap with the notes of an attempt, including the nodes' counters before and
// after measuring.
func SnapshotName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "nodes", Attempt(run))
}

// ManifestsName returns the name of the ConfigMap with the manifests with which an attempt of a run started.
func ManifestsName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "manifests", Attempt(run))
}

// CredentialsName returns the name of the Secret with the credentials of a database's pods.
func CredentialsName(db *v1alpha1.GeoDatabase) string {
	return deploy.JoinName(253, db.Name, "credentials")
}

// RunCredentialsName returns the name of the Secret with the credentials of an attempt's workers.
func RunCredentialsName(run *v1alpha1.BenchmarkRun) string {
	return deploy.JoinName(253, run.Name, "credentials", Attempt(run))
}

// ResultName returns the name of the ConfigMap with a run's result document.
func ResultName(run *v1alpha1.BenchmarkRun) string { return deploy.JoinName(253, run.Name, "result") }

// FindingsName returns the name of the ConfigMap with an experiment's report.
func FindingsName(e *v1alpha1.Experiment) string { return deploy.JoinName(253, e.Name, "findings") }
