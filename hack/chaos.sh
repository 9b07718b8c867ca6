#!/usr/bin/env bash
# Installs Chaos Mesh's controller manager and daemon on the local node, and runs the end-to-end tests that need them.
# Usage: hack/chaos.sh IMAGE [go test flags]. Needs root, Debian 12 with its package lists, Go and a C compiler. The
# first run compiles for about 7 minutes. KEEP=1 leaves the node running, with Chaos Mesh on it.
source "$(dirname "$0")/lib.sh"
source "$root/images/debian.sh"
image=${1:?the image}
shift
module=github.com/chaos-mesh/chaos-mesh
pin=hack/cluster/binaries/chaos-mesh
version=$(go -C $pin list -m -f '{{.Version}}' $module)
cache=${GEOBENCH_CACHE:-$HOME/.cache/geobench}
dir=$cache/bin/chaos-mesh-$version
chart=$(go -C $pin mod download -json $module | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')/helm/chaos-mesh

# build PROGRAM PACKAGE CGO compiles a program from a copy of its module, because the module lacks the object files that
# the program embeds.
build() {
  [[ -x $dir/$1 ]] && return
  say "building $1 $version (minutes the first time)"
  local src=$cache/src/chaos-mesh-$version
  if [[ ! -d $src ]]; then
    mkdir -p "$src.tmp" "$dir"
    cp -r "${chart%/helm/chaos-mesh}" "$src.tmp/module"
    chmod -R u+w "$src.tmp/module"
    cp $pin/go.mod $pin/go.sum $pin/doc.go $pin/pin.go "$src.tmp/"
    (cd "$src.tmp/module/pkg/time/fakeclock" && for f in *.c; do cc -c "$f" -fPIE -O2 -o "${f%.c}.o"; done)
    (cd "$src.tmp" && GOWORK=off go mod edit -replace $module=./module)
    mv "$src.tmp" "$src"
  fi
  (cd "$src" && GOWORK=off CGO_ENABLED=$3 go build -mod=mod -trimpath -buildvcs=false -ldflags "-s -w" -o "$dir/$1.tmp" "$module/$2")
  mv "$dir/$1.tmp" "$dir/$1"
}
mkdir -p "$dir" out
build chaos-controller-manager cmd/chaos-controller-manager 0
build chaos-daemon cmd/chaos-daemon 1
build cdh cmd/chaos-daemon-helper 1

# What goes into the images besides the programs is part of their archives' names.
made_from=$(cat "$0" images/debian.sh $pin/*.c | sha256sum | cut -c1-12)
daemon=$dir/daemon-$made_from.tar manager=$dir/manager-$made_from.tar
if [[ ! -s $daemon || ! -s $manager ]]; then
  say "the images of Chaos Mesh"
  root_fs=$(mktemp -d)
  trap 'rm -rf "$root_fs"' EXIT
  debian_root "$root_fs" libgcc-s1 zlib1g iproute2 libbpf1 libbsd0 libmd0 libcap2 libdb5.3 libelf1 libmnl0 libselinux1 libpcre2-8-0 \
    libtirpc3 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libssl3 libxtables12 \
    iptables libip4tc2 libip6tc2 libnetfilter-conntrack3 libnfnetlink0 libnftnl11 netbase ipset libipset13 util-linux libsmartcols1 \
    stress-ng libapparmor1 libcrypt1 libegl1 libgles2 libglvnd0 libgbm1 libdrm2 libexpat1 libwayland-server0 libffi8 libipsec-mb1 \
    libjpeg62-turbo libjudydebian1 libkmod2 liblzma5 libzstd1 libsctp1 libxxhash0
  # The links that Debian makes when it installs a package.
  for program in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
    ln -s xtables-nft-multi "$root_fs/usr/sbin/$program"
  done
  for library in "$root_fs"/usr/lib/x86_64-linux-gnu/libJudydebian1.so.*; do ln -sf "${library##*/}" "${library/Judydebian1/Judy}"; done
  printf 'root:x:0:0:root:/:/bin/sh\n' >"$root_fs/etc/passwd"
  mkdir -p "$root_fs/usr/local/bin" "$root_fs/run" "$root_fs/var"
  ln -s ../run "$root_fs/var/run"
  cp "$dir/chaos-daemon" "$dir/cdh" "$root_fs/usr/local/bin/"
  for program in pause nsexec; do cc -O2 -static -Wall -o "$root_fs/usr/local/bin/$program" $pin/$program.c; done
  cc -O2 -static -Wall -o "$root_fs/usr/local/bin/memStress" $pin/memstress.c
  for program in sbin/tc sbin/iptables sbin/ipset bin/ip bin/stress-ng bin/choom local/bin/chaos-daemon local/bin/cdh; do
    missing=$(chroot "$root_fs" /lib64/ld-linux-x86-64.so.2 --list /usr/$program 2>&1 | grep 'not found' || true)
    [[ -z $missing ]] || { echo "the image's $program lacks libraries: $missing" >&2; exit 1; }
  done
  cluster image -name localhost/chaos-daemon:local -root "$root_fs" -user 0:0 -entrypoint /usr/local/bin/chaos-daemon -env PATH=/usr/local/bin:/usr/sbin:/usr/bin -o "$daemon" >&2
  rm -rf "$root_fs"
  mkdir -p "$root_fs/usr/local/bin" "$root_fs/tmp"
  cp "$dir/chaos-controller-manager" "$root_fs/usr/local/bin/"
  cluster image -name localhost/chaos-mesh:local -root "$root_fs" -entrypoint /usr/local/bin/chaos-controller-manager -o "$manager" >&2
  rm -rf "$root_fs"
fi
was_up=$(cluster status >/dev/null 2>&1 && echo yes || true)
use_local_cluster
# leave removes Chaos Mesh after the tests. It also stops the node, unless the node was running before.
leave() {
  [[ -n ${KEEP:-} ]] && return
  helm uninstall chaos-mesh --namespace chaos-mesh --wait --timeout 1m >&2 || true
  kubectl delete namespace chaos-mesh --wait=false >&2 || true
  kubectl delete crd -l geobench.dev/installed-by=chaos.sh --wait=false >&2 || true
  [[ -n $was_up ]] || cluster down
}
trap leave EXIT
say "the images and the operator ($(elapsed))"
make --no-print-directory cluster-load IMAGE="$image" >&2
images/postgres/build.sh out/postgres.tar >&2
for archive in out/postgres.tar "$daemon" "$manager"; do cluster load "$(realpath "$archive")" >&2; done

# Generate the CRDs, because the CRDs of the chart are older than the module with the types. With them, the API server
# would drop fields, and then reject every update.
say "Chaos Mesh ($(elapsed))"
crds=$(mktemp -d)
(cd hack/chaosmesh && GOWORK=off "$(cd ../.. && tool install controller-gen | tail -1)" crd:ignoreUnexportedFields=true,crdVersions=v1,maxDescLen=0 \
  paths=$module/api/v1alpha1 output:dir="$crds")
kubectl apply --server-side --force-conflicts -f "$crds" >&2
kubectl label --overwrite -f "$crds" geobench.dev/installed-by=chaos.sh >&2
rm -rf "$crds"
helm upgrade --install chaos-mesh "$chart" --namespace chaos-mesh --create-namespace --skip-crds \
  --set images.registry=localhost --set images.tag=local \
  --set controllerManager.image.repository=chaos-mesh --set controllerManager.replicaCount=1 --set controllerManager.leaderElection.enabled=false \
  --set chaosDaemon.image.repository=chaos-daemon --set chaosDaemon.runtime=containerd \
  --set chaosDaemon.socketPath="${GEOBENCH_STATE:-/var/lib/geobench-cluster}/run/containerd.sock" \
  --set dashboard.create=false --set dnsServer.create=false --wait --timeout 3m >&2
install_geobench "$image"
kubectl -n geobench-system rollout restart deployment -l app.kubernetes.io/name=geobench >&2
kubectl -n geobench-system rollout status deployment -l app.kubernetes.io/name=geobench --timeout 2m >&2
say "the tests ($(elapsed))"
GEOBENCH_CHAOS=1 GEOBENCH_POSTGRES=localhost/geobench-postgres:15 \
  go test -tags full,e2e -count=1 -v -timeout 20m -run TestChaos "$@" ./internal/e2e
