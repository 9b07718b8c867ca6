// Package istio pins Istio's programs, which hack/istiod.sh runs. Its tests check Geobench's manifests with Istio's
// analyzers.
package istio
