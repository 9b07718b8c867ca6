// Package istio pins Istio's programs: hack/istiod.sh runs them.
package istio
