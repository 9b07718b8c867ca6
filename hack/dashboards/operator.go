package main

import "github.com/geobench/geobench/internal/ops/metrics"

// operatorDashboard returns the dashboard for administrators of the operator.
func operatorDashboard() *Dashboard {
	const job = `job=~".*geobench.*"`
	const controllers = `controller=~"benchmarkrun|geodatabase|experiment|networkprofile"`
	wait := func(q, metric, selector string) string {
		native := "histogram_quantile(" + q + ", sum by (controller) (rate(" + metric + "{" + selector + "}[" + rateSeconds + "])))"
		return native + " or histogram_quantile(" + q + ", sum by (controller, le) (rate(" + metric + "_bucket{" + selector + "}[" + rateSeconds + "])))"
	}
	stage := "histogram_quantile(0.5, sum by (stage) (" + metrics.StageSeconds.Name + ")) or histogram_quantile(0.5, sum by (stage, le) (" + metrics.StageSeconds.Name + "_bucket))"
	return dashboard("operator", "Operator", "The operator: runs and databases under its care, how long stages take, and whether it reconciles without errors.", "3h",
		variables("namespace", "run"), []section{
			{"Runs and databases", []chart{
				lines("Runs by stage", "BenchmarkRuns of all namespaces, by stage and, once they are over, by verdict.", "short",
					query{sum("stage, verdict", metrics.Runs.Name), "{{stage}} {{verdict}}"}),
				lines("Databases", "GeoDatabases by engine, and by whether they are ready.", "short",
					query{sum("engine, ready", metrics.Databases.Name), "{{engine}}, ready: {{ready}}"}),
				{
					kind: "bargauge", title: "Time in stages", unit: "s", width: 12, height: 9,
					description: "Median time that runs stayed in each stage, since the operator started.",
					queries:     []query{{stage, "{{stage}}"}},
				},
				{
					kind: "table", title: "Runs under way", unit: "s", width: 12, height: 9,
					description: "Runs that are not over: the stage, and how long until the operator gives up on it.",
					queries:     []query{{"max by (namespace, run, database, stage) (" + of(metrics.RunDeadline, ofRun) + ") - time()", ""}},
					columns:     map[string]string{"namespace": "Namespace", "run": "Run", "database": "Database", "stage": "Stage", "A": "Time left"},
					order:       []string{"Namespace", "Run", "Database", "Stage", "Time left"}, zero: "none",
				},
				lines("Networks not as declared", "Databases whose measured network is not the declared one.", "short",
					query{"sum by (namespace) (1 - max by (namespace, database) (" + of(metrics.NetworkVerified, `namespace=~"$namespace"`) + "))", "{{namespace}}"}),
			}},
			{"Reconciling", []chart{
				lines("Reconciles", "Reconciles per second, by controller and result.", "ops",
					query{"sum by (controller, result) (rate(controller_runtime_reconcile_total{" + controllers + "}[" + rateSeconds + "]))", "{{controller}} {{result}}"}),
				lines("Reconcile errors", "Reconciles per second that ended with an error, and were tried again.", "ops",
					query{"sum by (controller) (rate(controller_runtime_reconcile_errors_total{" + controllers + "}[" + rateSeconds + "]))", "{{controller}}"}),
				lines("Time of a reconcile", "99th percentile of the time that a reconcile takes.", "s",
					query{wait("0.99", "controller_runtime_reconcile_time_seconds", controllers), "{{controller}}"}),
				lines("Queue", "Objects that wait for a reconcile.", "short",
					query{"max by (controller) (workqueue_depth{" + controllers + "})", "{{controller}}"}),
				lines("Requests to the API server", "Requests per second, by method and code.", "ops",
					query{"sum by (method, code) (rate(rest_client_requests_total{" + job + "}[" + rateSeconds + "]))", "{{method}} {{code}}"}),
			}},
			{"Process", []chart{
				lines("Up", "Instances of the operator that answer.", "short", query{`sum(up{` + job + `})`, "up"}),
				lines("Leader", "1 for the instance that acts, where leader election is on.", "short", query{`max by (name) (leader_election_master_status{` + job + `})`, "{{name}}"}),
				lines("CPU", "Cores in use.", "short", query{`sum by (instance) (rate(process_cpu_seconds_total{` + job + `}[` + rateSeconds + `]))`, "{{instance}}"}),
				lines("Memory", "Resident memory.", "bytes", query{`max by (instance) (process_resident_memory_bytes{` + job + `})`, "{{instance}}"}),
			}},
		})
}
