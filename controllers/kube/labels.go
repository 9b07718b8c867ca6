package kube

import (
	"github.com/geobench/geobench/api/v1alpha1"
)

// Labels on objects that the operator creates.
const (
	// LabelDatabase is the name of the GeoDatabase.
	LabelDatabase = "geobench.dev/database"
	// LabelRegion is the region to which a pod belongs. Network emulation and dashboards select pods by this label.
	LabelRegion = "geobench.dev/region"
	// LabelRole is one of the Role constants.
	LabelRole = "geobench.dev/role"
	// LabelServer is the role in spec.roles to which a pod of a database belongs. LabelInit is the step of spec.init that
	// a Job executes.
	LabelServer = "geobench.dev/server"
	LabelInit   = "geobench.dev/init"
	// LabelRun is the name of the BenchmarkRun.
	LabelRun = "geobench.dev/run"
	// LabelAttempt distinguishes the objects of one execution of a run from the objects of its other executions: see
	// Attempt.
	LabelAttempt = "geobench.dev/attempt"
	// LabelExperiment is the name of the Experiment that created a database, a run or a report.
	LabelExperiment = "geobench.dev/experiment"
	// LabelExpired is "true" on the result of a run that was deleted at the end of its retention time.
	LabelExpired = "geobench.dev/expired"
	// LabelIncarnation is the incarnation of the database to which a node belongs.
	LabelIncarnation = "geobench.dev/incarnation"
	// LabelManagedBy has the value ManagedBy on every object that the operator creates. The operator's caches select by
	// this label.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"

	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "geobench"

	// LabelTopologyRegion is the label with which cloud providers mark the region of a Kubernetes node.
	LabelTopologyRegion = "topology.kubernetes.io/region"
)

// Values of LabelRole.
const (
	// RoleNode is the role of nodes of a database.
	RoleNode = "node"
	// RoleTopology is the role of the ConfigMap that nodes read.
	RoleTopology = "topology"
	// RoleNetwork is the role of objects for the emulation of a database's network.
	RoleNetwork = "network"
	// RoleWorker is the role of clients of a database in a region: a load generator with its objects, or a step of
	// spec.init.
	RoleWorker = "worker"
	// RoleReport is the role of the ConfigMap through which a worker and the operator communicate.
	RoleReport = "report"
	// RoleSnapshot is the role of ConfigMaps with recorded state of a run: its manifests, and snapshots of the nodes.
	RoleSnapshot = "snapshot"
	// RoleCredentials is the role of Secrets with the keys and certificates of pods.
	RoleCredentials = "credentials"
	// RoleFault is the role of objects that inject a run's faults.
	RoleFault = "fault"
	// RoleResult is the role of the ConfigMap with the result document.
	RoleResult = "result"
	// RolePoint is the role of databases and runs of an Experiment.
	RolePoint = "point"
	// RoleFunctionalTest is the role of a BenchmarkRun that another run starts before its measurement. LabelRun names
	// that other run.
	RoleFunctionalTest = "functional-test"
	// RoleFindings is the role of the ConfigMap with an Experiment's claims and figures.
	RoleFindings = "findings"
)

// DatabaseLabels returns the labels of objects created for a database. role is a Role constant.
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

// RunLabels returns the labels of objects created for an attempt of a run. role is a Role constant.
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

// ExperimentLabels returns the labels of objects created for an experiment. role is a Role constant.
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
