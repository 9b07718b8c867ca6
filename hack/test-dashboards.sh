#!/usr/bin/env bash
# Tests dashboards and rules with a real Prometheus. First promtool checks the rules. Then a Prometheus that has scraped
# a run of the quickstart evaluates every query of every panel, variable, annotation and rule. The first run builds
# Prometheus.
# Usage: hack/test-dashboards.sh [flags of hack/prometheus]
source "$(dirname "$0")/lib.sh"
server=$(tool install prometheus | tail -1)
promtool=$(tool install promtool | tail -1)
say "promtool check and test rules ($(elapsed))"
"$promtool" check rules dashboards/rules.yaml
"$promtool" test rules dashboards/rules_test.yaml
say "every query, on the scrape of a run ($(elapsed))"
go run ./hack/prometheus -server "$server" -geobench bin/geobench "$@"
say "done ($(elapsed))"
