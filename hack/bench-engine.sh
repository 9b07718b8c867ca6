#!/usr/bin/env bash
# Throughput and CPU per transaction of all engines with their workers in one process, and of the worker alone; about four
# minutes. The engines run without emulated delay, so they take all the CPU that there is. Compare figures of one
# invocation only. PROFILE=DIR writes a CPU profile of each point; ONLY=REGEXP picks points.
source "$(dirname "$0")/lib.sh"
bench() { "$root/bin/bench" ${PROFILE:+-profile "$PROFILE"} ${ONLY:+-only "$ONLY"} "$@"; }
go build -o bin/bench ./hack/bench
say "engines: 2 regions x 1 partition, 10 reads and writes of 100 B over 100,000 keys, 400 closed clients per region, no delay"
bench hack/bench/engine.yaml
say "contention: 4 regions with their delays, 100 hot records, half of the transactions multi-home"
bench hack/bench/contention.yaml
say "worker alone, against a target that commits at once: SmallBank, shards = 1 and 2"
go test -run '^$' -bench BenchmarkWorker -benchtime 2s ./internal/bench/load
