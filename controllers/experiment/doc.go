// Package experiment plays Experiments: internal/run/experiment expands one, as geobench verify does (expand.go); a
// schedule that knows nothing but what there is says which databases and runs to make and to remove (schedule.go,
// points.go); once all runs have ended, the claims are judged over their results (judge.go).
package experiment

// +kubebuilder:rbac:groups=geobench.dev,resources=experiments,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/status,verbs=patch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=networkprofiles,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch
