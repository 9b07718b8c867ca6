#!/usr/bin/env bash
# Runs all static checks of code and documentation, and the tests of the chart.
source "$(dirname "$0")/lib.sh"
say "gofmt"
unformatted=$(git ls-files '*.go' | xargs gofmt -l)
[[ -z $unformatted ]] || { echo "not gofmt-ed: $unformatted" >&2; exit 1; }
say "commit subjects"
go run ./hack/subjects
say "changes"
go run ./hack/changelog check
say "words"
GEOBENCH_VALE=$(tool install vale | tail -1)
export GEOBENCH_VALE
go test -run '^TestRules$' ./hack/words
go run ./hack/words check
say "go vet"
go vet ./cmd/geobench
go vet -tags full,e2e ./...
(cd hack/cluster && go vet ./...)
(cd hack/tools && go vet ./...)
(cd hack/chaosmesh && go vet ./...)
say "staticcheck"
"$(tool install staticcheck | tail -1)" -tags full,e2e ./...
say "API conventions of the CRDs"
tool lint-crds
say "the chart"
tool sync-chart --check
tool chart-test
