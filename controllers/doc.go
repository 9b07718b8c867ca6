// Package controllers sets up the controllers of GeoDatabases, BenchmarkRuns and Experiments: they deploy a database
// across regions, check that the network between them is the one that was declared, drive a workload from every region
// and leave a typed result. Each is in a package of its own (database, run, experiment), with what they share beside
// them; imports go one way, which a test holds them to.
//
// The controllers are built alike. Reconcile reads the object from the API server itself (not from the cache, which may
// be behind; only a run that waits for its turn goes by the cache), makes a scope around it and calls small steps that
// change the object in memory; one patch with an optimistic lock writes the status at the end. What a step does to the
// outside is named after the object, so that doing it twice is the same as doing it once, and is recorded in the status
// before it is done where doing it twice would be wrong. What takes long is an job (package job), which may be
// done twice too. An operator that is killed at any point goes on where the API server says: what it remembers besides
// only spares it questions.
//
// The rights of the operator are markers in the packages whose code uses them; those here are the manager's own.
package controllers

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,namespace=geobench-system,verbs=get;create;update
// +kubebuilder:rbac:groups="",resources=events,namespace=geobench-system,verbs=create;patch
