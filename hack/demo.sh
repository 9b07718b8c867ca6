#!/usr/bin/env bash
# Runs experiments/quickstart.yaml on a Kubernetes cluster and prints the result.
# Usage: hack/demo.sh local|current IMAGE
# With "current", the cluster must be able to pull IMAGE. For a kind cluster, IMAGE is built and loaded.
source "$(dirname "$0")/lib.sh"
where=${1:?local or current} image=${2:?the image}
namespace=${NAMESPACE:-default}

case $where in
local)
  say "a Kubernetes node on this machine"
  use_local_cluster
  say "the image $image"
  make --no-print-directory cluster-load IMAGE="$image" >&2
  ;;
current)
  say "the current context: $(kubectl config current-context)"
  make --no-print-directory bin/geobench >&2
  command -v helm >/dev/null || PATH=$(dirname "$(tool install helm | tail -1)"):$PATH
  if [[ $(kubectl config current-context) == kind-* ]]; then
    docker build -t "$image" . >&2
    kind load docker-image "$image" --name "$(kubectl config current-context | sed s/^kind-//)" >&2
  elif [[ $image == localhost/* ]]; then
    echo "CLUSTER=current needs an image that the cluster can pull: docker build -t REGISTRY/geobench:dev . &&" \
      "docker push REGISTRY/geobench:dev && make demo CLUSTER=current IMAGE=REGISTRY/geobench:dev" >&2
    exit 2
  fi
  ;;
*)
  echo "CLUSTER is $where: it must be local or current" >&2
  exit 2
  ;;
esac

say "the operator ($(elapsed))"
install_geobench "$image"
# The image's tag does not change from build to build, so the pods must be told to take the new one.
kubectl -n geobench-system rollout restart deployment -l app.kubernetes.io/name=geobench >&2
kubectl -n geobench-system rollout status deployment -l app.kubernetes.io/name=geobench --timeout 2m >&2

if [[ $where == local && ${PROMETHEUS:-yes} != no ]]; then
  say "Prometheus ($(elapsed))"
  hack/monitoring.sh up
  prometheus=$(hack/monitoring.sh address)
fi

say "kubectl apply -f experiments/quickstart.yaml ($(elapsed))"
kubectl -n "$namespace" delete benchmarkrun quickstart --ignore-not-found --timeout 2m >&2
kubectl -n "$namespace" apply -f experiments/quickstart.yaml >&2
hack/watch-run.sh "$namespace" quickstart

say "what kubectl shows"
kubectl -n "$namespace" get geodatabases,benchmarkruns >&2
say "the result ($(elapsed) in all)"
hack/result.sh "$namespace" quickstart | bin/geobench show -
if [[ -n ${prometheus:-} ]]; then
  say "Prometheus has seen it all: $prometheus on this machine, or kubectl -n geobench-system port-forward service/geobench-prometheus 9090"
elif [[ $where == local ]]; then
  say "for a Prometheus beside it: make demo (see docs/monitoring.md)"
fi
[[ $(kubectl -n "$namespace" get benchmarkrun quickstart -o 'jsonpath={.status.verdict}') == Passed ]]
