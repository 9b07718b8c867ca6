#!/usr/bin/env bash
# Has Argo CD's own code judge every recorded object, and a real kustomize-controller of Flux apply the example repository in
# gitops/repository to a real API server, with Geobench's controllers beside it. Builds both the first time (minutes).
# Usage: hack/test-gitops.sh [flags of go test for Flux]
source "$(dirname "$0")/lib.sh"
definitions() {
  (cd "hack/tools/pins/$1" && go mod download "github.com/fluxcd/$1" && go list -m -f '{{.Dir}}/config/crd/bases' "github.com/fluxcd/$1")
}
say "Argo CD judges gitops/argocd"
(cd hack/argocd && go test -count 1 ./...)
GEOBENCH_KUSTOMIZE_CONTROLLER=$(tool install kustomize-controller | tail -1)
GEOBENCH_FLUX_CRDS=$(definitions kustomize-controller):$(definitions source-controller)
KUBEBUILDER_ASSETS=$(cluster build envtest | tail -1)
export GEOBENCH_KUSTOMIZE_CONTROLLER GEOBENCH_FLUX_CRDS KUBEBUILDER_ASSETS
say "$(basename "$(dirname "$GEOBENCH_KUSTOMIZE_CONTROLLER")") applies gitops/repository ($(elapsed))"
go test -tags full -count 1 -timeout 20m -v -run '^TestFlux$' "$@" ./controllers
say "done ($(elapsed))"
