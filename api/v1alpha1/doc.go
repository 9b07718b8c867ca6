// Package v1alpha1 holds the resources that a user writes: NetworkProfile (how far regions are apart), GeoDatabase
// (what to deploy) and BenchmarkRun (what to measure).
//
// Types are in *_types.go, methods in *_funcs.go. The kubebuilder markers are the source of the CRDs in config/crd:
// defaults, bounds and CEL rules are checked by the API server and, from the same files, by package manifest without a
// cluster. What needs more than one object (a region that the profile does not know, an engine parameter) is checked by
// package manifest and by the operator's Preflight.
//
// Conventions: durations in a spec are Go duration strings (400us, 5ms, 1m30s); in a status they are integers whose
// names carry the unit. Ratios are integer percent or parts per million. A field whose zero means something is always
// written out, so that a typed client cannot turn a zero into the default.
//
// Clients must change metadata and status with patches: a full update of a typed object rewrites durations in their
// canonical form ("90s" becomes "1m30s"). The immutability rules compare durations by value and survive that.
//
// +kubebuilder:object:generate=true
// +groupName=geobench.dev
package v1alpha1
