# Sourced by the scripts that make images from Debian packages without a container engine or a chroot.

# debian_root ROOT PACKAGE... unpacks packages of this machine's release (and nothing that they depend on) into a folder, with
# the names of /usr/bin for /bin and a shell. Needs their lists (apt-get update). Downloads are kept, as the packages of a
# distribution's release change rarely.
debian_root() {
  local root=$1 cache=${GEOBENCH_CACHE:-$HOME/.cache/geobench}/debs file files missing=() applet
  shift
  set -- busybox-static libc6 libc-bin tzdata "$@"
  mkdir -p "$cache" "$root"/{etc,tmp,usr/bin,usr/sbin,usr/lib,usr/lib64}
  chmod 755 "$root" && chmod 1777 "$root/tmp"
  ln -s usr/bin usr/sbin usr/lib usr/lib64 "$root/"
  # apt-get names only files that the current folder lacks.
  mapfile -t files < <(cd "$root" && apt-get download --print-uris "$@" | cut -d' ' -f2)
  ((${#files[@]} == $#)) || { echo "apt-get knows ${#files[@]} of $# packages: run apt-get update" >&2; return 1; }
  for file in "${files[@]}"; do
    [[ -s $cache/$file ]] || missing+=("${file%%_*}")
  done
  ((${#missing[@]} == 0)) || (cd "$cache" && apt-get download -qq -o APT::Sandbox::User=root "${missing[@]}" >&2)
  for file in "${files[@]}"; do
    # No documentation, no translations, and no compiler of expressions, which needs 100 MB of LLVM.
    dpkg-deb --fsys-tarfile "$cache/$file" | tar -x --no-same-owner --keep-directory-symlink -C "$root" \
      --exclude='./usr/share/doc*' --exclude='./usr/share/man' --exclude='./usr/share/locale' --exclude='./usr/share/lintian' \
      --exclude='./usr/share/info' --exclude='./usr/lib/postgresql/*/lib/bitcode' --exclude='*llvmjit*' --exclude='./var' \
      --exclude='./etc/init.d' --exclude='./usr/lib/systemd' --exclude='./lib/systemd' --exclude='./usr/share/gcc' \
      --exclude='*/gconv' --exclude='*/perl5' --exclude='./usr/share/zoneinfo/right' --exclude='./usr/share/zoneinfo/posix' --exclude='./usr/share/postgresql/*/man'
  done
  for applet in sh cat mkdir rm sleep ls id env grep ps nc; do
    [[ -e $root/usr/bin/$applet ]] || ln -s busybox "$root/usr/bin/$applet"
  done
}
