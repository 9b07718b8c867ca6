package main

import "github.com/geobench/geobench/internal/ops/metrics"

// recorded returns the selector of the series that a recording rule of dashboards/rules.yaml creates.
func recorded(rule string) string { return rule + "{" + ofDatabase + "}" }

// networkDashboard returns the dashboard that compares the measured network with the declared network, and shows the
// traffic and its cost.
func networkDashboard() *Dashboard {
	link := "namespace, database, region, to"
	median := "avg by (" + link + ") (" + of(metrics.MedianRTT, ofNode) + ")"
	declared := "max by (" + link + ") (" + of(metrics.DeclaredRTT, ofNode) + ")"
	tolerance := "max by (" + link + ") (" + of(metrics.RTTTolerance, ofNode) + ")"
	off := "abs(" + median + " - " + declared + ")"
	bytes := sum(link, rate(metrics.SentBytes, ofNode))
	price := "max by (namespace, database, region, to, currency) (" + of(metrics.TransferPrice, ofRun) + ")"
	gigabytes := sum(link, rate(metrics.SentBytes, ofNode)) + " * 3600 / 1e9"
	transfer := price + " * on (" + link + ") group_left () (" + gigabytes + ")"
	machines := "max by (namespace, database, currency) (" + of(metrics.NodePrice, ofRun) + ") * on (namespace, database) group_left () count by (namespace, database) (" + of(metrics.NodeReady, ofDatabase) + ")"
	return dashboard("network", "Network", "The network between regions as declared and as measured, what is sent over it, and what that costs.", "15m",
		variables("namespace", "run", "database", "region"), []section{
			{"Declared and measured", []chart{
				{
					kind: "table", title: "Round trips", unit: "s", width: 12, height: 9,
					description: "Round trips between regions: as the profile declares them, and as the nodes' probes measured them during the last 10 s. Of the tolerance (5% of the declared round trip, 1 ms, and the sampling error of the declared jitter), a run may use all.",
					queries: []query{
						{declared, ""}, {median, ""},
						{"max by (" + link + ") (" + of(metrics.TailRTT, ofNode) + ")", ""},
						{off + " / " + tolerance, ""},
					},
					columns: map[string]string{"namespace": "Namespace", "database": "Database", "region": "From", "to": "To", "A": "Declared", "B": "Median", "C": "p99", "D": "Tolerance used"},
					order:   []string{"Namespace", "Database", "From", "To", "Declared", "Median", "p99", "Tolerance used"},
					units:   map[string]string{"Tolerance used": "percentunit"},
				},
				func() chart {
					c := lines("Tolerance used", "How far the measured median is from the declared round trip, of what is allowed: 5% + 1 ms, and the sampling error of the declared jitter. Over 100% a run does not start.", "percentunit",
						query{off + " / " + tolerance, "{{namespace}} {{database}} {{region}} → {{to}}"})
					c.limit = num(1)
					return c
				}(),
				lines("Measured round trips", "Median round trip between regions during the last 10 s. Dashed: as declared.", "s",
					query{median, "{{namespace}} {{database}} {{region}} → {{to}}"},
					query{declared, "declared {{namespace}} {{database}} {{region}} → {{to}}"}),
				lines("Tail of the round trips", "99th percentile of the round trips between regions during the last 10 s. A tail far above the median on an idle link is jitter, on a busy machine it is waiting for the CPU.", "s",
					query{"max by (" + link + ") (" + of(metrics.TailRTT, ofNode) + ")", "{{namespace}} {{database}} {{region}} → {{to}}"}),
			}},
			{"Traffic", []chart{
				lines("Bytes per link", "Bytes per second that the nodes of a region send to those of another one, headers and probes included.", "Bps", query{bytes, "{{namespace}} {{database}} {{region}} → {{to}}"}),
				lines("Messages per link", "Messages per second that the nodes of a region send to those of another one, probes and acknowledgements included.", "ops",
					query{sum(link, rate(metrics.SentMessages, ofNode)), "{{namespace}} {{database}} {{region}} → {{to}}"}),
				lines("Bytes to clients", "Bytes per second that nodes send to clients of their region.", "Bps",
					query{sum("namespace, database, region", rate(metrics.NodeClientBytes, ofNode)), "{{namespace}} {{database}} {{region}}"}),
				lines("Stalls", "Times per second that a link began to hold more than its limit for a peer: the peer, or the path to it, is too slow.", "ops",
					query{sum("namespace, database, region", rate(metrics.Stalls, ofNode)), "{{namespace}} {{database}} {{region}}"}),
			}},
			{"Sidecars", empty("no sidecars",
				lines("Packets received", "Packets per second that came over each emulated link, before any was dropped, by the region that they came from.", "pps",
					query{sum("namespace, region, from", rate(metrics.WANPackets, ofSidecar)), "{{namespace}} {{from}} → {{region}}"}),
				func() chart {
					c := lines("Packets dropped", "Packets per second that sidecars dropped. Loss, rate and cut were asked for; queue means that the sidecar had no room (queueBytes) or did not keep up, kernel that the kernel dropped a packet which was held.", "pps",
						query{sum("namespace, region, from, cause", rate(metrics.WANDropped, ofSidecar)), "{{namespace}} {{from}} → {{region}} {{cause}}"})
					c.stacked = true
					return c
				}(),
				lines("Bytes on their way", "Bytes that sidecars hold until they are due. A link holds its rate times its delay.", "bytes",
					query{sum("namespace, region, from", of(metrics.WANQueuedBytes, ofSidecar)), "{{namespace}} {{from}} → {{region}}"}),
				lines("Lateness", "How much later than due sidecars handed packets on: median and 99th percentile. Much beyond a millisecond, the machine is too busy to emulate the network.", "s",
					query{quantile(0.5, metrics.WANLateness, "namespace, region", ofSidecar, rateSeconds), "p50 {{namespace}} {{region}}"},
					query{quantile(0.99, metrics.WANLateness, "namespace, region", ofSidecar, rateSeconds), "p99 {{namespace}} {{region}}"}),
				lines("Sidecars ready", "Sidecars whose configuration is in force, of all.", "short",
					query{sum("namespace, region", of(metrics.WANReady, ofSidecar)), "ready {{namespace}} {{region}}"},
					query{"count by (namespace, region) (" + of(metrics.WANReady, ofSidecar) + ")", "all {{namespace}} {{region}}"}),
				lines("Configurations refused", "Configurations per second that sidecars refused: they keep the one from before.", "ops",
					query{sum("namespace, region", rate(metrics.WANConfigErrors, ofSidecar)), "{{namespace}} {{region}}"}),
			)},
			{"Service mesh", empty("no service mesh",
				lines("What the mesh adds to a link", "Median round trip over a connection that the mesh carries, less that of packets below it, during the last 10 s. Both probes take the same way at the same time.", "s",
					query{"avg by (" + link + ") (" + of(metrics.ThroughMeshRTT, ofNode) + ") - avg by (" + link + ") (" + of(metrics.BelowMeshRTT, ofNode) + ")", "{{namespace}} {{database}} {{region}} → {{to}}"}),
				lines("Bytes by three witnesses", "Bytes per second from one region to another as nodes, the sidecars that emulate the network and a service mesh count them. Sidecars count headers from IP upwards, too.", "Bps",
					query{recorded("geobench:link_bytes:engine_rate1m"), "nodes {{namespace}} {{database}} {{region}} → {{to}}"},
					query{recorded("geobench:link_bytes:emulator_rate1m"), "emulator {{namespace}} {{database}} {{region}} → {{to}}"},
					query{recorded("geobench:link_bytes:mesh_rate1m"), "mesh {{namespace}} {{database}} {{region}} → {{to}}"}),
				func() chart {
					c := lines("Mesh beside nodes", "How far the bytes that a service mesh counts are from those that nodes count. Beyond 2% one of them does not see all traffic: a port that is left out, or a pod that is not in the mesh.", "percentunit",
						query{recorded("geobench:link_bytes:mesh_off_ratio"), "{{namespace}} {{database}} {{region}} → {{to}}"})
					c.limit = num(0.02)
					return c
				}(),
			)},
			{"Cost per hour", []chart{
				lines("Transfer per link", "Price of an hour of the present traffic between regions, by the price table of the network profile (AWS's list prices where it has none), in the currency of that.", "short",
					query{transfer, "{{namespace}} {{database}} {{region}} → {{to}} ({{currency}})"}),
				lines("Machines and transfer", "Price of an hour of all nodes, and of the present traffic between all regions.", "short",
					query{machines, "{{namespace}} {{database}} machines ({{currency}})"},
					query{"sum by (namespace, database, currency) (" + transfer + ")", "{{namespace}} {{database}} transfer ({{currency}})"}),
			}},
		})
}
