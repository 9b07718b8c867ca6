// Package run reconciles BenchmarkRuns: it moves each run through its stages.
//
// A stage is a row of the table in stages.go: its step, the condition that it waits for, and its deadline. The step of
// each stage is in the file named after the stage, for example preflight.go for Preflight. Further deadlines are in
// deadlines.go, events in events.go, and the removal of a run's objects in cleanup.go. The file queue.go orders the
// runs that wait for a database, and tests.go runs the functional tests of a run. The file background.go starts
// background jobs, and cache.go caches data that need not be read again while a run is measured.
//
// faults.go drives the fault timeline of a run. An injector instructs nodes, sidecars, Chaos Mesh and Kubernetes
// (fault_injector.go, fault_chaos.go) and reads their logs (fault_logs.go). tamper.go detects effects of foreign Chaos
// Mesh objects on a run's pods, and routes.go detects foreign changes of Services and NetworkPolicies.
package run

// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns/status,verbs=patch
// +kubebuilder:rbac:groups=geobench.dev,resources=benchmarkruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases,verbs=get;list;watch
// +kubebuilder:rbac:groups=geobench.dev,resources=geodatabases/status,verbs=patch
// +kubebuilder:rbac:groups=geobench.dev,resources=networkprofiles,verbs=get
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;create;delete
// +kubebuilder:rbac:groups=chaos-mesh.org,resources=networkchaos;podchaos;stresschaos;timechaos,verbs=get;list;create;patch;delete
