// Package v1alpha1 holds the resources that a user writes: NetworkProfile (how far regions are apart), GeoDatabase
// (what to deploy) and BenchmarkRun (what to measure).
//
// Types are in *_types.go, methods in *_funcs.go. The CRDs in config/crd are generated from the kubebuilder markers.
// The API server checks defaults, bounds and CEL rules. Package manifest checks them from the same files without a
// cluster. Some checks need more than one object, for example for a region that is not in the profile or for an engine
// parameter. Package manifest and the operator's Preflight perform these checks.
//
// Conventions: durations in a spec are Go duration strings (400us, 5ms, 1m30s). Durations in a status are integers,
// with the unit in the field's name. Ratios are integer percent or parts per million. A field with a meaningful zero is
// always serialised, so that a typed client cannot turn a zero into the default.
//
// Clients must change metadata and status with patches: a full update of a typed object rewrites durations in their
// canonical form ("90s" becomes "1m30s"). The immutability rules compare durations by value and survive that.
//
// +kubebuilder:object:generate=true
// +groupName=geobench.dev
package v1alpha1
