#!/usr/bin/env bash
# Makes a docker-archive with the etcd that hack/cluster builds for the local node: the program alone, as in etcd's own image.
# Usage: images/etcd/build.sh OUT.tar [NAME]. Needs Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cluster=$here/../../hack/cluster/cluster.sh
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-etcd:3.7}
mkdir -p "$(dirname "$out")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{tmp,usr/local/bin}
chmod 1777 "$root/tmp"
cp "$("$cluster" build etcd | tail -1)/etcd" "$root/usr/local/bin/etcd"
"$cluster" image -name "$name" -root "$root" -o "$out" -entrypoint /usr/local/bin/etcd -workdir /tmp -env PATH=/usr/local/bin
echo "$name"
