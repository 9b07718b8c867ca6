// Package istio pins the programs of Istio that hack/istiod.sh runs. Its tests check Geobench's manifests with Istio's
// analyzers.
package istio
