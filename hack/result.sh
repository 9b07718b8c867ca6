#!/usr/bin/env bash
# Prints the result document of a BenchmarkRun as JSON. Usage: hack/result.sh NAMESPACE NAME
set -euo pipefail
namespace=$1 name=$2
ref=$(kubectl -n "$namespace" get benchmarkrun "$name" -o 'jsonpath={.status.reportRef.name}')
if [[ -z $ref ]]; then
  echo "benchmarkrun $name has no result: $(kubectl -n "$namespace" get benchmarkrun "$name" -o 'jsonpath={.status.message}')" >&2
  exit 1
fi
plain=$(kubectl -n "$namespace" get configmap "$ref" -o 'jsonpath={.data.result\.json}')
if [[ -n $plain ]]; then
  printf '%s\n' "$plain"
else
  kubectl -n "$namespace" get configmap "$ref" -o 'jsonpath={.binaryData.result\.json\.gz}' | base64 -d | gunzip
fi
