package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/ops/metrics"
)

// Selectors of the series that are selected by the variables at the top of a dashboard.
const (
	ofRun       = `namespace=~"$namespace",run=~"$run"`
	ofWorker    = ofRun + `,region=~"$region"`
	ofTxn       = ofWorker + `,transaction=~"$transaction"`
	ofDatabase  = `namespace=~"$namespace",database=~"$database"`
	ofNode      = ofDatabase + `,region=~"$region"`
	ofSidecar   = `namespace=~"$namespace",region=~"$region"`
	rateSeconds = "$__rate_interval"
)

// of returns the selector of a metric's series.
func of(m *metrics.Definition, selector string) string { return m.Name + "{" + selector + "}" }

// rate returns the rate of a counter per second. It panics if the metric is not a counter.
func rate(m *metrics.Definition, selector string) string {
	if m.Type != metrics.Counter {
		panic(m.Name + " is no counter")
	}
	return "rate(" + of(m, selector) + "[" + rateSeconds + "])"
}

// sum returns the sum of expr, grouped by labels.
func sum(by, expr string) string { return aggregate("sum", by, expr) }

func aggregate(op, by, expr string) string {
	if by == "" {
		return op + "(" + expr + ")"
	}
	return fmt.Sprintf("%s by (%s) (%s)", op, by, expr)
}

// quantile returns a quantile of a histogram over a period. It uses the native histogram if there is one, and otherwise
// the classic buckets.
func quantile(q float64, m *metrics.Definition, by, selector, over string) string {
	native := fmt.Sprintf("histogram_quantile(%g, %s)", q, sum(by, fmt.Sprintf("rate(%s[%s])", of(m, selector), over)))
	classic := fmt.Sprintf("histogram_quantile(%g, %s)", q, sum(list(by, "le"), fmt.Sprintf("rate(%s_bucket{%s}[%s])", m.Name, selector, over)))
	return native + " or " + classic
}

// distribution returns the native or classic histogram of a metric, for a heat map.
func distribution(m *metrics.Definition, selector string) string {
	native := sum("", fmt.Sprintf("rate(%s[%s])", of(m, selector), rateSeconds))
	classic := sum("le", fmt.Sprintf("rate(%s_bucket{%s}[%s])", m.Name, selector, rateSeconds))
	return native + " or (" + classic + " unless on() " + native + ")"
}

func list(labels ...string) string {
	var l []string
	for _, s := range labels {
		if s != "" {
			l = append(l, s)
		}
	}
	return strings.Join(l, ", ")
}

// share returns part divided by whole. There is no value while whole is 0.
func share(part, whole string) string { return part + " / (" + whole + " > 0)" }

// ended returns the rate of all finished transactions. Outcomes that have not occurred yet count as 0.
func ended(by, selector string) string {
	out := sum(by, rate(metrics.Committed, selector))
	for _, m := range []*metrics.Definition{metrics.Aborted, metrics.Refused, metrics.Unknown, metrics.TimedOut} {
		out += " + (" + sum(by, rate(m, selector)) + " or 0 * " + sum(by, rate(metrics.Committed, selector)) + ")"
	}
	return out
}

// aborted returns the rate of aborts. It is 0 if there have been only commits.
func aborted(by, selector string) string {
	return "(" + sum(by, rate(metrics.Aborted, selector)) + " or 0 * " + sum(by, rate(metrics.Committed, selector)) + ")"
}

// variables returns the variables of a dashboard. Each depends only on variables before it.
func variables(names ...string) Templating {
	stage := metrics.RunStage.Name
	table := map[string]struct{ label, description, query string }{
		"namespace":   {"Namespace", "Namespace of the runs.", "label_values(" + stage + ", namespace)"},
		"run":         {"Run", "BenchmarkRuns.", "label_values(" + stage + `{namespace=~"$namespace"}, run)`},
		"database":    {"Database", "GeoDatabases of the runs.", "label_values(" + stage + "{" + ofRun + "}, database)"},
		"region":      {"Region", "Regions of clients and nodes.", "label_values(" + metrics.NodeReady.Name + "{" + ofDatabase + "}, region)"},
		"transaction": {"Transaction", "Types of transactions.", "label_values(" + metrics.Committed.Name + "{" + ofRun + "}, transaction)"},
	}
	if !slices.Contains(names, "database") {
		v := table["region"]
		v.query = "label_values(" + metrics.InFlight.Name + "{" + ofRun + "}, region)"
		table["region"] = v
	}
	out := Templating{List: []Variable{{
		Type: "datasource", Name: "datasource", Label: "Data source", Description: "The Prometheus that scrapes Geobench.", Query: "prometheus",
		Current: &Current{Text: "default", Value: "default"},
	}}}
	for _, name := range names {
		v, ok := table[name]
		if !ok {
			panic("no variable " + name)
		}
		out.List = append(out.List, Variable{
			Type: "query", Name: name, Label: v.label, Description: v.description, Datasource: &source,
			Query: VariableQuery{Query: v.query, RefID: "Variable-" + name}, Definition: v.query,
			Multi: true, IncludeAll: true, AllValue: ".*", Current: &Current{Selected: true, Text: "All", Value: "$__all"},
			Refresh: 2, Sort: 1,
		})
	}
	return out
}

// bands returns the annotations that mark the stages of runs and the faults.
func bands() Annotations {
	return Annotations{List: []Annotation{
		{
			Name: "Stages", Datasource: source, Enable: true, IconColor: "blue", Step: "1s", UseValueForTime: "",
			Expr: of(metrics.RunStage, ofRun+`,stage!~"Completed|Failed"`) + " == 1", TitleFormat: "{{namespace}} {{run}}: {{stage}}", TagKeys: "stage",
		},
		{
			Name: "Faults", Datasource: source, Enable: true, IconColor: "red", Step: "1s", UseValueForTime: "",
			Expr: of(metrics.FaultActive, ofRun) + " == 1", TitleFormat: "{{namespace}} {{run}}: {{fault}}", TagKeys: "fault",
		},
	}}
}

func dashboard(name, title, description string, span string, t Templating, sections []section) *Dashboard {
	return &Dashboard{
		UID: prefix + name, Title: "Geobench / " + title, Description: description, Tags: []string{"geobench"},
		GraphTooltip: 1, SchemaVersion: 41, Refresh: "5s", Time: TimeRange{From: "now-" + span, To: "now"}, Timezone: "browser",
		Links: []Link{{
			Title: "Geobench", Type: "dashboards", Icon: "external link", Tooltip: "The other dashboards", Tags: []string{"geobench"},
			AsDropdown: true, IncludeVars: true, KeepTime: true,
		}},
		Annotations: bands(), Templating: t, Panels: build(sections),
	}
}
