#!/usr/bin/env bash
# Checks that builds are reproducible. Builds the current commit twice, like two different people: in different folders,
# with different times and modes of files, and with another language, time zone and home folder. The second build does
# not use Go's build cache. Then compares the results.
source "$(dirname "$0")/lib.sh"
commit=$(git rev-parse HEAD)
[[ -z $(git status --porcelain) ]] || echo "changes that are not committed are left out: what is built is $commit" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
modules=$(go env GOMODCACHE)
cache=$(go env GOCACHE)

# build FOLDER CACHE builds in a clone and prints the digests.
build() {
  local folder=$1
  git clone --quiet --no-checkout "$root" "$folder"
  git -C "$folder" checkout --quiet --detach "$commit"
  find "$folder" -path '*/.git' -prune -o -type f -exec touch -d "$TOUCHED" {} +
  GOCACHE=$2 GOMODCACHE=$modules make --no-print-directory -C "$folder" sbom IMAGE=localhost/geobench:dev >&2
  (cd "$folder" && sha256sum bin/geobench out/geobench.tar out/geobench.spdx.json out/geobench-image.spdx.json out/geobench.intoto.json)
}

say "once: $work/a"
TOUCHED=2020-02-02 build "$work/a" "$cache" >"$work/a.sums"
say "once more, from nothing: $work/another/folder ($(elapsed))"
mkdir -p "$work/another" "$work/home"
(umask 077 && HOME=$work/home USER=somebody TZ=Asia/Tokyo LC_ALL=C.UTF-8 TOUCHED=2001-03-03T12:00 GEOBENCH_CACHE=${GEOBENCH_CACHE:-$HOME/.cache/geobench} \
  build "$work/another/folder" "$work/cache") >"$work/b.sums"
cat "$work/a.sums"
diff "$work/a.sums" "$work/b.sums" || { echo "commit $commit does not build to the same bytes twice" >&2; exit 1; }
say "the same bytes twice, of commit $commit ($(elapsed))"
