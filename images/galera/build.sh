#!/usr/bin/env bash
# Makes a docker-archive with MariaDB and Galera from this machine's Debian packages, without a container engine.
# Usage: images/galera/build.sh OUT.tar [NAME]. Needs Debian 12 with its package lists (apt-get update), and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../debian.sh"
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-galera:10.11}
# The server, what its scripts of state transfer call, and the libraries of both.
packages=(mariadb-server mariadb-server-core mariadb-client-core galera-4 mariadb-common bash coreutils grep sed mawk findutils diffutils procps hostname
  iproute2 lsof rsync libacl1 libaio1 libattr1 libbsd0 libbpf1 libcap2 libcom-err2 libcrypt1 libdb5.3 libelf1 libgcc-s1 libgcrypt20 libgmp10 libgpg-error0
  libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 liblz4-1 liblzma5 libmd0 libmnl0 libncursesw6 libnuma1 libpam0g libaudit1 libcap-ng0
  libpcre2-8-0 libpopt0 libproc2-0 libreadline8 libselinux1 libssl3 libstdc++6 libsystemd0 libtinfo6 libtirpc3 liburing2 libxtables12 libxxhash0 libzstd1 zlib1g)

mkdir -p "$(dirname "$out")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debian_root "$root" "${packages[@]}"
ln -s mawk "$root/usr/bin/awk"
printf 'root:x:0:0:root:/:/bin/sh\nmysql:x:65532:65532:MariaDB:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nmysql:x:65532:\n' >"$root/etc/group"
"$here/../../hack/cluster/cluster.sh" image -name "$name" -root "$root" -o "$out" -entrypoint /usr/sbin/mariadbd -workdir /tmp \
  -env "PATH=/usr/sbin:/usr/bin" -env LANG=C.UTF-8
echo "$name"
