// Package experiment runs Experiments. internal/run/experiment expands an experiment, as for geobench verify
// (expand.go). A schedule decides which databases and runs to create and to delete; its decisions depend only on the
// existing objects (schedule.go, points.go). Once all runs have finished, the claims are evaluated over their results
// (judge.go).
package experiment

// +kubebuilder:rbac:groups=geobench.dev,resources=experiments,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/status,verbs=patch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=networkprofiles,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch
