#!/usr/bin/env bash
# Runs the tests of packages in a module, and then lists the ten slowest packages and tests. The output is that of go
# test, but each package is printed as soon as it has finished. The test events are kept in out/tests.json.
#   test.sh [FLAGS OF GO TEST] PACKAGES...
source "$(dirname "$0")/lib.sh"
gotestsum=$(tool install gotestsum | tail -1)
events=$root/out/tests.json
mkdir -p "$root/out"
code=0
"$gotestsum" --format standard-quiet --jsonfile "$events" -- "$@" || code=$?
say "slowest packages (seconds)"
sed -nE 's/.*"Action":"(pass|fail)","Package":"([^"]*)","Elapsed":([0-9.]+).*/\3 \2/p' "$events" | sort -rn | head -10
say "slowest tests"
"$gotestsum" tool slowest --jsonfile "$events" --num 10
exit "$code"
