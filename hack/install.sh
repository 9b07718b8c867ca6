#!/usr/bin/env bash
# Installs what `make install` has built: the program, the kubectl plugin (links to the program), manual pages and shell
# completion.
# Usage: hack/install.sh PREFIX
set -euo pipefail
prefix=${1:?the folder to install into}
cd "$(dirname "$0")/.."
install -D -m 755 bin/geobench "$prefix/bin/geobench"
for plugin in kubectl-geobench kubectl_complete-geobench; do
  ln -sf geobench "$prefix/bin/$plugin"
done
bin/geobench man "$prefix/share/man/man1"
put() { mkdir -p "$prefix/share/$(dirname "$2")" && bin/geobench completion "$1" >"$prefix/share/$2"; }
put bash bash-completion/completions/geobench
put zsh zsh/site-functions/_geobench
put fish fish/vendor_completions.d/geobench.fish
echo "installed below $prefix: bin/geobench, the kubectl plugin, $(ls "$prefix"/share/man/man1/geobench*.1 | wc -l) manual pages, completion for bash, zsh and fish"
