#!/usr/bin/env bash
# Runs the tests of packages in a module, and then lists the ten slowest packages and tests. The output is that of go
# test, but each package is printed as soon as it has finished. The test events are kept in out/tests.json. When the
# tests end or are interrupted, no process of theirs stays, such as an API server or a database.
#   test.sh [FLAGS OF GO TEST] PACKAGES...
source "$(dirname "$0")/lib.sh"
gotestsum=$(tool install gotestsum | tail -1)
events=$root/out/tests.json
mkdir -p "$root/out"

# Processes inherit this variable from the test that starts them, even if they are in a process group of their own.
stop() {
  local process
  for process in /proc/[0-9]*; do
    if grep -qsz "^GEOBENCH_TESTS=$$\$" "$process/environ"; then
      kill -KILL "${process#/proc/}" 2>/dev/null || true
    fi
  done
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
GEOBENCH_TESTS=$$ "$gotestsum" --format standard-quiet --jsonfile "$events" -- "$@" & # bash runs traps while it waits
code=0
wait $! || code=$?
say "slowest packages (seconds)"
sed -nE 's/.*"Action":"(pass|fail)","Package":"([^"]*)","Elapsed":([0-9.]+).*/\3 \2/p' "$events" | sort -rn | head -10
say "slowest tests"
"$gotestsum" tool slowest --jsonfile "$events" --num 10
exit "$code"
