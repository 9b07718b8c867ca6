#!/bin/sh
# Builds the program in this folder into the cache, and runs it in the caller's working folder, for example as
# hack/cluster/cluster.sh up
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/bin/cluster
GOWORK=off go -C "$here" build -o "$program" .
exec "$program" "$@"
