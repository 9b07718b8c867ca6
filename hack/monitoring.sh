#!/usr/bin/env bash
# Runs a Prometheus on the local node that scrapes Geobench. Builds it the first time (minutes).
# Usage: hack/monitoring.sh up|address|down
source "$(dirname "$0")/lib.sh"
namespace=geobench-monitoring
up() {
  local server version image
  server=$(tool install prometheus | tail -1)
  version=$(basename "$(dirname "$server")")
  image=localhost/geobench-prometheus:${version#prometheus-}
  use_local_cluster
  mkdir -p out
  go run -C hack/cluster . image -name "$image" -binary "$server" -o "$root/out/prometheus.tar" >&2
  cluster load "$root/out/prometheus.tar" >&2
  kubectl create namespace "$namespace" --dry-run=client -o yaml | kubectl apply -f - >&2
  kubectl -n "$namespace" create configmap rules --from-file=dashboards/rules.yaml --dry-run=client -o yaml | kubectl apply -f - >&2
  sed "s#image: IMAGE#image: $image#" hack/prometheus/manifests.yaml | kubectl apply -f - >&2
  kubectl -n "$namespace" rollout status deployment prometheus --timeout 2m >&2
}
# The node is on this machine, and its services can be reached from it.
address() {
  echo "http://$(kubectl -n "$namespace" get endpointslices -l kubernetes.io/service-name=prometheus -o 'jsonpath={.items[0].endpoints[0].addresses[0]}'):9090"
}
case ${1:-} in
up) up ;;
address) use_local_cluster && address ;;
down) use_local_cluster && kubectl delete -f hack/prometheus/manifests.yaml --ignore-not-found >&2 ;;
*)
  echo "usage: hack/monitoring.sh up|address|down" >&2
  exit 2
  ;;
esac
