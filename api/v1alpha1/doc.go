// Package v1alpha1 defines the API types. A NetworkProfile has the delays between regions, and a GeoDatabase describes
// the database to deploy. A BenchmarkRun is one measurement, and an Experiment is a sweep of runs, with claims.
//
// Types are in *_types.go, methods in *_funcs.go. The CRDs in config/crd are generated from the kubebuilder markers.
// The API server checks defaults, bounds and CEL rules, and package manifest checks them from the same files without a
// cluster. Other checks need more than one object, for example for a region that is missing from the profile, or for an
// engine parameter. Package manifest and the operator's Preflight perform those checks.
//
// Conventions: durations in a spec are Go duration strings (400us, 5ms, 1m30s). Durations in a status are integers,
// with the unit in the field's name. Ratios are integers in percent or parts per million. A field whose zero value has
// a meaning is always serialised, so that a typed client cannot turn a zero into the default.
//
// Clients must change metadata and status with patches, because a full update of a typed object rewrites durations in
// their canonical form ("90s" becomes "1m30s"). The immutability rules accept such an update: they compare durations by
// value.
//
// +kubebuilder:object:generate=true
// +groupName=geobench.dev
package v1alpha1
