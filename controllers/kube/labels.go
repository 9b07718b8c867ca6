package kube

import (
	"github.com/geobench/geobench/api/v1alpha1"
)

// Labels on objects that the operator makes.
const (
	// LabelDatabase is the GeoDatabase's name.
	LabelDatabase = "geobench.dev/database"
	// LabelRegion is the region that a pod plays in: network emulation and dashboards select by it.
	LabelRegion = "geobench.dev/region"
	// LabelRole has a Role constant.
	LabelRole = "geobench.dev/role"
	// LabelServer is the role of spec.roles that a pod of a database has, and LabelInit the step of spec.init that a Job
	// carries out.
	LabelServer = "geobench.dev/server"
	LabelInit   = "geobench.dev/init"
	// LabelRun is the BenchmarkRun's name.
	LabelRun = "geobench.dev/run"
	// LabelAttempt distinguishes the objects of one spec.runID from the objects of the next.
	LabelAttempt = "geobench.dev/attempt"
	// LabelExperiment is the name of the Experiment that made a database, a run or a report.
	LabelExperiment = "geobench.dev/experiment"
	// LabelExpired is "true" on the result of a run that was deleted because its time to live was over.
	LabelExpired = "geobench.dev/expired"
	// LabelIncarnation is the database's incarnation that a node belongs to.
	LabelIncarnation = "geobench.dev/incarnation"
	// LabelManagedBy has the value ManagedBy on everything that the operator makes: its caches select by it.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"

	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "geobench"

	// LabelTopologyRegion is what cloud providers put on Kubernetes nodes.
	LabelTopologyRegion = "topology.kubernetes.io/region"
)

// The roles of objects.
const (
	// RoleNode is a node of a database.
	RoleNode = "node"
	// RoleTopology is the ConfigMap that nodes read.
	RoleTopology = "topology"
	// RoleNetwork is the role of objects for the emulation of a database's network.
	RoleNetwork = "network"
	// RoleWorker is the role of clients of a database in a region: a load generator with its objects, or a step of
	// spec.init.
	RoleWorker = "worker"
	// RoleReport is the ConfigMap where a worker and the operator meet.
	RoleReport = "report"
	// RoleSnapshot is a ConfigMap with the initial state of a run: the nodes' counters, the manifests.
	RoleSnapshot = "snapshot"
	// RoleCredentials is a Secret with the keys and certificates of pods.
	RoleCredentials = "credentials"
	// RoleFault is what injects a run's faults.
	RoleFault = "fault"
	// RoleResult is the ConfigMap with the result document.
	RoleResult = "result"
	// RolePoint is a database or a run of an Experiment.
	RolePoint = "point"
	// RoleFunctionalTest is a BenchmarkRun that a run starts before its measurement: LabelRun has the name of that run.
	RoleFunctionalTest = "functional-test"
	// RoleFindings is the ConfigMap with an Experiment's claims and figures.
	RoleFindings = "findings"
)

// DatabaseLabels returns the labels of objects made for a database; role is a Role constant.
func DatabaseLabels(db *v1alpha1.GeoDatabase, role string) map[string]string {
	return map[string]string{
		LabelDatabase:  db.Name,
		LabelRole:      role,
		LabelManagedBy: ManagedBy,
		labelName:      "geobench-database",
		labelInstance:  db.Name,
		labelComponent: role,
	}
}

// RunLabels returns the labels of objects made for an attempt of a run; role is a Role constant.
func RunLabels(run *v1alpha1.BenchmarkRun, role string) map[string]string {
	return map[string]string{
		LabelRun:       run.Name,
		LabelAttempt:   Attempt(run),
		LabelRole:      role,
		LabelManagedBy: ManagedBy,
		labelName:      "geobench-run",
		labelInstance:  run.Name,
		labelComponent: role,
	}
}

// ExperimentLabels returns the labels of objects made for an experiment; role is a Role constant.
func ExperimentLabels(e *v1alpha1.Experiment, role string) map[string]string {
	return map[string]string{
		LabelExperiment: e.Name,
		LabelRole:       role,
		LabelManagedBy:  ManagedBy,
		labelName:       "geobench-experiment",
		labelInstance:   e.Name,
		labelComponent:  role,
	}
}

// WithLabel returns a copy of labels with an additional label.
func WithLabel(labels map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(labels)+1)
	for k, v := range labels {
		out[k] = v
	}
	out[key] = value
	return out
}
