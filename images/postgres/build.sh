#!/usr/bin/env bash
# Makes a docker-archive with PostgreSQL from this machine's Debian packages, without a container engine.
# Usage: images/postgres/build.sh OUT.tar [NAME]. Needs Debian 12 with its package lists (apt-get update), and Go.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$(realpath -m "${1:?the archive to write}")
name=${2:-localhost/geobench-postgres:15}
version=15
# The programs' packages and what their libraries need; busybox is the shell.
packages=(postgresql-$version postgresql-client-$version libpq5 iputils-ping busybox-static libc6 libc-bin libgcc-s1 libstdc++6
  libicu72 libxml2 libssl3 zlib1g liblz4-1 libzstd1 liblzma5 libpam0g libaudit1 libcap-ng0 libgssapi-krb5-2 libkrb5-3 libkrb5support0
  libk5crypto3 libcom-err2 libkeyutils1 libldap-2.5-0 libsasl2-2 libgnutls30 libnettle8 libhogweed6 libgmp10 libp11-kit0 libffi8
  libidn2-0 libunistring2 libtasn1-6 libsystemd0 libgcrypt20 libgpg-error0 libcap2 libreadline8 libtinfo6 tzdata)

# Downloads are kept, as the packages of a distribution's release change rarely.
cache=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/debs
mkdir -p "$cache" "$(dirname "$out")"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{etc,tmp,usr/bin,usr/sbin,usr/lib,usr/lib64}
chmod 755 "$root" && chmod 1777 "$root/tmp"
ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root/"

# apt-get names only files that the current folder lacks.
mapfile -t files < <(cd "$root" && apt-get download --print-uris "${packages[@]}" | cut -d' ' -f2)
((${#files[@]} == ${#packages[@]})) || { echo "apt-get knows ${#files[@]} of ${#packages[@]} packages: run apt-get update" >&2; exit 1; }
cd "$cache"
missing=()
for file in "${files[@]}"; do
  [[ -s $file ]] || missing+=("${file%%_*}")
done
((${#missing[@]} == 0)) || apt-get download -qq -o APT::Sandbox::User=root "${missing[@]}" >&2
for file in "${files[@]}"; do
  # No documentation, no translations, and no compiler of expressions, which needs 100 MB of LLVM.
  dpkg-deb --fsys-tarfile "$file" | tar -x --no-same-owner --keep-directory-symlink -C "$root" \
    --exclude='./usr/share/doc*' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/lintian' \
    --exclude='./usr/share/info' --exclude='./usr/lib/postgresql/*/lib/bitcode' --exclude='*llvmjit*' --exclude='./var' \
    --exclude='./etc/init.d' --exclude='./usr/lib/systemd' --exclude='./lib/systemd' --exclude='./usr/share/gcc' \
    --exclude='*/gconv' --exclude='*/perl5' --exclude='./usr/share/zoneinfo/right' --exclude='./usr/share/zoneinfo/posix' --exclude='./usr/share/postgresql/*/man'
done
for applet in sh cat mkdir rm sleep ls id env grep ps; do
  [[ -e $root/usr/bin/$applet ]] || ln -s busybox "$root/usr/bin/$applet"
done
printf 'root:x:0:0:root:/:/bin/sh\npostgres:x:65532:65532:PostgreSQL:/tmp:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\npostgres:x:65532:\n' >"$root/etc/group"
cp "$here/entrypoint.sh" "$root/entrypoint.sh"
"$here/../../hack/cluster/cluster.sh" image -name "$name" -root "$root" -o "$out" -entrypoint /bin/sh,/entrypoint.sh -workdir /tmp \
  -env "PATH=/usr/lib/postgresql/$version/bin:/usr/bin" -env LANG=C.UTF-8
echo "$name"
