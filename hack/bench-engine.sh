#!/usr/bin/env bash
# Measures the throughput and the CPU time per transaction of all engines, with their workers in the same process, and
# of the worker alone. It takes about four minutes. The engines run without emulated delay and use all CPUs. Compare
# only figures of the same invocation. PROFILE=DIR writes a CPU profile of each point. ONLY=REGEXP selects points.
source "$(dirname "$0")/lib.sh"
bench() { "$root/bin/bench" ${PROFILE:+-profile "$PROFILE"} ${ONLY:+-only "$ONLY"} "$@"; }
go build -o bin/bench ./hack/bench
say "engines: 2 regions x 1 partition, 10 reads and writes of 100 B over 100,000 keys, 400 closed clients per region, no delay"
bench hack/bench/engine.yaml
say "contention: 4 regions with their delays, 100 hot records, half of the transactions multi-home"
bench hack/bench/contention.yaml
say "worker alone, against a target that commits at once: SmallBank, shards = 1 and 2"
go test -run '^$' -bench BenchmarkWorker -benchtime 2s ./internal/bench/load
