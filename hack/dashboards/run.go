package main

import "github.com/geobench/geobench/internal/ops/metrics"

// latencyObjective returns the latency limits of a run. more selects the limits for all regions or for one region.
func latencyObjective(percentile, more string) string {
	return "max by (namespace, run, region, transaction, percentile) (" + of(metrics.RunLatencyLimit, ofRun+`,percentile=~"`+percentile+`",bound="max"`+more) + ")"
}

// runDashboard returns the dashboard of a single run, with the measurements of its clients and its objectives.
func runDashboard() *Dashboard {
	throughput := sum("namespace, run", rate(metrics.Committed, ofTxn))
	driver := share(sum("namespace, run, driver", rate(metrics.DriverCPU, ofRun)), "sum by (namespace, run, driver) ("+of(metrics.DriverAllowance, ofRun)+")")
	return dashboard("run", "Run", "A benchmark run as its clients see it: throughput, latency, aborts, stages and faults, with the run's objectives as dashed lines.", "15m",
		variables("namespace", "run", "region", "transaction"), []section{
			{"Now", []chart{
				wide(chart{
					kind: "state-timeline", title: "Stage", unit: "short",
					description: "What each run does: Preflight, Provision, Emulate, Load, Warmup, Measure, Recover, Collect, Evaluate, Completed or Failed.",
					queries:     []query{{"max by (namespace, run, stage) (" + of(metrics.RunStage, ofRun) + ")", "{{namespace}} {{run}} {{stage}}"}},
				}, 24, 6),
				figure("Throughput", "Committed transactions per second of all clients.", "ops", throughput),
				figure("Median latency", "Half of the committed transactions took at most this long, counted from when they were due.", "s", quantile(0.5, metrics.Latency, "namespace, run", ofTxn, rateSeconds)),
				figure("99th percentile", "99% of the committed transactions took at most this long, counted from when they were due.", "s", quantile(0.99, metrics.Latency, "namespace, run", ofTxn, rateSeconds)),
				figure("Abort ratio", "Aborted transactions of all that ended.", "percentunit", share(aborted("namespace, run", ofTxn), ended("namespace, run", ofTxn))),
				figure("In flight", "Transactions without an outcome.", "short", sum("namespace, run", of(metrics.InFlight, ofWorker))),
				func() chart {
					c := figure("Busiest load generator", "CPU that the busiest load generator uses of what it may use. Over 80% the run is invalid: the clients were the bottleneck.", "percentunit", "max by (namespace, run) ("+driver+")")
					c.limit = num(0.8)
					return c
				}(),
			}},
			{"Throughput", []chart{
				lines("Throughput by region", "Committed transactions per second, by the clients' region. Dashed: objectives on the throughput of the whole run.", "ops",
					query{sum("namespace, run, region", rate(metrics.Committed, ofTxn)), "{{namespace}} {{run}} {{region}}"},
					query{throughput, "{{namespace}} {{run}} all"},
					query{"max by (namespace, run, bound) (" + of(metrics.RunThroughputLimit, ofRun+`,region="",transaction=""`) + ")", objective + " {{bound}} {{namespace}} {{run}}"}),
				lines("Throughput by transaction", "Committed transactions per second, by type.", "ops",
					query{sum("namespace, run, transaction", rate(metrics.Committed, ofTxn)), "{{namespace}} {{run}} {{transaction}}"}),
			}},
			{"Latency", []chart{
				func() chart {
					c := lines("Latency by region", "Median and 99th percentile of the latency of committed transactions, by the clients' region. Dashed: objectives on the 99th percentile of a region or of all, over the whole measurement.", "s",
						query{quantile(0.5, metrics.Latency, "namespace, run, region", ofTxn, rateSeconds), "p50 {{namespace}} {{run}} {{region}}"},
						query{quantile(0.99, metrics.Latency, "namespace, run, region", ofTxn, rateSeconds), "p99 {{namespace}} {{run}} {{region}}"},
						query{latencyObjective("p99", `,transaction="",region=~"|$region"`), objective + " {{percentile}} {{namespace}} {{run}} {{region}}"})
					c.exemplars = true
					return c
				}(),
				{
					kind: "heatmap", title: "Latency heat map", unit: "s", width: 12, height: 9,
					description: "Commits per second by latency. Two bands mean two populations, for example single-home and multi-home transactions.",
					queries:     []query{{distribution(metrics.Latency, ofTxn), "{{le}}"}},
				},
				lines("99th percentile by transaction", "99th percentile of the latency of committed transactions, by type. Dashed: objectives on one type.", "s",
					query{quantile(0.99, metrics.Latency, "namespace, run, transaction", ofTxn, rateSeconds), "{{namespace}} {{run}} {{transaction}}"},
					query{latencyObjective("p.*", `,transaction!="",transaction=~"$transaction"`), objective + " {{percentile}} {{namespace}} {{run}} {{transaction}} {{region}}"}),
				lines("Median latency by class", "Median latency by class: single-home (SH) or multi-home (MH), single-partition (SP) or multi-partition (MP), and the clients' region. The class follows from the keys, the latency from the protocol's message flow.", "s",
					query{quantile(0.5, metrics.Latency, "namespace, run, region, class", ofTxn, rateSeconds), "{{namespace}} {{run}} {{region}} {{class}}"}),
			}},
			{"What did not commit", []chart{
				func() chart {
					c := lines("Aborts by reason", "Aborted transactions per second, by reason.", "ops",
						query{sum("namespace, run, reason", rate(metrics.Aborted, ofTxn)), "{{namespace}} {{run}} {{reason}}"})
					c.stacked, c.zero = true, "none"
					return c
				}(),
				lines("Abort ratio", "Aborted transactions of all that ended. Dashed: objectives on the whole run.", "percentunit",
					query{share(aborted("namespace, run, region", ofTxn), ended("namespace, run, region", ofTxn)), "{{namespace}} {{run}} {{region}}"},
					query{"max by (namespace, run, bound) (" + of(metrics.RunAbortLimit, ofRun+`,region="",transaction=""`) + ")", objective + " {{bound}} {{namespace}} {{run}}"}),
				func() chart {
					c := lines("Refused, lost and timed out", "Transactions per second that the database would not take, whose connection was lost, or that their clients gave up on.", "ops",
						query{sum("namespace, run, reason", rate(metrics.Refused, ofTxn)), "{{namespace}} {{run}} refused: {{reason}}"},
						query{sum("namespace, run, reason", rate(metrics.Unknown, ofTxn)), "{{namespace}} {{run}} lost: {{reason}}"},
						query{sum("namespace, run", rate(metrics.TimedOut, ofTxn)), "{{namespace}} {{run}} timed out"})
					c.stacked, c.zero = true, "none"
					return c
				}(),
				func() chart {
					c := lines("Attempts by outcome", "Attempts per second, by how they ended and why. A transaction that spec.load.retry has tried again counts in each of them; what committed is the goodput.", "ops",
						query{sum("namespace, run, outcome, cause", rate(metrics.Attempts, ofTxn)), "{{namespace}} {{run}} {{outcome}} {{cause}}"})
					c.stacked = true
					return c
				}(),
				lines("Attempts per commit", "Attempts for each committed transaction: 1 where every one commits at once.", "short",
					query{share(sum("namespace, run, region", rate(metrics.Attempts, ofTxn)), sum("namespace, run, region", rate(metrics.Committed, ofTxn))), "{{namespace}} {{run}} {{region}}"}),
				lines("Arrivals dropped", "Arrivals per second of an open loop that found the queue full. Any is a sign that the database cannot keep up with the asked rate.", "ops",
					query{sum("namespace, run, region", rate(metrics.Dropped, ofWorker)), "{{namespace}} {{run}} {{region}}"}),
			}},
			{"Load generators", []chart{
				func() chart {
					c := lines("CPU of load generators", "CPU that each load generator uses of what it may use. Over 80% while measuring, the run is invalid. One that shares its process with the nodes (geobench run) shows both.", "percentunit",
						query{driver, "{{namespace}} {{run}} {{driver}}"})
					c.limit = num(0.8)
					return c
				}(),
				lines("In flight by region", "Transactions without an outcome, by the clients' region.", "short",
					query{sum("namespace, run, region", of(metrics.InFlight, ofWorker)), "{{namespace}} {{run}} {{region}}"}),
			}},
		})
}
