#!/usr/bin/env bash
# Takes the screenshots for docs/: of the report, the terminal, and charts with the results of the dashboards' queries.
# Needs Chromium and `script`.
# Usage: hack/screenshots.sh [FOLDER]
source "$(dirname "$0")/lib.sh"
to=$(mkdir -p "${1:-docs}" && cd "${1:-docs}" && pwd)
work=$root/out/screenshots
rm -rf "$work"
mkdir -p "$work"
go build -o "$work/screenshots" ./hack/screenshots
shot() { "$work/screenshots" "$@"; }
# record FILE COMMAND records a command on a terminal with 100 columns. It ignores failures, because some claims of
# verify differ.
record() { TERM=xterm script -qfc "stty cols 100 rows 40; $2" "$1" >/dev/null </dev/null; }

say "a run with a fault, on a terminal ($(elapsed))"
record "$work/run.typescript" "bin/geobench run -f hack/prometheus/run.yaml --save $work/run"
shot terminal "$work/run.typescript" "fault slow-link" "geobench run -f hack/prometheus/run.yaml" "$to/terminal.png"
record "$work/verify.typescript" "bin/geobench verify experiments/smallbank/baseline.yaml --results $work/verify"
shot terminal "$work/verify.typescript" '(?s)(1[5-9]|2[0-9]) of [0-9]+ runs, ETA(.*committed){4}' "geobench verify experiments/smallbank/baseline.yaml" "$to/terminal-verify.png"

say "reports ($(elapsed))"
bin/geobench report "$work/run" -o "$work/report"
for what in "light 1100 1300 light" "dark 1100 1300 dark" "phone 390 1300 light"; do
  read -r name width height scheme <<<"$what"
  shot page "file://$work/report/index.html" "$width" "$height" "$scheme" 1 "$to/report-$name.png"
done
# part FOLDER HEADING... leaves these headings of the page, with what follows each, and prints the address.
part() {
  local page=$1/part.html rule="header,nav,footer" these=
  shift
  for id in "$@"; do these+=":not(#$id):not(#$id+*)"; done
  sed "s/<\/head>/<style>$rule,.run>*$these{display:none}<\/style>&/" "$(dirname "$page")/index.html" >"$page"
  echo "file://$page"
}
shot page "$(part "$work/report" quickstart-throughput-title)" 1100 1900 light 0.8 "$to/report-throughput.png"
shot page "$(part "$work/report" quickstart-faults quickstart-checks quickstart-network-title quickstart-balance)" 1100 2400 light 0.7 "$to/report-network.png"
# Two settings of a parameter, five repetitions each.
sed 's/clientsPerRegion: .*/clientsPerRegion: 100\n    repetitions: 5/' experiments/quickstart.yaml >"$work/before.yaml"
sed 's/batch: .*/batch: 20ms}/; s/name: quickstart/name: batch-20ms/' "$work/before.yaml" >"$work/after.yaml"
bin/geobench simulate -q -f "$work/before.yaml" --save "$work/before" >/dev/null
bin/geobench simulate -q -f "$work/after.yaml" --save "$work/after" >/dev/null
bin/geobench report "$work/after" --baseline "$work/before" -o "$work/comparison"
sed -i 's/<\/head>/<style>header,nav,.run:not(#comparison){display:none}<\/style>&/' "$work/comparison/index.html"
shot page "file://$work/comparison/index.html" 900 1900 light 0.8 "$to/report-comparison.png"

say "what the dashboards' queries return ($(elapsed))"
go run ./hack/prometheus -server "$(tool install prometheus | tail -1)" -geobench bin/geobench -histograms native -plot "$work/dashboards"
for what in "run 1660" "network 1290" "engine 1640" "compare 1300"; do
  read -r name height <<<"$what"
  shot page "file://$work/dashboards/$name.html" 1200 "$height" light 0.6 "$to/dashboard-$name.png"
done
say "done ($(elapsed))"
