#!/usr/bin/env bash
# Installs the operator on the local node and runs the end-to-end tests in internal/e2e there.
# Usage: hack/e2e.sh IMAGE [go test flags]. KEEP=1 leaves the node running.
source "$(dirname "$0")/lib.sh"
image=${1:?the image}
shift
say "a Kubernetes node on this machine"
was_up=$(cluster status >/dev/null 2>&1 && echo yes || true)
use_local_cluster
[[ -n $was_up || -n ${KEEP:-} ]] || trap 'say "the node goes down"; cluster down' EXIT
say "the image and the operator ($(elapsed))"
make --no-print-directory cluster-load IMAGE="$image" >&2
if [[ -n ${GEOBENCH_E2E_NETWORK:-} ]]; then
  images/postgres/build.sh out/postgres.tar >&2
  cluster load "$root/out/postgres.tar" >&2
  export GEOBENCH_POSTGRES=localhost/geobench-postgres:15
fi
if [[ -n ${GEOBENCH_E2E_DATABASES:-} ]]; then
  for database in postgres:15 galera:10.11 etcd:3.7; do
    name=${database%:*}
    "images/$name/build.sh" "out/$name.tar" "localhost/geobench-$database" >&2
    cluster load "$root/out/$name.tar" >&2
    export "GEOBENCH_${name^^}=localhost/geobench-$database"
  done
fi
if [[ -n ${GEOBENCH_E2E_MESH:-} ]]; then
  GEOBENCH_ISTIO_PROXY=$(images/istio-proxy/build.sh out/istio-proxy.tar | tail -1)
  cluster load "$root/out/istio-proxy.tar" >&2
  export GEOBENCH_ISTIO_PROXY
fi
install_geobench "$image"
kubectl -n geobench-system rollout restart deployment -l app.kubernetes.io/name=geobench >&2
kubectl -n geobench-system rollout status deployment -l app.kubernetes.io/name=geobench --timeout 2m >&2
say "helm test ($(elapsed))"
helm test geobench --namespace geobench-system >&2
say "the tests ($(elapsed))"
GEOBENCH_RESTART_APISERVER="$root/hack/cluster/cluster.sh restart kube-apiserver" \
  go test -tags full,e2e -count=1 -v -timeout 30m "$@" ./internal/e2e
say "which of its rights the operator has used ($(elapsed))"
tool rights "${GEOBENCH_STATE:-/var/lib/geobench-cluster}"/logs/audit*.log >&2 || echo "that is not known" >&2
