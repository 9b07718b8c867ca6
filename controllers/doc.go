// Package controllers sets up the controllers of GeoDatabases, BenchmarkRuns and Experiments. They deploy a database
// across regions and verify that the network between the regions matches the declared network. Then they run a workload
// from every region and publish a typed result. Each controller is a separate package (database, run, experiment), and
// shared code is in packages next to them. Imports between these packages go in one direction, which a test enforces.
//
// All controllers have the same structure. Reconcile reads the object from the API server, because the cache may be
// stale. Only a run in the queue of a database is read from the cache. Reconcile then creates a scope for the object
// and calls small steps that change the object in memory. At the end, one patch with an optimistic lock writes the
// status.
//
// The names of objects that a step creates derive from the reconciled object, so the step is idempotent. If a step
// cannot be idempotent, it is recorded in the status before it runs. Long work is a background job (package
// background), which may also run twice. An operator that replaces a killed operator continues from the state in the
// API server. State in memory only saves requests.
//
// The rights of the operator are markers in the packages that use them. The markers here are for the manager.
package controllers

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=geobench-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=geobench-system,verbs=create;patch
