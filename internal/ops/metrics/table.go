package metrics

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Labels shared by groups of metrics. Labels whose values are fixed in a process come first.
var (
	runLabels    = []string{"run", "database"}
	workerLabels = with(runLabels, "region", "worker")
	nodeLabels   = []string{"database", "engine", "region", "node"}
	objectLabels = []string{"namespace", "run", "database"}
	wanLabels    = []string{"pod", "region"}
)

func with(labels []string, more ...string) []string {
	return append(labels[:len(labels):len(labels)], more...)
}

// latencyBuckets are the classic buckets of latencies, in seconds, from 100 µs to 60 s.
var latencyBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3, .5, .75, 1, 2.5, 5, 10, 30, 60}

// Metrics of workers.
var (
	workers = source("Workers", "Served by worker pods on port 7001 (`metrics`), and by `geobench run --metrics-address` for all regions. "+
		"They count from the first warm-up on, whereas the result document counts only measured windows. `worker` is the worker's number in its region. "+
		"A transaction is counted once, by the outcome of its last attempt; `geobench_worker_attempts_total` counts every attempt; without `spec.load.retry`, the two counts are equal. "+
		"Re-executions within engines are in `geobench_engine_events_total`.")

	Committed = workers.define(Counter, "geobench_worker_committed_total",
		"Transactions committed.", with(workerLabels, "transaction", "class"))
	Aborted = workers.define(Counter, "geobench_worker_aborted_total",
		"Transactions aborted, by the procedure or by concurrency control, by reason.", with(workerLabels, "transaction", "class", "reason"))
	Refused = workers.define(Counter, "geobench_worker_refused_total",
		"Transactions that the database refused; their clients back off and continue with another transaction.", with(workerLabels, "transaction", "class", "reason"))
	Unknown = workers.define(Counter, "geobench_worker_unknown_total",
		"Transactions without an answer because the connection was lost.", with(workerLabels, "transaction", "class", "reason"))
	TimedOut = workers.define(Counter, "geobench_worker_timed_out_total",
		"Transactions that their client gave up on after spec.load.requestTimeout.", with(workerLabels, "transaction", "class"))
	Attempts = workers.define(Counter, "geobench_worker_attempts_total",
		"Attempts that ended, by outcome (committed, aborted, refused, unknown) and cause (procedure, conflict, node, client; none if the attempt committed or the database does not report a cause). "+
			"An attempt that is retried counts when the retry is sent.", with(workerLabels, "transaction", "class", "outcome", "cause"))
	Latency = workers.define(Histogram, "geobench_worker_commit_latency_seconds",
		"Latency of committed transactions from the time at which they were due, including all attempts. Exemplars name a transaction of the recorded history.",
		with(workerLabels, "transaction", "class"), latencyBuckets...)
	Dropped = workers.define(Counter, "geobench_worker_dropped_total",
		"Arrivals of an open loop that were dropped because the queue was full.", workerLabels)
	InFlight = workers.define(Gauge, "geobench_worker_in_flight_transactions",
		"Transactions without an outcome.", workerLabels)
	Repetition = workers.define(Gauge, "geobench_worker_repetition",
		"Number of the current repetition, from 1; 0 before the first.", workerLabels)
	Measuring = workers.define(Gauge, "geobench_worker_measuring",
		"1 while the worker is in a measured window, else 0.", workerLabels)
	DriverCPU = workers.define(Counter, "geobench_driver_cpu_seconds_total",
		"CPU time of a load generator's process. Driver is REGION/NUMBER, or process where geobench run shares it with the nodes.", with(runLabels, "driver"))
	DriverAllowance = workers.define(Gauge, "geobench_driver_cpu_allowance_cores",
		"Cores that a load generator's process may use. A run whose driver used over 80% of them is invalid.", with(runLabels, "driver"))
)

// Metrics of nodes.
var (
	nodes = source("Nodes", "Served by database nodes on port 7001 (`metrics`), and by `geobench run --metrics-address` for all nodes.")

	NodeReady = nodes.define(Gauge, "geobench_node_ready",
		"1 when every peer was reached and none has lost its state, else 0.", nodeLabels)
	NodeBroken = nodes.define(Gauge, "geobench_node_broken",
		"1 when the database has lost state, else 0.", nodeLabels)
	Unauthenticated = nodes.define(Counter, "geobench_node_strangers_total",
		"Connections of peers and clients that were refused because they did not prove that they belong to the database or the run.", nodeLabels)
	NodeDisturbed = nodes.define(Gauge, "geobench_node_disturbed",
		"1 while the node or its links are disturbed, by a fault or by any other action, else 0.", nodeLabels)
	NodePeers = nodes.define(Gauge, "geobench_node_connected_peers",
		"Peers that are currently connected.", nodeLabels)
	NodeTurns = nodes.define(Counter, "geobench_node_loop_turns_total",
		"Turns of the event loop.", nodeLabels)
	NodeQueue = nodes.define(Gauge, "geobench_node_queue_depth",
		"Messages, transactions and timers that wait for the event loop.", nodeLabels)
	NodePending = nodes.define(Gauge, "geobench_node_pending_transactions",
		"Transactions that the node knows of and has not finished.", nodeLabels)
	NodeRows = nodes.define(Gauge, "geobench_node_store_rows",
		"Rows in the store.", nodeLabels)
	NodeBytes = nodes.define(Gauge, "geobench_node_store_size_bytes",
		"Size of the keys and values in the store.", nodeLabels)
	NodeOperations = nodes.define(Counter, "geobench_node_store_operations_total",
		"Reads and writes of rows.", nodeLabels)
	NodeOutcomes = nodes.define(Counter, "geobench_node_outcomes_total",
		"Transactions answered to clients of this node, by status: committed, aborted, refused, unknown.", with(nodeLabels, "status"))
	NodeLeads = nodes.define(Gauge, "geobench_node_leads",
		"1 for each shard whose group the node currently leads, by shard: the home region and the partition of its rows. Only engines with such groups have this metric.", with(nodeLabels, "shard"))
	NodeCPU = nodes.define(Counter, "geobench_node_cpu_seconds_total",
		"CPU time of the node's process, which geobench run shares among all nodes and workers.", nodeLabels)
	NodeMemory = nodes.define(Gauge, "geobench_node_memory_bytes",
		"Resident memory of the node's process, which geobench run shares among all nodes and workers.", nodeLabels)
	NodeJournalBytes = nodes.define(Gauge, "geobench_node_journal_size_bytes",
		"Size of the node's journal file; absent if the node keeps no journal. The journal is truncated once it has grown by half of the data's size.", nodeLabels)
	NodeJournalCuts = nodes.define(Counter, "geobench_node_journal_cuts_total",
		"Truncations of the node's journal; absent if the node keeps no journal.", nodeLabels)
	NodeClientBytes = nodes.define(Counter, "geobench_node_client_sent_bytes_total",
		"Bytes sent to clients, including headers.", nodeLabels)
	NodeClientOutcomes = nodes.define(Counter, "geobench_node_client_sent_outcomes_total",
		"Outcomes sent to clients.", nodeLabels)
	NodeClientReceivedBytes = nodes.define(Counter, "geobench_node_client_received_bytes_total",
		"Bytes received from clients, including headers.", nodeLabels)
	EngineEvents = nodes.define(Counter, "geobench_engine_events_total",
		"Events that the protocol counts, by event, for example batches, lock_waits, deadlocks_resolved: the figures of kind counter on the engine's page in docs/protocols.", with(nodeLabels, "event"))
	EngineState = nodes.define(Gauge, "geobench_engine_state",
		"Current state of the protocol, by figure, for example log_position: the figures of kind gauge on the engine's page in docs/protocols.", with(nodeLabels, "figure"))
)

// Metrics of the network.
var (
	network = source("Network", "Served along with the metrics of nodes. Round trips and geobench_node_ready are also served by the probes that run alongside programs of any image (`spec.pods`). `region` is the region of the node that measures or sends, `to` the region at the other end.")

	SentBytes = network.define(Counter, "geobench_network_sent_bytes_total",
		"Bytes sent to the nodes of a region, including headers and probes, excluding retransmissions.", with(nodeLabels, "to"))
	SentMessages = network.define(Counter, "geobench_network_sent_messages_total",
		"Messages sent to the nodes of a region, including probes and acknowledgements.", with(nodeLabels, "to"))
	Stalls = network.define(Counter, "geobench_network_link_stalls_total",
		"Number of times that a link started to hold more than its limit for a peer.", nodeLabels)
	DeclaredRTT = network.define(Gauge, "geobench_network_declared_rtt_seconds",
		"Round trip to a region as declared in the network profile.", with(nodeLabels, "to"))
	RTTTolerance = network.define(Gauge, "geobench_network_rtt_tolerance_seconds",
		"How far the median of the round trips to a region may be from the declared one: 5% + 1 ms, and the sampling error of the declared jitter.", with(nodeLabels, "to"))
	MedianRTT = network.define(Gauge, "geobench_network_median_rtt_seconds",
		"Median round trip to a region during the last 10 s, as this node's probes measured it.", with(nodeLabels, "to"))
	TailRTT = network.define(Gauge, "geobench_network_p99_rtt_seconds",
		"99th percentile of the round trips to a region during the last 10 s, as this node's probes measured it.", with(nodeLabels, "to"))
	BelowMeshRTT = network.define(Gauge, "geobench_network_below_mesh_rtt_seconds",
		"Median round trip to a region during the last 10 s, of packets that bypass the service mesh, if `spec.network.mesh` names a mesh.", with(nodeLabels, "to"))
	ThroughMeshRTT = network.define(Gauge, "geobench_network_through_mesh_rtt_seconds",
		"The same, over a connection that the mesh carries. The difference is the delay that the mesh adds to the link.", with(nodeLabels, "to"))
	RTTSamples = network.define(Gauge, "geobench_network_rtt_samples",
		"Round trips to a region that were measured during the last 10 s.", with(nodeLabels, "to"))
)

// Metrics of sidecars.
var (
	sidecars = source("Sidecars", "Served on port 7003 (`wan`) by the sidecars that emulate the network of pods (`emulation: Sidecar`, `geobench wan`). "+
		"`region` is the region of the pod, `from` the region at the other end of the link over which packets arrived.")

	WANPackets = sidecars.define(Counter, "geobench_wan_received_packets_total",
		"Packets that arrived over a link, including those dropped afterwards.", with(wanLabels, "from"))
	WANBytes = sidecars.define(Counter, "geobench_wan_received_bytes_total",
		"Bytes that arrived over a link, including headers from IP upwards.", with(wanLabels, "from"))
	WANDropped = sidecars.define(Counter, "geobench_wan_dropped_packets_total",
		"Packets dropped, by cause: loss, rate, cut, queue, kernel.", with(wanLabels, "from", "cause"))
	WANQueuedPackets = sidecars.define(Gauge, "geobench_wan_queued_packets",
		"Packets in flight; packets that the kernel delivers together count as one.", with(wanLabels, "from"))
	WANQueuedBytes = sidecars.define(Gauge, "geobench_wan_queued_bytes",
		"Bytes in flight.", with(wanLabels, "from"))
	WANLateness = sidecars.define(Histogram, "geobench_wan_lateness_seconds",
		"Delay between the time at which packets were due and the time at which they were forwarded.", wanLabels,
		25e-6, 50e-6, 100e-6, 200e-6, 400e-6, 800e-6, 1.6e-3, 3.2e-3, 6.4e-3, 12.8e-3, 25.6e-3, 51.2e-3, 102.4e-3)
	WANConfigErrors = sidecars.define(Counter, "geobench_wan_config_errors_total",
		"Configurations that were refused.", wanLabels)
	WANGeneration = sidecars.define(Gauge, "geobench_wan_config_generation",
		"Generation of the configuration in force.", wanLabels)
	WANReady = sidecars.define(Gauge, "geobench_wan_ready",
		"1 when the configuration is in force, else 0.", wanLabels)
)

// Metrics of runs.
var (
	runs = source("Runs", "Served by the operator, and by `geobench run --metrics-address` for its run (without the label `namespace`, which a scrape configuration may add). "+
		"Runs remain visible for 15 minutes after they have ended.")

	RunStage = runs.define(Gauge, "geobench_run_stage",
		"1 for the stage that a run is in. Dashboards draw their bands from it.", with(objectLabels, "stage"))
	RunDeadline = runs.define(Gauge, "geobench_run_stage_deadline_timestamp_seconds",
		"Time at which the operator gives up on the current stage of a run, in Unix time.", with(objectLabels, "stage"))
	FaultActive = runs.define(Gauge, "geobench_fault_active",
		"1 while a fault of the run's timeline may have an effect, from the start of its injection to the end of its recovery; else 0.",
		with(objectLabels, "fault", "kind"))
	RunLatencyLimit = runs.define(Gauge, "geobench_run_objective_latency_seconds",
		"Limit of an objective on a latency; percentile is p50, p90, p95 or p99, bound is min or max, an empty region or transaction stands for all.",
		with(objectLabels, "percentile", "region", "transaction", "bound"))
	RunThroughputLimit = runs.define(Gauge, "geobench_run_objective_throughput",
		"Limit of an objective on committed transactions per second; bound is min or max, an empty region or transaction stands for all.",
		with(objectLabels, "region", "transaction", "bound"))
	RunAbortLimit = runs.define(Gauge, "geobench_run_objective_abort_ratio",
		"Limit of an objective on the share of aborted transactions, 0 to 1; bound is min or max, an empty region or transaction stands for all.",
		with(objectLabels, "region", "transaction", "bound"))
	RunUnknownLimit = runs.define(Gauge, "geobench_run_objective_unknown_ratio",
		"Limit of an objective on the share of transactions whose outcome is unknown, 0 to 1; bound is min or max, an empty region or transaction stands for all.",
		with(objectLabels, "region", "transaction", "bound"))
	NodePrice = runs.define(Gauge, "geobench_price_node_hour",
		"Price of one node for an hour, in whole units of the currency.", with(objectLabels, "currency"))
	TransferPrice = runs.define(Gauge, "geobench_price_transfer_gigabyte",
		"Price of 10^9 bytes from one region to another, in whole units of the currency.", with(objectLabels, "region", "to", "currency"))
)

// Metrics of the operator.
var (
	operator = source("Operator", "Served by the operator over HTTPS on port 8443, to clients that may get /metrics, along with the metrics of controller-runtime (`controller_runtime_*`, `workqueue_*`, `rest_client_*`).")

	Runs = operator.define(Gauge, "geobench_runs",
		"BenchmarkRuns by stage and verdict; the verdict is empty until a run has ended.", []string{"stage", "verdict"})
	Databases = operator.define(Gauge, "geobench_databases",
		"GeoDatabases by engine, and by whether they are ready (true, false).", []string{"engine", "ready"})
	NetworkVerified = operator.define(Gauge, "geobench_database_network_verified",
		"1 when the measured network of a database matches the declared network, else 0.", []string{"namespace", "database"})
	DatabaseMesh = operator.define(Gauge, "geobench_database_mesh_info",
		"1, with labels for the service mesh of a database's pods: mode is None, Sidecar or Ambient, mutual_tls Strict, Permissive, Disabled, Unknown or empty.",
		[]string{"namespace", "database", "mode", "mutual_tls", "version"})
	StageSeconds = operator.define(Histogram, "geobench_run_stage_duration_seconds",
		"Time that runs spent in a stage, observed when they leave it.", []string{"stage"}, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
	FaultLateness = operator.define(Histogram, "geobench_fault_lateness_seconds",
		"By how much the start and end of faults deviated from the plan (absolute value), by injector; edge is begin or end.",
		[]string{"injector", "edge"}, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2, 5, 10, 30)
)

// PutEngine emits the readings of a replica as the engine declares them: counters as events, and gauges as state. It
// omits undeclared readings.
func PutEngine(put Put, e *protocol.Engine, readings []protocol.Reading) {
	for _, r := range readings {
		switch f, _ := e.Figure(r.Name); f.Kind {
		case protocol.Counter:
			put(EngineEvents, float64(r.Value), r.Name)
		case protocol.Gauge:
			put(EngineState, float64(r.Value), r.Name)
		}
	}
}

// PutRTT emits the declared and the measured round trip between two regions. measured is in microseconds; it is nil if
// there is no link.
func PutRTT(put Put, t *geo.Topology, from, to geo.Region, measured *hdrhistogram.Histogram) {
	if measured == nil {
		return
	}
	name := t.Regions[to]
	put(DeclaredRTT, t.RTT(from, to).Seconds(), name)
	put(RTTTolerance, t.RTTTolerance(from, to, measured.TotalCount()).Seconds(), name)
	put(RTTSamples, float64(measured.TotalCount()), name)
	// The quantiles of an empty histogram are 0 and would look like round trips of 0.
	if measured.TotalCount() > 0 {
		put(MedianRTT, float64(measured.ValueAtQuantile(50))/1e6, name)
		put(TailRTT, float64(measured.ValueAtQuantile(99))/1e6, name)
	}
}

// PutMeshRTT emits the round trips to a region, measured below a mesh and through it, in microseconds. It omits nil and
// empty histograms.
func PutMeshRTT(put Put, to string, below, through *hdrhistogram.Histogram) {
	if below != nil && below.TotalCount() > 0 {
		put(BelowMeshRTT, float64(below.ValueAtQuantile(50))/1e6, to)
	}
	if through != nil && through.TotalCount() > 0 {
		put(ThroughMeshRTT, float64(through.ValueAtQuantile(50))/1e6, to)
	}
}

// NodeMetrics returns the metrics that a database node serves.
func NodeMetrics() []*Definition {
	return append(nodes.Metrics[:len(nodes.Metrics):len(nodes.Metrics)], network.Metrics...)
}

// RunMetrics returns the metrics of group Runs.
func RunMetrics() []*Definition { return append([]*Definition(nil), runs.Metrics...) }
