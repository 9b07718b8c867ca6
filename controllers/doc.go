// Package controllers reconciles GeoDatabases, BenchmarkRuns and Experiments: it deploys a database across regions, checks that the
// network between them is the one that was declared, drives a workload from every region and leaves a typed result.
//
// The controllers are built alike. Reconcile reads the object from the API server itself (not from the cache, which may
// be behind), makes a scope around it and calls small steps that change the object in memory; one patch with an
// optimistic lock writes the status at the end. What a step does to the outside is named after the object, so that doing
// it twice is the same as doing it once, and is recorded in the status before it is done where doing it twice would
// be wrong. Nothing else is remembered: an operator that is killed at any point goes on where the API server says.
//
// A GeoDatabase lives through incarnations (database_incarnation.go): a set of nodes that started together from one
// immutable ConfigMap. Nodes keep their data in memory, so a database that lost a node is made anew.
//
// A BenchmarkRun goes through stages, each in the file named after it (run_preflight.go ... run_evaluate.go); deadlines
// are in deadlines.go, events in events.go, and everything that a run leaves behind goes in run_cleanup.go.
//
// An Experiment is expanded by package experiment, as geobench verify does (experiment_expand.go); a schedule that knows
// nothing but what there is says which databases and runs to make and to remove (experiment_schedule.go); once all runs have
// ended, its claims are judged over their results (experiment_judge.go).
package controllers

// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases/status,verbs=get;patch
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=networkprofiles,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns/status,verbs=get;patch
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/status,verbs=get;patch
// +kubebuilder:rbac:groups=geobench.dev,resources=experiments/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=chaos-mesh.org,resources=networkchaos;podchaos;stresschaos;timechaos,verbs=get;list;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=geobench-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=geobench-system,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=secrets,namespace=geobench-system,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=geobench-authority,namespace=geobench-system,verbs=get;patch
