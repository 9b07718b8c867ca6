package main

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// engineDashboard returns the dashboard that shows the internals of a database's nodes.
func engineDashboard() *Dashboard {
	node := "{{namespace}} {{database}} {{node}}"
	by := "namespace, database, node"
	return dashboard("engine", "Engine", "The inside of a database, node by node: what the protocol counts, its event loop, its data and its processes.", "15m",
		variables("namespace", "run", "database", "region"), []section{
			{"Nodes", []chart{
				{
					kind: "table", title: "Nodes", unit: "short", width: 24, height: 8,
					description: "The nodes now: ready is 1 when every peer was reached and none has lost its state.",
					queries: []query{
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodeReady, ofNode) + ")", ""},
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodePeers, ofNode) + ")", ""},
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodePending, ofNode) + ")", ""},
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodeRows, ofNode) + ")", ""},
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodeBytes, ofNode) + ")", ""},
						{"max by (namespace, database, engine, region, node) (" + of(metrics.NodeBroken, ofNode) + ")", ""},
					},
					columns: map[string]string{"namespace": "Namespace", "database": "Database", "engine": "Engine", "region": "Region", "node": "Node", "A": "Ready", "B": "Peers", "C": "Pending", "D": "Rows", "E": "Data", "F": "Lost state"},
					order:   []string{"Namespace", "Database", "Engine", "Region", "Node", "Ready", "Peers", "Pending", "Rows", "Data", "Lost state"},
					units:   map[string]string{"Data": "bytes"},
				},
			}},
			{"Protocol", []chart{
				lines("Transactions answered", "Transactions per second that nodes answered to their clients, by status.", "ops",
					query{sum("namespace, database, region, status", rate(metrics.NodeOutcomes, ofNode)), "{{namespace}} {{database}} {{region}} {{status}}"}),
				lines("Transactions per batch", "Transactions in a batch on average, for engines whose sequencers close batches.", "short",
					query{sum(by, rate(metrics.EngineEvents, ofNode+`,event="transactions"`)) + " / (" + sum(by, rate(metrics.EngineEvents, ofNode+`,event="batches"`)) + " > 0)", node}),
				lines("All events", "Everything that the engine counts, per second over all nodes. The pages of docs/protocols explain the words.", "ops",
					query{sum("namespace, database, event", rate(metrics.EngineEvents, ofNode)), "{{namespace}} {{database}} {{event}}"}),
				state("Log positions", "Where logs stand. Lines that drift apart show a node that lags behind.", true),
				state("Other state", "Leaders' terms, sizes of tables, and what is open now. A term that grows shows elections.", false),
			}},
			{"Figures of the engine", topics()},
			{"Groups", []chart{
				{
					kind: "table", title: "Leaders", unit: "short", width: 24, height: 8,
					description: "Which node leads the group that keeps a shard's rows, for engines with such groups. Two nodes of one shard show a change of leaders.",
					queries:     []query{{"max by (namespace, database, shard, region, node) (" + of(metrics.NodeLeads, ofNode) + ")", ""}},
					columns:     map[string]string{"namespace": "Namespace", "database": "Database", "shard": "Shard", "region": "Region", "node": "Leader"},
					order:       []string{"Namespace", "Database", "Shard", "Region", "Leader"},
				},
				lines("Groups led", "Groups that each node leads.", "short",
					query{sum(by, of(metrics.NodeLeads, ofNode)), node}),
			}},
			{"Event loop", []chart{
				lines("Queue depth", "Messages, transactions and timers that wait for the event loop. A queue that grows shows a node at its limit.", "short",
					query{"max by (" + by + ") (" + of(metrics.NodeQueue, ofNode) + ")", node}),
				lines("Pending transactions", "Transactions that a node has heard of and not finished.", "short",
					query{"max by (" + by + ") (" + of(metrics.NodePending, ofNode) + ")", node}),
				lines("Turns", "Turns of the event loop per second. Each takes all that waits.", "ops", query{sum(by, rate(metrics.NodeTurns, ofNode)), node}),
				lines("Outcomes to clients", "Outcomes per second that nodes send to clients.", "ops", query{sum(by, rate(metrics.NodeClientOutcomes, ofNode)), node}),
			}},
			{"Data", []chart{
				lines("Operations", "Reads and writes of rows per second. Lines far apart show a skewed placement.", "ops", query{sum(by, rate(metrics.NodeOperations, ofNode)), node}),
				{
					kind: "bargauge", title: "Balance of operations", unit: "short", width: 12, height: 9,
					description: "Reads and writes of rows so far, by node.",
					queries:     []query{{"max by (" + by + ") (" + of(metrics.NodeOperations, ofNode) + ")", node}},
				},
				lines("Rows", "Rows in the store.", "short", query{"max by (" + by + ") (" + of(metrics.NodeRows, ofNode) + ")", node}),
				lines("Data size", "Bytes of keys and values in the store.", "bytes", query{"max by (" + by + ") (" + of(metrics.NodeBytes, ofNode) + ")", node}),
			}},
			{"Processes", []chart{
				lines("CPU", "Cores in use by the processes of nodes. With geobench run all nodes and clients share one process, and each node shows all of it.", "short",
					query{sum(by, rate(metrics.NodeCPU, ofNode)), node}),
				lines("Memory", "Resident memory of the processes of nodes. With geobench run all nodes and clients share one process, and each node shows all of it.", "bytes",
					query{"max by (" + by + ") (" + of(metrics.NodeMemory, ofNode) + ")", node}),
			}},
		})
}

// topics returns a chart for each topic, with the counters of all engines.
func topics() (charts []chart) {
	for _, topic := range protocol.Topics() {
		charts = append(charts, lines(string(topic), topicText[topic], "ops",
			query{sum("namespace, database, node, event", rate(metrics.EngineEvents, ofNode+","+oneOf("event", engines.FiguresAbout(topic, protocol.Counter)))), "{{namespace}} {{database}} {{node}} {{event}}"}))
	}
	return charts
}

// topicText contains the description of the chart for each topic.
var topicText = map[protocol.Topic]string{
	protocol.AboutTransactions: "Transactions per second by what they were, as far as the engine tells kinds apart.",
	protocol.AboutBatches:      "Batches and epochs per second that sequencers closed or groups committed.",
	protocol.AboutConflicts:    "Waits, conflicts, aborts and repeated attempts per second, as far as the engine has them.",
	protocol.AboutLogs:         "Entries of logs and messages of the protocol per second.",
	protocol.AboutRecovery:     "Changes of leaders and members, recoveries and moves of rows, per second. Lines above 0 show that something was lost or has moved.",
	protocol.AboutWork:         "Steps, rows and edges per second that the protocol itself looks at.",
}

// state returns a chart of gauges of all engines. If positions is set, these are the gauges with log positions, and
// otherwise all other gauges.
func state(title, text string, positions bool) chart {
	var names []string
	for _, e := range engines.All() {
		for _, f := range e.Figures {
			if f.Kind == protocol.Gauge && (f.Unit == protocol.UnitPosition) == positions && !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
		}
	}
	return lines(title, text, "short", query{"max by (namespace, database, node, figure) (" + of(metrics.EngineState, ofNode+","+oneOf("figure", names)) + ")",
		"{{namespace}} {{database}} {{node}} {{figure}}"})
}

// oneOf returns a selector of the series whose label has one of the values. The values are names of figures, so they
// contain only letters and underscores and need no quoting.
func oneOf(label string, names []string) string {
	return label + `=~"` + strings.Join(names, "|") + `"`
}
