#!/usr/bin/env bash
# Tests Geobench with Argo CD and Flux. The code of Argo CD evaluates the health of every recorded object. Flux's
# kustomize-controller applies the example in gitops/repository to an API server, with Geobench's controllers running.
# The first run builds both, which takes minutes.
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
