#!/usr/bin/env bash
# Runs the chart's Prometheus on the local node, where Geobench must be installed. The first run builds Prometheus,
# which takes minutes.
# Usage: hack/monitoring.sh build|up|address|down
source "$(dirname "$0")/lib.sh"
namespace=geobench-system
upgrade() { helm upgrade geobench charts/geobench --namespace "$namespace" --reuse-values --wait --timeout 3m "$@" >&2; }
up() {
  local server version name=localhost/geobench-prometheus
  server=$(tool install prometheus | tail -1)
  version=$(basename "$(dirname "$server")")
  version=${version#prometheus-}
  use_local_cluster
  mkdir -p out
  go run -C hack/cluster . image -name "$name:$version" -binary "$server" -o "$root/out/prometheus.tar" >&2
  cluster load "$root/out/prometheus.tar" >&2
  upgrade --set prometheus.enabled=true --set "prometheus.image.repository=$name" --set "prometheus.image.tag=$version"
}
# address prints the address of Prometheus, which can be reached from this machine because the node runs on it.
address() {
  echo "http://$(kubectl -n "$namespace" get endpointslices -l kubernetes.io/service-name=geobench-prometheus -o 'jsonpath={.items[0].endpoints[0].addresses[0]}'):9090"
}
case ${1:-} in
build) tool install prometheus >/dev/null ;;
up) up ;;
address) use_local_cluster && address ;;
down) use_local_cluster && upgrade --set prometheus.enabled=false ;;
*)
  echo "usage: hack/monitoring.sh build|up|address|down" >&2
  exit 2
  ;;
esac
