#!/usr/bin/env bash
# Prints a line for each change of a BenchmarkRun's stage until the run has ended. Usage: hack/watch-run.sh NAMESPACE
# NAME
set -euo pipefail
namespace=$1 name=$2 last=
for ((i = 0; i < 1800; i++)); do
  line=$(kubectl -n "$namespace" get benchmarkrun "$name" -o 'jsonpath={.status.stage}{"  "}{.status.message}' 2>/dev/null || echo "the API server does not answer")
  if [[ $line != "$last" ]]; then
    printf '%(%H:%M:%S)T  %s\n' -1 "$line" >&2
    last=$line
  fi
  case $line in Completed* | Failed*) exit 0 ;; esac
  sleep 1
done
echo "benchmarkrun $name has not ended within 30 minutes" >&2
exit 1
