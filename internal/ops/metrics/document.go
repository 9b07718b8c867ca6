package metrics

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Document writes the table of all metrics as a page of the documentation.
func Document(w io.Writer) {
	fmt.Fprint(w, `# Metrics

<!-- Written by make generate from internal/ops/metrics. -->

This page lists the metrics that Geobench exposes to Prometheus, as OpenMetrics text (with exemplars) or protobuf (with native
histograms), depending on what the scraper requests. [monitoring.md](monitoring.md) explains how to scrape them. Quote the figures of a
run from its [result document](results.md), not from metrics: metrics include warm-ups, and a histogram's quantile is as coarse as its
buckets.

Histograms are both native (with a resolution of 10%) and classic. No metric has a label for a client, a key or a single transaction. A
worker reports at most 32 reasons of outcomes and counts the rest as `+"`other`"+`. Processes also serve the metrics of the Go runtime
(`+"`go_*`"+`) and of the process (`+"`process_*`"+`).
`)
	for _, s := range All() {
		fmt.Fprintf(w, "\n## %s\n\n%s\n\n| metric | type | labels | |\n|---|---|---|---|\n", s.Name, s.About)
		for _, d := range s.Metrics {
			labels := make([]string, len(d.Labels))
			for i, l := range d.Labels {
				labels[i] = "`" + l + "`"
			}
			help := d.Help
			if len(d.Buckets) > 0 {
				var b []string
				for _, v := range d.Buckets {
					b = append(b, strconv.FormatFloat(v, 'g', -1, 64))
				}
				help += " Classic buckets: " + strings.Join(b, ", ") + "."
			}
			fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", d.Name, d.Type, strings.Join(labels, " "), help)
		}
	}
}
