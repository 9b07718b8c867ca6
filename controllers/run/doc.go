// Package run leads BenchmarkRuns through their stages.
//
// A stage is a row of the table in stages.go: what is done in it, the condition that says what it waits for, and for
// how long. Each is in the file named after it (preflight.go ... evaluate.go); the other deadlines are in deadlines.go,
// events in events.go, and everything that a run leaves behind goes in cleanup.go. How runs take turns on a database is
// in queue.go, the functional tests that come before one in tests.go, what they do aside in background.go, and what
// need not be read again while a run measures in cache.go.
//
// The faults of a run are played in faults.go, by an injector that tells nodes, sidecars, Chaos Mesh and Kubernetes
// what to do (fault_injector.go, fault_chaos.go) and asks them what they did (fault_logs.go). What others have Chaos
// Mesh do to a run's pods is noticed in tamper.go, what they write to Services and NetworkPolicies in routes.go.
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
