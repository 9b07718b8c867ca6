#!/usr/bin/env bash
# Installs seekdb and prints its path. seekdb is a server for a single machine that OceanBase's vendor builds from the
# kernel of OceanBase. It comes from the vendor's wheel on PyPI.
source "$(dirname "$0")/lib.sh"
version=1.4.0.post1
hash=7c1c1e13148189af1332f69b896a818b674db3a4615c7caf1c9db05055738ad6
folder=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/seekdb-$version
if [ ! -x "$folder/pylibseekdb/seekdb" ]; then
  new=$(mktemp -d)
  trap 'rm -rf "$new"' EXIT
  # The program is the same for every Python version. Choose one, because the hash is that of a single file.
  echo "pylibseekdb==$version --hash=sha256:$hash" >"$new/requirements.txt"
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --platform manylinux_2_28_x86_64 -r "$new/requirements.txt" -d "$new" >&2
  mkdir -p "$folder"
  python3 -m zipfile -e "$new"/pylibseekdb-*.whl "$folder"
  chmod +x "$folder/pylibseekdb/seekdb"
fi
echo "$folder/pylibseekdb/seekdb"
