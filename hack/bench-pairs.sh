#!/usr/bin/env bash
# Compares the cost of a transaction in the working tree with its cost in another commit, for each engine. BenchmarkCPU
# of the two versions runs in alternating pairs, each time in a new process. Both use the benchmark of the working tree,
# and the simulator sends the same messages each time. So bytes and allocations can be compared as well as CPU time.
# Prints, for each point, the minimum CPU time of both versions, the median of the pairs' ratios, and the bytes and
# allocations of both versions per transaction.
#   bench-pairs.sh BASE [PAIRS] [TRANSACTIONS] [ENGINES...]
source "$(dirname "$0")/lib.sh"
[[ -n ${1-} ]] || { echo "bench-pairs: BASE is missing: the commit to compare with, for example BASE=HEAD~1 (usage: $0 BASE [PAIRS] [TRANSACTIONS] [ENGINES...])" >&2; exit 2; }
base=$(git rev-parse --verify "$1^{commit}")
pairs=${2:-10}
transactions=${3:-30000}
shift $(($# < 3 ? $# : 3))
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/base" "$base"
engines=("$@")
((${#engines[@]})) || mapfile -t engines < <(grep -rl 'func BenchmarkCPU(b \*testing.B) {' internal/engine/protocol --include='*_test.go' | xargs -n1 dirname | xargs -n1 basename | sort -u)
# Older commits have the engines in another folder, and their benchmarks import packages by old names. Keep their
# benchmarks.
before=internal/engine/protocol
[[ -d $work/base/$before ]] || before=internal/protocol
if [[ $before = internal/engine/protocol ]]; then
  for file in internal/engine/protocol/protocoltest/bench.go $(grep -rl 'protocoltest.BenchmarkCPU(b' internal/engine/protocol --include='*_test.go'); do
    cp "$file" "$work/base/$file"
  done
fi

say "$(git describe --always --dirty) beside $(git describe --always "$base"), $pairs pairs, $transactions transactions per point; load $(cut -d' ' -f1-3 /proc/loadavg)"
printf '%-11s %-6s %10s %10s %8s %16s %16s\n' engine point 'us before' 'us now' ratio 'B before/now' 'allocs before/now'
for engine in "${engines[@]}"; do
  go test -c -o "$work/now.test" "./internal/engine/protocol/$engine"
  go test -C "$work/base" -c -o "$work/before.test" "./$before/$engine"
  : >"$work/figures"
  for ((pair = 1; pair <= pairs; pair++)); do
    for side in $( ((pair % 2)) && echo before now || echo now before); do
      (cd "$root/internal/engine/protocol/$engine" && "$work/$side.test" -test.run '^$' -test.bench '^BenchmarkCPU$/^MH(0|50)$' -test.benchtime "${transactions}x") |
        awk -v side="$side" -v pair="$pair" '/^Benchmark/ {
          split($1, name, "/"); sub(/-[0-9]+$/, "", name[2])
          for (i = 2; i < NF; i++) { if ($(i + 1) == "cpu-ns/txn/copy") cpu = $i; if ($(i + 1) == "B/op") bytes = $i; if ($(i + 1) == "allocs/op") allocs = $i }
          print name[2], side, pair, cpu, bytes, allocs }' >>"$work/figures"
    done
  done
  sort -k1,1 -k3,3n "$work/figures" | awk -v engine="$engine" '
    function tell(  n, i, j, t) {
      for (i = 2; i <= count; i++) for (j = i; j > 1 && ratios[j] < ratios[j - 1]; j--) { t = ratios[j]; ratios[j] = ratios[j - 1]; ratios[j - 1] = t }
      printf "%-11s %-6s %10.2f %10.2f %8.3f %16s %16s\n", engine, point, least["before"] / 1000, least["now"] / 1000,
        (ratios[int((count + 1) / 2)] + ratios[int(count / 2) + 1]) / 2, bytes["before"] "/" bytes["now"], allocs["before"] "/" allocs["now"]
    }
    $1 != point { if (point) tell(); point = $1; count = 0; delete least; delete cpu }
    { cpu[$2, $3] = $4; if (!($2 in least) || $4 < least[$2]) least[$2] = $4; bytes[$2] = $5; allocs[$2] = $6
      if (("before", $3) in cpu && ("now", $3) in cpu) ratios[++count] = cpu["now", $3] / cpu["before", $3] }
    END { tell() }'
done
say "load $(cut -d' ' -f1-3 /proc/loadavg), $(elapsed)"
