// Package result turns the counts of load generators and nodes into the RunResult document with its verdict, and
// compares two results. geobench prints the document; the operator stores it. Percentiles always come from merged
// histograms, never from averages of percentiles. All figures are integers with their unit in the name, so that a
// simulated run yields the same bytes every time. docs/results.md describes every field.
package result

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/identity"
)

// APIVersion and Kind identify a result document.
const (
	APIVersion = "geobench.dev/v1alpha1"
	Kind       = "RunResult"
)

// Document is the result of one run.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name is the name of the run.
	Name string `json:"name"`
	// Simulated is set if the run took place in virtual time, in a simulator.
	Simulated bool  `json:"simulated"`
	Seed      int64 `json:"seed"`
	// Engine is the name of the engine, and Parameters all of its parameters.
	Engine     string            `json:"engine"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// Database is the name of the GeoDatabase; the next three fields describe its layout. The first Homes regions are the
	// home regions of rows, each with its own partitions; 0 means all regions.
	Database             string `json:"database,omitempty"`
	Homes                int    `json:"homes,omitempty"`
	PartitionsPerRegion  int    `json:"partitionsPerRegion,omitempty"`
	ReplicasPerPartition int    `json:"replicasPerPartition,omitempty"`
	Emulation            string `json:"emulation,omitempty"`
	// Mesh is the service mesh of nodes and workers, on a cluster.
	Mesh *v1alpha1.MeshStatus `json:"mesh,omitempty"`
	// Target is set for a database that existed before the run. Only the figures that clients measure are then known.
	Target *Target `json:"target,omitempty"`
	// Durability is the durability of the nodes; omitted if it is None.
	Durability v1alpha1.Durability `json:"durability,omitempty"`
	// Workload is the name of the workload. Spec is the configuration from the manifest, with defaults.
	Workload string `json:"workload"`
	Spec     Spec   `json:"spec"`
	// Manifests are the applied manifests, with defaults filled in.
	Manifests *Manifests `json:"manifests,omitempty"`
	// Version is the build that evaluated the run. WorkerVersion lists the builds of the workers; it is omitted if all
	// workers ran Version.
	Version       string   `json:"version"`
	WorkerVersion string   `json:"workerVersion,omitempty"`
	Machine       *Machine `json:"machine,omitempty"`
	// Execution identifies the execution of the run that was measured, with its times; omitted from simulated results.
	Execution *Execution `json:"execution,omitempty"`

	Verdict v1alpha1.Verdict `json:"verdict"`
	// Reasons explain why the verdict is not Passed, the most important first.
	Reasons []Reason `json:"reasons,omitempty"`
	// Evidence lists the observations that a run needs to pass: see EvidenceItems.
	Evidence []Evidence `json:"evidence,omitempty"`

	Summary      Summary       `json:"summary"`
	Repetitions  []Repetition  `json:"repetitions"`
	Median       *Repetition   `json:"median,omitempty"`
	Regions      []Region      `json:"regions"`
	Transactions []Transaction `json:"transactions"`
	Links        []Link        `json:"links"`
	Nodes        []Node        `json:"nodes"`
	// Pods describes how the pods of the database and of the load generators ran, on a cluster.
	Pods []Pods `json:"pods,omitempty"`
	// Process is set if one process ran all nodes and load generators. The CPU time and memory of single nodes are then
	// unknown.
	Process *Process `json:"process,omitempty"`
	// Uncounted lists nodes that stopped or restarted during the measurement, so that their earlier work is not counted.
	// The bytes, CPU time and cost of the summary, and the bytes of links, are therefore lower bounds.
	Uncounted []string `json:"uncounted,omitempty"`
	// Witnesses are the observers that counted the bytes between nodes, if a service mesh carried this traffic. The nodes
	// come first.
	Witnesses []Witness `json:"witnesses,omitempty"`
	// Notes explain the figures without changing the verdict.
	Notes    []string      `json:"notes,omitempty"`
	Workers  []WorkerShare `json:"workers"`
	Timeline []Tick        `json:"timeline"`
	Faults   []Fault       `json:"faults"`
	// Deviations are the first 100 periods in which a node or link was treated differently from the manifest.
	Deviations []Deviation `json:"deviations,omitempty"`
	// FastLinks are the first 100 periods in which a link was faster than declared although no fault changed the link.
	FastLinks []FastLink `json:"fastLinks,omitempty"`
	// FunctionalTests lists the tests that the database passed before the run.
	FunctionalTests []FunctionalTest `json:"functionalTests,omitempty"`
	// EmulationGaps are the times at which the emulated network was not as declared. EmulationGapSeconds is the number of
	// seconds of the timeline that overlap a gap; objectives omit these seconds.
	EmulationGaps       []Gap            `json:"emulationGaps,omitempty"`
	EmulationGapSeconds int64            `json:"emulationGapSeconds,omitempty"`
	Objectives          []Objective      `json:"objectives"`
	Checks              []workload.Check `json:"checks"`
	Histograms          Histograms       `json:"histograms"`
	// Types caches the result of ByType in a document from WithFiguresOnly. It is never written, because Transactions and
	// Histograms contain the same information.
	Types []TypeFigures `json:"-"`
	// seconds is MeasuredSeconds in a document from WithFiguresOnly, otherwise 0.
	seconds float64
}

// FunctionalTest is a test that the database passed before the run.
type FunctionalTest struct {
	Name v1alpha1.FunctionalTest `json:"name"`
	// Run is the name of the BenchmarkRun that executed the test, and Committed the number of transactions that it
	// committed.
	Run       string `json:"run"`
	Committed int64  `json:"committed"`
}

// Target describes a database other than Geobench's own.
type Target struct {
	// Promises is the isolation level that the target claims for its histories; empty if it claims none.
	Promises string `json:"promises,omitempty"`
	// ConnectionsPerRegion is the maximum number of transactions that the clients of a region execute at the same time.
	// Further transactions queue, and the wait is part of their latency. 0 means no limit.
	ConnectionsPerRegion int `json:"connectionsPerRegion,omitempty"`
	// Server is the name and version that the database reports. Isolation is the database's name for the isolation level
	// of all transactions. Both are empty if the database does not report them.
	Server    string `json:"server,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	// Form is set if the workload provides its own SQL transactions, and states whether its tables have foreign keys. It
	// is empty if transactions are procedures.
	Form string `json:"form,omitempty"`
	// Messages describes which statements clients send together in one message. It states whether BEGIN goes with
	// the first statement, and whether writes and COMMIT are combined with other statements. It is empty if
	// unknown.
	Messages string `json:"messages,omitempty"`
	// Placement describes where rows are stored. Homes means that every row is in its home region. Ownership means
	// that the database places rows anywhere. A home then only determines which clients use a row, and a multi-home
	// transaction uses rows of several owners. Placement is empty if unknown.
	Placement string `json:"placement,omitempty"`
	// Leader is the region whose clients are connected to the leading server when the run starts; empty if no server
	// leads.
	Leader string `json:"leader,omitempty"`
	// Elections is the number of leader elections since the start of the run, and LeaderAtEnd the region of the last known
	// leader. After an election, the figures of regions cover several leaders.
	Elections   int64  `json:"elections,omitempty"`
	LeaderAtEnd string `json:"leaderAtEnd,omitempty"`
	// Servers lists the database's servers before the clients connected; ServersAfter lists them after the audit of the
	// rows. Both are omitted if the database does not report them.
	Servers      []Server `json:"servers,omitempty"`
	ServersAfter []Server `json:"serversAfter,omitempty"`
	// Endpoints holds the server that the clients of each region connect to.
	Endpoints []TargetEndpoint `json:"endpoints,omitempty"`
}

// TargetEndpoint is the server that the clients of a region connect to.
type TargetEndpoint struct {
	Region string `json:"region"`
	// RTTMicroseconds is the median round trip of a request without any work, measured before the run.
	RTTMicroseconds int64 `json:"rttMicroseconds"`
}

// String describes the target in words.
func (t *Target) String() string {
	s := "promises " + cmp.Or(t.Promises, "nothing of histories")
	if t.Isolation != "" {
		s += " at its level " + t.Isolation
	}
	if t.Form != "" {
		s += ", in the form " + t.Form
	}
	if t.Messages != "" {
		s += ", sending " + t.Messages
	}
	if t.Placement != "" {
		s += ", with rows placed by " + strings.ToLower(t.Placement)
	}
	if t.ConnectionsPerRegion > 0 {
		s += fmt.Sprintf(", over %d connections per region", t.ConnectionsPerRegion)
	}
	return s
}

// Where returns the server's name, the round trips from each region, and the region of the leader; empty if unknown.
func (t *Target) Where() string {
	s := t.Server
	for i, e := range t.Endpoints {
		separator := ", "
		if i == 0 {
			separator = "; round trips "
		}
		s += fmt.Sprintf("%s%s %.3g ms", separator, e.Region, float64(e.RTTMicroseconds)/1000)
	}
	if t.Leader != "" {
		s += "; led from " + t.Leader
	}
	// After elections, the leader may be a server that no region's clients use.
	place := cmp.Or(t.LeaderAtEnd, "no region with clients")
	switch {
	case t.Elections == 1:
		s += "; 1 leader was elected while the run went on, in " + place
	case t.Elections > 1:
		s += fmt.Sprintf("; %d leaders were elected while the run went on, the last in %s", t.Elections, place)
	}
	return s
}

// Spec is the configuration from the manifest, with hashes of its parts for comparisons.
type Spec struct {
	Workload v1alpha1.Workload `json:"workload"`
	Load     v1alpha1.Load     `json:"load"`
	// The hashes are the first 12 hexadecimal digits of the SHA-256 of the JSON form.
	WorkloadHash string `json:"workloadHash"`
	LoadHash     string `json:"loadHash"`
	TopologyHash string `json:"topologyHash,omitempty"`
}

// LeastFigures returns the reason why the bytes and resources of the nodes are only lower bounds; empty if they are
// exact.
func (d *Document) LeastFigures() string {
	if len(d.Uncounted) == 0 {
		return ""
	}
	return fmt.Sprintf("What %s had sent and used before they stopped or restarted was not counted, so these figures are only lower bounds.", strings.Join(d.Uncounted, ", "))
}

// Manifests are the specs of the objects that define a run.
type Manifests struct {
	Run      *v1alpha1.BenchmarkRunSpec   `json:"benchmarkRun,omitempty"`
	Database *v1alpha1.GeoDatabaseSpec    `json:"geoDatabase,omitempty"`
	Network  *v1alpha1.NetworkProfileSpec `json:"networkProfile,omitempty"`
	// ConfigMaps maps the name of each ConfigMap that the database's pods mount to its digest. It is set only for runs on
	// a cluster.
	ConfigMaps map[string]string `json:"configMaps,omitempty"`
}

// MeasuredDigest returns a digest of everything that a run of these manifests measures. The digest does not depend on
// the name of the database, nor on the fields of a run that may change.
func (m *Manifests) MeasuredDigest() (string, error) {
	run := m.Run.Fixed()
	// The database's spec is part of the digest; its name has no effect on figures.
	run.DatabaseRef = v1alpha1.LocalReference{}
	text, err := json.Marshal(Manifests{Run: run, Database: m.Database, Network: m.Network})
	return identity.Digest(text), err
}

// Machine describes the machine that evaluated the run; simulated runs have none.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// ThisMachine describes the machine that this process runs on.
func ThisMachine() *Machine {
	return &Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// Reason is a reason for a verdict: a CamelCase identifier, and a sentence with the figures.
type Reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Summary holds the main figures of a run.
type Summary struct {
	Counts
	// CarriedIn counts transactions that were due before a window and committed in it; throughput includes them.
	CarriedIn           int64 `json:"carriedIn"`
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// OfferedPerSecond is the number of transactions that were due per second, whether sent or not; only for an open
	// loop.
	OfferedPerSecond    int64   `json:"offeredPerSecond,omitempty"`
	LatencyMicroseconds Latency `json:"latencyMicroseconds"`
	// ServiceTimeMicroseconds measures from the time at which a transaction was sent. It is set only for an open loop,
	// where this time differs from the time at which the transaction was due.
	ServiceTimeMicroseconds *Latency `json:"serviceTimeMicroseconds,omitempty"`
	AbortPPM                int64    `json:"abortPPM"`
	Attempts                Attempts `json:"attempts"`
	Unanswered
	// Discarded counts transactions that were in the queue of an open loop at the end of a warm-up. Late counts the
	// outcomes, over the whole run, that arrived after the client had given up.
	Discarded int64    `json:"discarded"`
	Late      int64    `json:"late"`
	Realised  Realised `json:"realised"`
	// TpmC is the throughput as defined by TPC-C (clause 5.4.2). It is the number of new orders that were due and
	// committed in the windows, per minute. It is omitted for other workloads.
	TpmC *int64 `json:"tpmC,omitempty"`
	TPCC *TPCC  `json:"tpcc,omitempty"`

	// CPUMicrosecondsPerTransaction is the CPU time of all nodes and load generators per committed transaction. This
	// field and the next three are omitted if they are 0, for example because they are unknown: see Document.Target.
	CPUMicrosecondsPerTransaction  int64 `json:"cpuMicrosecondsPerTransaction,omitzero"`
	BytesPerTransaction            int64 `json:"bytesPerTransaction,omitzero"`
	CrossRegionBytesPerTransaction int64 `json:"crossRegionBytesPerTransaction,omitzero"`
	Cost                           Cost  `json:"cost,omitzero"`
	// Wire is omitted if the messages of clients and nodes are not counted.
	Wire *Wire `json:"wire,omitempty"`
}

// Wire is the number of bytes sent per committed transaction, as network cards count them. It covers messages between
// nodes (within and between regions), messages of clients and their answers, and packet headers. The SmallBank study on
// Detock counts in the same way (section 4.3). An in-process or simulated database has frames but no packets; each
// frame is counted as if it did not share a packet with another frame.
type Wire struct {
	// BytesPerTransaction is the sum of the next four fields.
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// MessageBytesPerTransaction counts the messages between nodes: Summary.BytesPerTransaction.
	MessageBytesPerTransaction int64 `json:"messageBytesPerTransaction"`
	// RequestBytesPerTransaction counts messages from clients, and AnswerBytesPerTransaction messages to clients.
	RequestBytesPerTransaction int64 `json:"requestBytesPerTransaction"`
	AnswerBytesPerTransaction  int64 `json:"answerBytesPerTransaction"`
	// HeaderBytesPerTransaction counts the Ethernet, IP and TCP headers: geo.HeaderBytes for each segment.
	HeaderBytesPerTransaction int64 `json:"headerBytesPerTransaction"`
	// SentBytesPerTransaction counts only bytes that nodes send: all but requests and their headers.
	SentBytesPerTransaction int64 `json:"sentBytesPerTransaction"`
	// CostPerHour is the cost of the machines and of all messages that nodes send, to any destination. Messages
	// from a region are charged at the average price of traffic from this region to the other regions. Section 4.3
	// of the SmallBank study on Detock does the same. Cost, in contrast, charges only messages that leave a region.
	CostPerHour Micros `json:"costPerHour"`
}

// Cost is the cost of a million committed transactions.
type Cost struct {
	Currency                       string `json:"currency"`
	PerMillionTransactions         Micros `json:"perMillionTransactions"`
	MachinesPerMillionTransactions Micros `json:"machinesPerMillionTransactions"`
	TransferPerMillionTransactions Micros `json:"transferPerMillionTransactions"`
	// Instance, PriceSource and PriceDate identify the prices on which the cost is based.
	Instance    string `json:"instance"`
	PriceSource string `json:"priceSource"`
	PriceDate   string `json:"priceDate"`
}

// Repetition holds the figures of a measured window, or the median of all windows.
type Repetition struct {
	// Index counts from 1. It is 0 for the median, whose figures may each come from a different window.
	Index int `json:"index,omitempty"`
	Counts
	CarriedIn           int64    `json:"carriedIn"`
	ThroughputPerSecond int64    `json:"throughputPerSecond"`
	LatencyMicroseconds Latency  `json:"latencyMicroseconds"`
	AbortPPM            int64    `json:"abortPPM"`
	Attempts            Attempts `json:"attempts"`
	// Regions holds the figures of each region's clients in this window. It is omitted from the median, and if there is
	// only one window; Document.Regions then has these figures.
	Regions []RepetitionRegion `json:"regions,omitempty"`
}

// RepetitionRegion holds the figures of the clients of one region in one window.
type RepetitionRegion struct {
	Name                string  `json:"name"`
	ThroughputPerSecond int64   `json:"throughputPerSecond"`
	LatencyMicroseconds Latency `json:"latencyMicroseconds"`
	AbortPPM            int64   `json:"abortPPM"`
}

// Region holds the figures of the clients of one region.
type Region struct {
	Name string `json:"name"`
	Counts
	CarriedIn               int64    `json:"carriedIn"`
	ThroughputPerSecond     int64    `json:"throughputPerSecond"`
	LatencyMicroseconds     Latency  `json:"latencyMicroseconds"`
	ServiceTimeMicroseconds *Latency `json:"serviceTimeMicroseconds,omitempty"`
	AbortPPM                int64    `json:"abortPPM"`
	Attempts                Attempts `json:"attempts"`
	Unanswered
	// Growing is set if the clients of an open loop had significantly more transactions in flight when the windows closed
	// than when they opened. The database then did not keep up with the rate, and all percentiles are lower bounds.
	Growing bool `json:"growing,omitempty"`
	// Faults holds the effect of each fault of Document.Faults on the region's clients, in the same order.
	Faults []FaultEffect `json:"faults,omitempty"`
}

// FaultEffect describes how a fault affected the clients of one region.
type FaultEffect struct {
	// Name is the name of the fault.
	Name string `json:"name"`
	// Availability is nil if Fault.Availability is nil, or if the region's clients committed nothing before the fault.
	Availability *Availability `json:"availability,omitempty"`
}

// Transaction holds the figures for one type and class of transactions of one region's clients.
type Transaction struct {
	Type   string `json:"type"`
	Class  string `json:"class"`
	Region string `json:"region"`
	// Outcomes counts the transactions that were due and ended in the measured windows. Attempts counts the attempts that
	// ended in the windows.
	Outcomes
	Attempts Outcomes `json:"attempts"`

	LatencyMicroseconds     Latency  `json:"latencyMicroseconds"`
	ServiceTimeMicroseconds *Latency `json:"serviceTimeMicroseconds,omitempty"`
}

// RTT holds percentiles of a measured round trip in microseconds.
type RTT struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
}

// Link is one direction between two regions, with its declared properties and the measurements of the nodes in From.
type Link struct {
	From                    string `json:"from"`
	To                      string `json:"to"`
	DeclaredRTTMicroseconds int64  `json:"declaredRTTMicroseconds"`
	// MeasuredRTTMicroseconds was measured before the load started, and LoadedRTTMicroseconds, which includes queueing,
	// at the end of the load.
	MeasuredRTTMicroseconds RTT   `json:"measuredRTTMicroseconds"`
	Samples                 int64 `json:"samples"`
	// ToleranceMicroseconds is the allowed difference between the measured and the declared median: see
	// geo.Topology.RTTTolerance.
	ToleranceMicroseconds int64 `json:"toleranceMicroseconds"`
	LoadedRTTMicroseconds *RTT  `json:"loadedRTTMicroseconds,omitempty"`
	// Probes is the number of packets that probes sent over the link during the run, and LostProbes the number of packets
	// without a reply. Both are omitted if no probe measures the link.
	Probes     int64 `json:"probes,omitzero"`
	LostProbes int64 `json:"lostProbes,omitzero"`
	// Mesh is the delay that a service mesh adds to the link, measured before the load started. It is omitted if
	// spec.network.mesh names no mesh.
	Mesh *v1alpha1.MeshLink `json:"mesh,omitempty"`
	// Bytes and Messages count the traffic during the run.
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
	// Segments is the number of TCP segments of these messages: see geo.Traffic. It is omitted if segments are not
	// counted.
	Segments int64 `json:"segments,omitzero"`
}

// Node is a node of the database, with its resource usage during the run and the amount of its data.
type Node struct {
	Name string `json:"name"`
	// CPUMilliseconds is the CPU time of the node, or of the process if several nodes share one. CPUSeconds is the same
	// time, rounded.
	CPUSeconds      int64 `json:"cpuSeconds"`
	CPUMilliseconds int64 `json:"cpuMilliseconds"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	DataBytes       int64 `json:"dataBytes"`
	Rows            int64 `json:"rows"`
	Operations      int64 `json:"operations"`
	// Counters is the growth of the engine's counters during the run. Gauges holds the engine's gauges at the end of the
	// run: see protocol.Figure. Documents of earlier versions list gauges among the counters, as the difference between
	// the values after and before the run.
	Counters map[string]int64 `json:"counters,omitempty"`
	Gauges   map[string]int64 `json:"gauges,omitempty"`
	// LateMicroseconds is the lateness of the node's process in the measured windows, less the CPU time that the process
	// used. SidecarLateMicroseconds is the lateness of the sidecar of its pod. They are nil if not measured.
	LateMicroseconds        *Lateness `json:"lateMicroseconds,omitempty"`
	SidecarLateMicroseconds *Lateness `json:"sidecarLateMicroseconds,omitempty"`
	// QuotaPeriods is the number of CPU quota periods in which the node's container ran, and ThrottledPeriods the number
	// of periods in which it was throttled.
	QuotaPeriods     int64 `json:"quotaPeriods,omitzero"`
	ThrottledPeriods int64 `json:"throttledPeriods,omitzero"`
	// Clock is the largest measured offset of the node's clock from the operator's clock; nil if not measured.
	Clock *NodeClock `json:"clock,omitempty"`
}

// Process is the resource usage of a process that ran all nodes and load generators.
type Process struct {
	CPUMilliseconds int64 `json:"cpuMilliseconds"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
}

// WorkerShare describes a load generator, with the share of its CPU allowance that it used while measuring.
type WorkerShare struct {
	Region            string `json:"region"`
	Index             int    `json:"index"`
	Clients           int    `json:"clients"`
	CPUSharePPM       *int64 `json:"cpuSharePPM,omitempty"`
	AllowanceMilliCPU int64  `json:"allowanceMilliCPU,omitempty"`
	PeakMemoryBytes   int64  `json:"peakMemoryBytes,omitempty"`
	// LateMicroseconds is the lateness of the worker's process for scheduled work; nil if unknown.
	LateMicroseconds *Lateness `json:"lateMicroseconds,omitempty"`
	// NodeRTTMicroseconds is the round trip between the worker's clients and the most distant node of their region,
	// without emulated delays. Every measured latency includes this round trip. It is 0 if unknown.
	NodeRTTMicroseconds int64 `json:"nodeRTTMicroseconds,omitzero"`
	// ClockAheadMicroseconds is the largest measured offset of the worker's clock from the operator's clock, with an error
	// of at most ClockWithinMicroseconds. A negative offset means that the worker's clock lags. It is nil if the worker
	// and the operator use the same clock.
	ClockAheadMicroseconds  *int64 `json:"clockAheadMicroseconds,omitempty"`
	ClockWithinMicroseconds *int64 `json:"clockWithinMicroseconds,omitempty"`
}

// Tick is one second of the timeline. Percentiles are in microseconds, accurate to 3.2%. They cover the transactions
// that finished in the second, except aborted transactions; failed transactions rank above committed transactions.
type Tick struct {
	// Repetition counts from 1; omitted if there is only one repetition.
	Repetition int `json:"repetition,omitempty"`
	Second     int `json:"second"`
	// Seconds is the length of the tick; omitted if it is one second. Long results have longer ticks: see Document.Fit.
	Seconds   int   `json:"seconds,omitempty"`
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
	// Attempts counts the attempts that ended in this second.
	Attempts int64 `json:"attempts,omitempty"`
	// Offered is the load of this second if spec.load has a curve. In an open loop, it is the number of
	// transactions that were due. In a closed loop, it is the total time of the active clients in milliseconds.
	Offered int64             `json:"offered,omitempty"`
	P50     v1alpha1.Quantile `json:"p50"`
	P99     v1alpha1.Quantile `json:"p99"`
	// Regions holds the committed transactions of each region, in the order of Document.Regions.
	Regions []int64 `json:"regions"`
	// Tenths splits the second into tenths, in runs with faults. Faults lists the faults that may have affected this
	// second.
	Tenths *Tenths  `json:"tenths,omitempty"`
	Faults []string `json:"faults,omitempty"`
	// Gap is set if the emulated network was not as declared; objectives then omit this second.
	Gap bool `json:"gap,omitempty"`
}

// Objective is the outcome of an objective: the measured value, and whether the objective holds.
type Objective struct {
	Name string `json:"name"`
	// Measured is the value as text. Value is in microseconds for latencies, per second for throughput, and in parts per
	// million for aborts.
	Measured string            `json:"measured"`
	Value    v1alpha1.Quantile `json:"value"`
	// Samples is the number of transactions from which a percentile was computed.
	Samples int64 `json:"samples,omitempty"`
	Holds   bool  `json:"holds"`
	// Undecided explains why it is unknown whether the objective holds; empty if it is known.
	Undecided string `json:"undecided,omitempty"`

	// FewSamples is set if the objective is undecided because there are too few samples.
	FewSamples bool `json:"-"`
}

// Histograms holds the full latency distributions, merged over all repetitions.
type Histograms struct {
	// Encoding is HistogramEncoding. Values are in microseconds.
	Encoding string `json:"encoding"`
	// Estimator names the method that estimates percentiles: see the constant Estimator. It is empty in results of earlier
	// versions, whose percentiles cover only committed transactions.
	Estimator string `json:"estimator,omitempty"`
	// Rounded is set if the histograms, or the percentiles of single repetitions, are accurate only to 3.2%, so that the
	// result fits into a ConfigMap.
	Rounded bool              `json:"rounded,omitempty"`
	Series  []HistogramSeries `json:"series"`
}

// HistogramEncoding is the format of histograms: HdrHistogram V2, deflated, in base64.
const HistogramEncoding = "hdr-v2-deflate-base64"

// HistogramSeries is the latency distribution of one type, class and region.
type HistogramSeries struct {
	Type   string `json:"type"`
	Class  string `json:"class"`
	Region string `json:"region"`
	// Histogram holds the latencies of committed transactions.
	Histogram string `json:"histogram"`
	// Unfinished holds the waiting times of the transactions that were in flight when their window closed.
	Unfinished string `json:"unfinished,omitempty"`
	// Never is the number of transactions without a latency that rank above all committed transactions. NeverMicroseconds
	// is their total waiting time. LongestMicroseconds is the longest wait of a transaction without an observed latency:
	// see Latency.
	Never               int64 `json:"never,omitempty"`
	NeverMicroseconds   int64 `json:"neverMicroseconds,omitempty"`
	LongestMicroseconds int64 `json:"longestMicroseconds,omitempty"`
	// Growing is set if the backlog of the region grew during the measurement: see Region.Growing.
	Growing bool `json:"growing,omitempty"`
	// SumMicroseconds and MaxMicroseconds are the sum and maximum of the latencies of committed transactions.
	SumMicroseconds int64 `json:"sumMicroseconds,omitempty"`
	MaxMicroseconds int64 `json:"maxMicroseconds,omitempty"`
}

// Write writes the document as indented JSON with a final newline.
func (d *Document) Write(w io.Writer) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return fmt.Errorf("result %s: %w", d.Name, err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Read reads a document from a JSON file. "-" is standard input.
func Read(path string) (*Document, error) {
	var b []byte
	var err error
	if path == "-" {
		path = "standard input"
		b, err = io.ReadAll(os.Stdin)
	} else {
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	d, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// ErrNoResult is returned for input that is not a result document.
var ErrNoResult = errors.New("it is no result")

// Parse decodes a document from JSON. It ignores unknown fields.
func Parse(b []byte) (*Document, error) {
	// Kind is checked first, because errors about single fields of another kind of document would mislead the user.
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("it is no %s document, which is one JSON object: %w", Kind, err)
	}
	if head.APIVersion != APIVersion || head.Kind != Kind {
		return nil, fmt.Errorf("%w: it is a %q of %q, not a %s of %s; `geobench run -o json` and `geobench simulate -o json` write those",
			ErrNoResult, head.Kind, head.APIVersion, Kind, APIVersion)
	}
	d := &Document{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, err
	}
	if d.mayHideCensored() {
		d.Notes = append(d.Notes, censoredNote)
	}
	return d, nil
}

// RunSummary returns the summary in the form of a BenchmarkRun's status.
func (d *Document) RunSummary() *v1alpha1.RunSummary {
	s := &d.Summary
	return &v1alpha1.RunSummary{
		Committed: s.Committed, Aborted: s.Aborted, ThroughputPerSecond: s.ThroughputPerSecond, OfferedPerSecond: s.OfferedPerSecond, LeastServed: d.LeastServed(),
		LatencyMicroseconds: s.LatencyMicroseconds.api(), AbortPPM: s.AbortPPM, Overloaded: d.Overloaded(),
		BytesPerTransaction: s.BytesPerTransaction, CrossRegionBytesPerTransaction: s.CrossRegionBytesPerTransaction,
		MultiHomePPM: s.Realised.AllMultiHomePPM, MultiPartitionPPM: s.Realised.AllMultiPartitionPPM,
	}
}

// RunRegions returns the regions in the form of a BenchmarkRun's status.
func (d *Document) RunRegions() []v1alpha1.RunRegionStatus {
	var out []v1alpha1.RunRegionStatus
	for _, r := range d.Regions {
		out = append(out, v1alpha1.RunRegionStatus{
			Name: r.Name, Committed: r.Committed, ThroughputPerSecond: r.ThroughputPerSecond,
			LatencyMicroseconds: r.LatencyMicroseconds.api(), AbortPPM: r.AbortPPM,
		})
	}
	return out
}

// RunObjectives returns the objectives in the form of a BenchmarkRun's status.
func (d *Document) RunObjectives() []v1alpha1.ObjectiveStatus {
	var out []v1alpha1.ObjectiveStatus
	for _, o := range d.Objectives {
		out = append(out, v1alpha1.ObjectiveStatus{Name: o.Name, Measured: o.Measured, Holds: o.Holds})
	}
	return out
}

// RunChecks returns the checks in the form of a BenchmarkRun's status.
func (d *Document) RunChecks() []v1alpha1.CheckStatus {
	var out []v1alpha1.CheckStatus
	for _, c := range d.Checks {
		out = append(out, v1alpha1.CheckStatus{Name: c.Name, Passed: c.Passed, Message: c.Message})
	}
	return out
}

// RunRepetition returns the repetition in the form of a BenchmarkRun's status, without its start time.
func (r *Repetition) RunRepetition() v1alpha1.RepetitionStatus {
	return v1alpha1.RepetitionStatus{
		Index: int32(r.Index), Committed: r.Committed, Aborted: r.Aborted, ThroughputPerSecond: r.ThroughputPerSecond,
		LatencyMicroseconds: r.LatencyMicroseconds.api(), AbortPPM: r.AbortPPM,
	}
}

func (l Latency) api() v1alpha1.LatencyMicroseconds {
	return v1alpha1.LatencyMicroseconds{P50: l.P50, P90: l.P90, P95: l.P95, P99: l.P99}
}
