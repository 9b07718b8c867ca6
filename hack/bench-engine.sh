#!/usr/bin/env bash
# Throughput and CPU per transaction: the engine with its worker in one process, and the worker alone.
# The engine runs without emulated delay, so it takes all the CPU that there is: the verdict Invalid (driver-bound) is
# expected, since the load generator shares the CPU with the nodes. Compare figures of one invocation only.
source "$(dirname "$0")/lib.sh"
reps=${REPS:-3}
say "engine: 2 regions x 1 partition, 10 reads and writes of 100 B over 100,000 keys, 200 closed clients per region, $reps times"
for ((i = 1; i <= reps; i++)); do
  # Exit code 1 is the verdict Invalid.
  { bin/geobench run -q -f hack/bench/engine.yaml -o wide || [[ $? == 1 ]]; } |
    grep -E '^(REGION|all|per transaction|this process|bench-engine)|driver-bound'
done
say "worker alone, against a target that commits at once: SmallBank, shards = 1 and 2"
go test -run '^$' -bench BenchmarkWorker -benchtime 2s -count "$reps" ./internal/load
