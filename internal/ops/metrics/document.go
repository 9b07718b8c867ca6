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

What Geobench shows to Prometheus, in OpenMetrics text (with exemplars) or protobuf (with native histograms), whichever the scraper
asks for. How to have it scraped: [monitoring.md](monitoring.md). Figures of a run that you quote come from its
[result document](results.md), not from here: metrics count warm-ups too, and a histogram's quantile is as coarse as its buckets.

Histograms are native (a resolution of 10%) and classic at once. No metric has a label for a client, a key or a single transaction; reasons
of outcomes are cut off at 32 per worker, the rest are counted as `+"`other`"+`. Processes also serve the figures of the Go runtime (`+"`go_*`"+`) and of the
process (`+"`process_*`"+`).
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
