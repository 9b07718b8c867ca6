// Package controllers sets up the controllers of GeoDatabases, BenchmarkRuns and Experiments. They deploy a database
// across regions and check that the network between the regions is the declared network. They drive a workload from
// every region and publish a typed result. Each controller is a separate package (database, run, experiment), and
// shared code is in packages next to them. Imports go in one direction, and a test enforces this.
//
// All controllers have the same structure. Reconcile reads the object from the API server and not from the cache, which
// may be stale. Only a run that waits for its turn uses the cache. Reconcile then creates a scope for the object and
// calls small steps that change the object in memory. At the end one patch with an optimistic lock writes the status.
//
// External objects that a step creates are named after the object, so that the step is idempotent. If a step is not
// idempotent, it is recorded in the status before it runs. Long work is a job (package background), which may run
// twice, too. An operator that is killed at any point continues from the state in the API server. Its additional state
// in memory only saves requests.
//
// The rights of the operator are markers in the packages that use them; the markers here are for the manager.
package controllers

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=geobench-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=geobench-system,verbs=create;patch
