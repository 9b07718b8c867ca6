package controllers

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

// joinName joins parts to a DNS label of at most limit characters that starts with a letter. A name that had to be
// changed ends in a hash of the parts, so that different parts make different names.
func joinName(limit int, parts ...string) string {
	name := strings.Join(parts, "-")
	clean := strings.ReplaceAll(name, ".", "-")
	if clean[0] < 'a' || clean[0] > 'z' {
		clean = "g" + clean
	}
	if clean == name && len(name) <= limit {
		return name
	}
	hash := shortHash(parts...)
	if room := limit - len(hash) - 1; len(clean) > room {
		clean = strings.TrimRight(clean[:room], "-")
	}
	return clean + "-" + hash
}

// shortHash is eight hexadecimal digits that stand for the parts.
func shortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// regionName names the Service and the StatefulSet of a database's region.
func regionName(db *v1alpha1.GeoDatabase, region string) string {
	return joinName(maxRegionName, db.Name, region)
}

// podName names the node with this ordinal in a region: partition x replicas + replica.
func podName(db *v1alpha1.GeoDatabase, region string, ordinal int) string {
	return fmt.Sprintf("%s-%d", regionName(db, region), ordinal)
}

// nodePodName names the pod of a node.
func nodePodName(db *v1alpha1.GeoDatabase, t *geo.Topology, n geo.NodeID) string {
	return podName(db, t.Regions[t.RegionOf(n)], t.PartitionOf(n)*t.Replicas+t.ReplicaOf(n))
}

// topologyName names the ConfigMap of a database's incarnation.
func topologyName(db *v1alpha1.GeoDatabase, incarnation string) string {
	return joinName(253, db.Name, "topology", incarnation)
}

// networkName names the ConfigMap that tells the sidecars of a region.
func networkName(db *v1alpha1.GeoDatabase, region string) string {
	return joinName(253, db.Name, "network", region)
}

// generatorsName names the Service of a region's load generators.
func generatorsName(db *v1alpha1.GeoDatabase, region string) string {
	return joinName(63, db.Name, region, "workers")
}

// attempt names one execution of a run: another object or another spec.runID is another attempt.
func attempt(run *v1alpha1.BenchmarkRun) string {
	return shortHash(string(run.UID), run.Status.RunID)
}

// workerName names the Job, the ServiceAccount, the Role, the RoleBinding and the ConfigMap of a region's workers.
func workerName(run *v1alpha1.BenchmarkRun, region string) string {
	return joinName(maxWorkerName, run.Name, region, attempt(run))
}

// reportName names the ConfigMap where worker number index of a region meets the operator.
func reportName(run *v1alpha1.BenchmarkRun, region string, index int) string {
	return fmt.Sprintf("%s-%d", workerName(run, region), index)
}

// snapshotName names the ConfigMap with the nodes' counters from before and after measuring.
func snapshotName(run *v1alpha1.BenchmarkRun) string {
	return joinName(253, run.Name, "nodes", attempt(run))
}

// manifestsName names the ConfigMap with the manifests that an attempt of a run began with.
func manifestsName(run *v1alpha1.BenchmarkRun) string {
	return joinName(253, run.Name, "manifests", attempt(run))
}

// credentialsName names the Secret with the credentials of a database's pods.
func credentialsName(db *v1alpha1.GeoDatabase) string { return joinName(253, db.Name, "credentials") }

// runCredentialsName names the Secret with the credentials of an attempt's workers.
func runCredentialsName(run *v1alpha1.BenchmarkRun) string {
	return joinName(253, run.Name, "credentials", attempt(run))
}

// ResultName names the ConfigMap with a run's result document.
func ResultName(run *v1alpha1.BenchmarkRun) string { return joinName(253, run.Name, "result") }

// FindingsName names the ConfigMap with an experiment's report.
func FindingsName(e *v1alpha1.Experiment) string { return joinName(253, e.Name, "findings") }
