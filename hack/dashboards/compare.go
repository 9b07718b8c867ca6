package main

import "github.com/geobench/geobench/internal/ops/metrics"

// compareDashboard returns the dashboard that compares several runs or databases.
func compareDashboard() *Dashboard {
	by := "namespace, run, database"
	name := "{{namespace}} {{run}} ({{database}})"
	total := func(m *metrics.Definition) string { return sum(by, "increase("+of(m, ofTxn)+"[$__range])") }
	committed := total(metrics.Committed)
	bytes := "sum by (namespace, database) (" + rate(metrics.SentBytes, ofDatabase) + ")"
	// The work of nodes includes all transactions, so divide by the number of all transactions, not only of the selected
	// types.
	perTransaction := func(of string) string {
		return of + " / on (namespace, database) group_right () (" + sum(by, rate(metrics.Committed, ofRun)) + " > 0)"
	}
	return dashboard("compare", "Compare", "Several runs or databases side by side: choose them as Run, and the time range in which they ran. For intervals and significance use geobench compare on their results.", "1h",
		variables("namespace", "run", "database", "region", "transaction"), []section{
			{"Over the whole time range", []chart{
				{
					kind: "table", title: "Runs", unit: "short", width: 24, height: 8,
					description: "Totals and percentiles over the time range shown, warm-up included. The result document of a run counts its measured windows alone.",
					queries: []query{
						{committed, ""},
						{sum(by, "increase("+of(metrics.Aborted, ofTxn)+"[$__range])") + " or 0 * " + committed, ""},
						{quantile(0.5, metrics.Latency, by, ofTxn, "$__range"), ""},
						{quantile(0.95, metrics.Latency, by, ofTxn, "$__range"), ""},
						{quantile(0.99, metrics.Latency, by, ofTxn, "$__range"), ""},
						{share(total(metrics.Attempts), committed), ""},
						{"max_over_time((" + sum(by, rate(metrics.Committed, ofTxn)) + ")[$__range:])", ""},
					},
					columns: map[string]string{"namespace": "Namespace", "run": "Run", "database": "Database", "A": "Committed", "B": "Aborted", "C": "p50", "D": "p95", "E": "p99", "F": "Attempts per commit", "G": "Peak throughput"},
					order:   []string{"Namespace", "Run", "Database", "Committed", "Aborted", "p50", "p95", "p99", "Attempts per commit", "Peak throughput"},
					units:   map[string]string{"p50": "s", "p95": "s", "p99": "s", "Peak throughput": "ops"},
				},
			}},
			{"Side by side", []chart{
				lines("Throughput", "Committed transactions per second of each run.", "ops", query{sum(by, rate(metrics.Committed, ofTxn)), name}),
				lines("Median latency", "Median latency of the committed transactions of each run.", "s", query{quantile(0.5, metrics.Latency, by, ofTxn, rateSeconds), name}),
				lines("99th percentile", "99th percentile of the latency of the committed transactions of each run.", "s", query{quantile(0.99, metrics.Latency, by, ofTxn, rateSeconds), name}),
				lines("Abort ratio", "Aborted transactions of all that ended, of each run.", "percentunit", query{share(aborted(by, ofTxn), ended(by, ofTxn)), name}),
				lines("Attempts per commit", "Attempts for each committed transaction of each run: 1 where every one commits at once.", "short",
					query{share(sum(by, rate(metrics.Attempts, ofTxn)), sum(by, rate(metrics.Committed, ofTxn))), name}),
				lines("Bytes per transaction", "Bytes that the nodes of a database send to each other per committed transaction of a run, whichever regions and transactions are chosen.", "bytes", query{perTransaction(bytes), name}),
				lines("CPU per transaction", "CPU time that the nodes of a database use per committed transaction of a run, whichever regions and transactions are chosen. With geobench run all nodes and clients share one process, which is counted once.", "s",
					query{perTransaction(nodeCPU("namespace, database")), name}),
			}},
			{"By region", []chart{
				{
					kind: "bargauge", title: "Median latency by region", unit: "s", width: 12, height: 10,
					description: "Median latency over the time range shown, by run and the clients' region.",
					queries:     []query{{quantile(0.5, metrics.Latency, "namespace, run, region", ofTxn, "$__range"), "{{namespace}} {{run}} {{region}}"}},
				},
				{
					kind: "bargauge", title: "99th percentile by region", unit: "s", width: 12, height: 10,
					description: "99th percentile of the latency over the time range shown, by run and the clients' region.",
					queries:     []query{{quantile(0.99, metrics.Latency, "namespace, run, region", ofTxn, "$__range"), "{{namespace}} {{run}} {{region}}"}},
				},
			}},
		})
}

// nodeCPU returns the CPU time of a database's nodes per second. A process that contains several nodes counts once.
func nodeCPU(by string) string {
	return sum(by, "max by ("+list(by, "instance")+") ("+rate(metrics.NodeCPU, ofDatabase)+")")
}
