# The scripts in this folder source this file. It locates the repository and provides functions for the tools and the
# local cluster. It needs only Go.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
cluster() { hack/cluster/cluster.sh "$@"; }
tool() { go run -C hack/tools . "$@"; }
say() { printf '\n==> %s\n' "$*" >&2; }
started=$SECONDS
elapsed() { echo "$((SECONDS - started)) s"; }

# use_local_cluster starts the local node, sets KUBECONFIG, and adds kubectl and helm to PATH.
use_local_cluster() {
  local exports
  exports=$(cluster up)
  eval "$exports"
  PATH=$(dirname "$(tool install helm | tail -1)"):$PATH
  export PATH
}

# install_geobench IMAGE installs or upgrades the operator in the current context.
install_geobench() {
  local image=$1
  helm upgrade --install geobench charts/geobench --namespace geobench-system --create-namespace \
    --set "image.repository=${image%:*}" --set "image.tag=${image##*:}" --wait --timeout 3m >&2
}
