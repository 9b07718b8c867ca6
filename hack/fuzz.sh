#!/usr/bin/env bash
# Runs every fuzz target for DURATION. Usage: hack/fuzz.sh DURATION
source "$(dirname "$0")/lib.sh"
grep -rlE '^func Fuzz' --include='*_test.go' api internal controllers cmd | xargs -n1 dirname | sort -u | while read -r package; do
  grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | sed 's/^func //' | while read -r target; do
    say "$package $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "./$package"
  done
done
