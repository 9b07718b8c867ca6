#!/usr/bin/env bash
# Tests how Istio configures the mesh for Geobench's pods, Services and policies. The test runs istiod, Istio's agent,
# an Envoy and an API server, but no nodes. Everything runs in a separate network namespace, because Istio's ports are
# fixed.
# Usage: hack/istiod.sh. Needs root, Debian 12 with its package lists (apt-get update), Python 3 with pip, unzip, and
# Go.
source "$(dirname "$0")/lib.sh"
source images/debian.sh
source images/envoy.sh
mapfile -t programs < <(tool install pilot-discovery pilot-agent helm)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
envoy_root "$folder/root"
KUBEBUILDER_ASSETS=$(cluster build envtest | tail -1)
GEOBENCH_ISTIO_MODULE=$(go -C hack/tools/pins/istio mod download -json istio.io/istio | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
export KUBEBUILDER_ASSETS GEOBENCH_ISTIO_MODULE GEOBENCH_ISTIOD=${programs[0]} GEOBENCH_PILOT_AGENT=${programs[1]} GEOBENCH_HELM=${programs[2]} \
  GEOBENCH_ENVOY=$folder/root/usr/local/bin/envoy
go test -c -o "$folder/mesh.test" ./internal/ops/deploy/mesh
# The API server needs a default route, from which it derives its own address. 10.0.0.43 is the address of istiod's
# Service in the test. The entry in the hosts file gives it the name that is in istiod's certificate.
echo '10.0.0.43 istiod.istio-system.svc' | cat /etc/hosts - >"$folder/hosts"
unshare --net --mount sh -euc 'mount --bind "$1" /etc/hosts
  ip link set lo up
  ip link add machine type veth peer name other
  ip link set other up
  ip address add 192.0.2.1/24 dev machine
  ip address add 10.0.0.43/32 dev machine
  ip link set machine up
  ip route add default via 192.0.2.2
  cd internal/ops/deploy/mesh
  exec "$0" -test.run TestIstiod -test.v -test.timeout 10m' "$folder/mesh.test" "$folder/hosts"
