#!/usr/bin/env bash
# Tests the chart's PodMonitor, ServiceMonitor and PrometheusRule on the local node with a real Prometheus operator.
# After a run, its Prometheus evaluates every query of every dashboard and rule. Sidecars emulate the network of the
# run, so that they are scraped as well. The first run builds the programs, which takes minutes. At the end, the script
# removes everything that it created.
# Usage: hack/test-monitoring.sh IMAGE [prepare], where prepare only builds.
source "$(dirname "$0")/lib.sh"
image=${1:?the image}
namespace=geobench-test-monitoring
operator=geobench-prometheus-operator
crds=$(cd hack/tools/pins/prometheus-operator && go mod download github.com/prometheus-operator/prometheus-operator &&
  go list -m -f '{{.Dir}}' github.com/prometheus-operator/prometheus-operator)/example/prometheus-operator-crd

# The operator expects programs in /bin.
archives=()
for name in prometheus prometheus-operator prometheus-config-reloader; do
  program=$(tool install $name | tail -1)
  version=$(basename "$(dirname "$program")")
  declare "${name//-/_}=localhost/geobench-$name:${version#"$name"-}"
  folder=out/images/$name
  mkdir -p "$folder/bin"
  cp "$program" "$folder/bin/$name"
  archive=$root/out/$name.tar
  name_of=${name//-/_}
  go run -C hack/cluster . image -name "${!name_of}" -root "$root/$folder" -entrypoint "/bin/$name" -user 65532:65532 -o "$archive" >&2
  archives+=("$archive")
done
make --no-print-directory image IMAGE="$image" >&2
[[ ${2:-} == prepare ]] && exit

use_local_cluster
remove() {
  say "what was made goes away ($(elapsed))"
  kubectl delete namespace "$namespace" --ignore-not-found --timeout 2m >&2
  # Remove these objects first, because Helm cannot uninstall objects whose kinds no longer exist.
  helm upgrade geobench charts/geobench --namespace geobench-system --reuse-values --wait --timeout 3m \
    --set metrics.podMonitor.enabled=false --set metrics.serviceMonitor.enabled=false --set metrics.prometheusRule.enabled=false >&2
  kubectl delete namespace "$operator" --ignore-not-found --timeout 2m >&2
  kubectl delete clusterrole,clusterrolebinding geobench-prometheus geobench-prometheus-operator --ignore-not-found >&2
  kubectl delete -f "$crds" --ignore-not-found --timeout 1m >&2
  install_geobench "$image"
}
trap remove EXIT

say "images ($(elapsed))"
for archive in "${archives[@]}" "$root/out/geobench.tar"; do cluster load "$archive" >&2; done
say "the Prometheus operator ($(elapsed))"
kubectl apply --server-side -f "$crds" >&2
kubectl wait --for condition=Established --timeout 1m -f "$crds" >&2
kubectl create namespace "$namespace" >&2
# Prometheus 3.x is version 0.(300+x) as a Go module.
module=${prometheus##*:v0.3}
sed -e "s#OPERATOR#$prometheus_operator#; s#RELOADER#$prometheus_config_reloader#; s#PROMETHEUS#$prometheus#; s#NAMESPACE#$namespace#" \
  -e "s#VERSION#v3.${module%.*}.0#" hack/prometheus/operator.yaml | kubectl apply -f - >&2
kubectl -n "$operator" rollout status deployment prometheus-operator --timeout 2m >&2

say "the chart, with its monitors ($(elapsed))"
helm upgrade --install geobench charts/geobench --namespace geobench-system --create-namespace --wait --timeout 3m \
  --set "image.repository=${image%:*}" --set "image.tag=${image##*:}" \
  --set-json "metrics.readers=[{\"kind\": \"ServiceAccount\", \"name\": \"prometheus\", \"namespace\": \"$operator\"}]" >&2
kubectl -n geobench-system rollout restart deployment -l app.kubernetes.io/name=geobench >&2
kubectl -n geobench-system rollout status deployment -l app.kubernetes.io/name=geobench --timeout 2m >&2
kubectl -n geobench-system get podmonitors,servicemonitors,prometheusrules >&2
kubectl -n "$operator" wait --for condition=Available --timeout 3m prometheus prometheus >&2

say "a run with sidecars ($(elapsed))"
sed 's/emulation: .*/emulation: Sidecar/' experiments/quickstart.yaml | kubectl -n "$namespace" apply -f - >&2
hack/watch-run.sh "$namespace" quickstart
address=http://$(kubectl -n "$operator" get pods -l app.kubernetes.io/name=prometheus -o 'jsonpath={.items[0].status.podIP}'):9090
say "every query, at $address ($(elapsed))"
go run ./hack/prometheus -url "$address" -place sidecars -span 5m -rate 1m
say "done ($(elapsed))"
