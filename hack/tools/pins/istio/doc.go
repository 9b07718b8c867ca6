// Package istio pins Istio's programs: hack/istiod.sh runs them. Its tests hold Geobench's manifests to Istio's
// analyzers.
package istio
