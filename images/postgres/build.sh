#!/usr/bin/env bash
# Makes a docker-archive with PostgreSQL from this machine's Debian packages, without a container engine.
# Usage: images/postgres/build.sh OUT.tar [NAME]. Needs Debian 12 with its package lists (apt-get update), and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
source "$here/../debian.sh"
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-postgres:15}
version=15
# The programs' packages and what their libraries need.
packages=(postgresql-$version postgresql-client-$version libpq5 iputils-ping libgcc-s1 libstdc++6
  libicu72 libxml2 libssl3 zlib1g liblz4-1 libzstd1 liblzma5 libpam0g libaudit1 libcap-ng0 libgssapi-krb5-2 libkrb5-3 libkrb5support0
  libk5crypto3 libcom-err2 libkeyutils1 libldap-2.5-0 libsasl2-2 libgnutls30 libnettle8 libhogweed6 libgmp10 libp11-kit0 libffi8
  libidn2-0 libunistring2 libtasn1-6 libsystemd0 libgcrypt20 libgpg-error0 libcap2 libreadline8 libtinfo6)

mkdir -p "$(dirname "$out")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debian_root "$root" "${packages[@]}"
printf 'root:x:0:0:root:/:/bin/sh\npostgres:x:65532:65532:PostgreSQL:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:65532:\n' >"$root/etc/group"
cp "$here/entrypoint.sh" "$root/entrypoint.sh"
"$here/../../hack/cluster/cluster.sh" image -name "$name" -root "$root" -o "$out" -entrypoint /bin/sh,/entrypoint.sh -workdir /tmp \
  -env "PATH=/usr/lib/postgresql/$version/bin:/usr/bin" -env LANG=C.UTF-8
echo "$name"
