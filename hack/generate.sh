#!/usr/bin/env bash
# Writes all generated files: deepcopy functions, encodings of messages, CRDs, RBAC roles, the pages about metrics and explored seeds, the
# tables of engines' figures, the dashboards, and the generated files of the chart.
source "$(dirname "$0")/lib.sh"
gen=$(tool install controller-gen | tail -1)
"$gen" object paths=./api/...
"$gen" crd paths=./api/... output:crd:artifacts:config=config/crd/bases
"$gen" rbac:roleName=manager-role paths=./controllers/... output:rbac:artifacts:config=config/rbac
go run ./hack/codecs internal/engine
go run ./internal/ops/metrics/document > docs/metrics.md
go run ./internal/engine/engines/document docs/protocols
go run ./hack/dashboards dashboards
seeds=$(go run ./hack/seeds table) && echo "$seeds" > docs/seeds.md
tool sync-chart
