#!/usr/bin/env bash
# Finds the statements of the protocols that scenarios execute. Plays SEEDS seeds of each kind of scenario for each
# engine, with a geobench that records coverage. Prints a table of packages, followed by the functions that were never
# called and the blocks that were never executed.
#   hack/coverage.sh [SEEDS [ENGINE,...]]
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=${1:-200}
engines=${2:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/counts"
# Include the main package, because the counts would otherwise not be written.
go build -cover -covermode=set -coverpkg=./internal/engine/protocol/...,./internal/engine/blocks/...,./internal/engine/consensus,./cmd/geobench -o "$dir/geobench" ./cmd/geobench

failed=0
while read -r kind; do
	# shellcheck disable=SC2086 # flags are words
	GOCOVERDIR=$dir/counts "$dir/geobench" explore ${engines:+--engine "$engines"} --seeds "$seeds" $kind >"$dir/out" || {
		grep -E '^(WRONG|replay)' "$dir/out" >&2 || true
		failed=1
	}
done < <(go run ./hack/seeds kinds)

go tool covdata textfmt -i="$dir/counts" -o "$dir/profile"
go run ./hack/coverage "$dir/profile"
exit $failed
