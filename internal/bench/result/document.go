// Package result turns the counts of load generators and nodes into the RunResult document, its verdict, and
// comparisons of two results. geobench prints the document, and the operator keeps it. Percentiles always come from
// merged histograms, never from averages of percentiles. All figures are integers with their unit in the name, so that
// a simulated run gives the same bytes again. docs/results.md describes every field.
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

// APIVersion and Kind mark a result document.
const (
	APIVersion = "geobench.dev/v1alpha1"
	Kind       = "RunResult"
)

// Document is the result of one run.
type Document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name of the run.
	Name string `json:"name"`
	// Simulated results come from virtual time: no machine ran the database.
	Simulated bool  `json:"simulated"`
	Seed      int64 `json:"seed"`
	// Engine and its parameters, complete.
	Engine     string            `json:"engine"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// Database is the name of the GeoDatabase; the next four fields are its shape. Homes is the number of regions that
	// rows call home, counted from the first region, each with its partitions; 0 stands for all.
	Database             string `json:"database,omitempty"`
	Homes                int    `json:"homes,omitempty"`
	PartitionsPerRegion  int    `json:"partitionsPerRegion,omitempty"`
	ReplicasPerPartition int    `json:"replicasPerPartition,omitempty"`
	Emulation            string `json:"emulation,omitempty"`
	// Mesh is the service mesh that nodes and workers were in, on a cluster.
	Mesh *v1alpha1.MeshStatus `json:"mesh,omitempty"`
	// Target is set for a database that existed before the run. Its figures are then unknown, apart from the clients'
	// figures.
	Target *Target `json:"target,omitempty"`
	// Durability is the durability of the nodes; omitted when it is None.
	Durability v1alpha1.Durability `json:"durability,omitempty"`
	// Workload is the name of the workload; Spec is the manifest's configuration, with defaults.
	Workload string `json:"workload"`
	Spec     Spec   `json:"spec"`
	// Manifests are the applied manifests, with defaults filled in.
	Manifests *Manifests `json:"manifests,omitempty"`
	// Version is the build that evaluated the run, WorkerVersion the workers' when it is another, or theirs
	// when they have several.
	Version       string   `json:"version"`
	WorkerVersion string   `json:"workerVersion,omitempty"`
	Machine       *Machine `json:"machine,omitempty"`
	// Execution identifies the measured execution of the run, and its time; omitted from simulated results.
	Execution *Execution `json:"execution,omitempty"`

	Verdict v1alpha1.Verdict `json:"verdict"`
	// Reasons say why the verdict is not Passed, the weightiest first.
	Reasons []Reason `json:"reasons,omitempty"`
	// Evidence lists the items that the run had to show before it could pass: see EvidenceItems.
	Evidence []Evidence `json:"evidence,omitempty"`

	Summary      Summary       `json:"summary"`
	Repetitions  []Repetition  `json:"repetitions"`
	Median       *Repetition   `json:"median,omitempty"`
	Regions      []Region      `json:"regions"`
	Transactions []Transaction `json:"transactions"`
	Links        []Link        `json:"links"`
	Nodes        []Node        `json:"nodes"`
	// Pods describes the pods of the database and of the load generators as they ran, on a cluster.
	Pods []Pods `json:"pods,omitempty"`
	// Process is set when one process ran all nodes and load generators. Nodes then have no separate CPU time and memory.
	Process *Process `json:"process,omitempty"`
	// Uncounted lists nodes that stopped, or started again, during the measurement. Their earlier work is not counted.
	// Bytes, CPU time and cost of the summary, and the bytes of links, are therefore lower bounds.
	Uncounted []string `json:"uncounted,omitempty"`
	// Witnesses are the observers that counted the bytes between nodes where a service mesh carried them; the nodes are
	// first.
	Witnesses []Witness `json:"witnesses,omitempty"`
	// Notes explain the figures without changing the verdict.
	Notes    []string      `json:"notes,omitempty"`
	Workers  []WorkerShare `json:"workers"`
	Timeline []Tick        `json:"timeline"`
	Faults   []Fault       `json:"faults"`
	// Deviations are the first 100 actions on nodes and links that were not planned in Faults.
	Deviations []Deviation `json:"deviations,omitempty"`
	// FastLinks are the first 100 times at which links were faster than declared without a fault that changes them.
	FastLinks []FastLink `json:"fastLinks,omitempty"`
	// FunctionalTests are tests that the database passed before the run.
	FunctionalTests []FunctionalTest `json:"functionalTests,omitempty"`
	// EmulationGaps are times at which the emulated network was not as declared. EmulationGapSeconds counts the seconds of
	// the timeline that the gaps touch; objectives omit these seconds.
	EmulationGaps       []Gap            `json:"emulationGaps,omitempty"`
	EmulationGapSeconds int64            `json:"emulationGapSeconds,omitempty"`
	Objectives          []Objective      `json:"objectives"`
	Checks              []workload.Check `json:"checks"`
	Histograms          Histograms       `json:"histograms"`
	// Types holds the result of ByType in a document of WithFiguresOnly. It is never written, because Transactions and
	// Histograms contain the same information.
	Types []TypeFigures `json:"-"`
	// seconds is MeasuredSeconds in a document of WithFiguresOnly.
	seconds float64
}

// FunctionalTest is a test that preceded the run.
type FunctionalTest struct {
	Name v1alpha1.FunctionalTest `json:"name"`
	// Run is the name of the BenchmarkRun that played it, and Committed how many transactions that has committed.
	Run       string `json:"run"`
	Committed int64  `json:"committed"`
}

// Target is a database that geobench has not deployed.
type Target struct {
	// Promises is the isolation level that it promises of histories; empty for none.
	Promises string `json:"promises,omitempty"`
	// ConnectionsPerRegion is the number of transactions that the clients of a region run at the same time. Other
	// transactions wait, and their wait is part of their latency. It is 0 if nothing bounds the number.
	ConnectionsPerRegion int `json:"connectionsPerRegion,omitempty"`
	// Server is the name and version that the database reports. Isolation is the database's own word for the level of all
	// transactions. Both are empty if the database does not report them.
	Server    string `json:"server,omitempty"`
	Isolation string `json:"isolation,omitempty"`
	// Form says that transactions are SQL of their workload's own, and whether its tables have foreign keys; empty where
	// they are procedures.
	Form string `json:"form,omitempty"`
	// Messages says which statements clients send in one message, followed by a single wait: whether BEGIN goes with the
	// first statement, and whether writes and COMMIT go with others. It is empty if unknown.
	Messages string `json:"messages,omitempty"`
	// Placement says where rows are. With Homes, they are in their home regions. With Ownership, the database places them
	// anywhere; a home then says which clients work on a row, and a multi-home transaction uses rows of several owners. It
	// is empty if unknown.
	Placement string `json:"placement,omitempty"`
	// Leader is the region whose clients talk to the leading server when the run starts; empty if no server leads.
	Leader string `json:"leader,omitempty"`
	// Elections is the number of leader elections since the start, and LeaderAtEnd the region of the last leader, as far
	// as known. If there were elections, the figures of regions cover both leaders.
	Elections   int64  `json:"elections,omitempty"`
	LeaderAtEnd string `json:"leaderAtEnd,omitempty"`
	// Servers are the database's servers before the clients connected; ServersAfter are the servers after the audit of the
	// rows. Both are omitted if the database does not report them.
	Servers      []Server `json:"servers,omitempty"`
	ServersAfter []Server `json:"serversAfter,omitempty"`
	// Endpoints are the servers that the clients of each region talk to.
	Endpoints []TargetEndpoint `json:"endpoints,omitempty"`
}

// TargetEndpoint is the server that the clients of a region talk to.
type TargetEndpoint struct {
	Region string `json:"region"`
	// RTTMicroseconds is the median round trip of a question that needs no work, measured before the run.
	RTTMicroseconds int64 `json:"rttMicroseconds"`
}

// String says it in words.
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

// Where returns the server's own name, and its distance from each region; empty if unknown.
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
	place := cmp.Or(t.LeaderAtEnd, "no region with clients")
	switch {
	case t.Elections == 1:
		s += "; 1 leader was elected while the run went on, in " + place
	case t.Elections > 1:
		s += fmt.Sprintf("; %d leaders were elected while the run went on, the last in %s", t.Elections, place)
	}
	return s
}

// Spec repeats the configuration from the manifest, and its fingerprints for comparisons.
type Spec struct {
	Workload v1alpha1.Workload `json:"workload"`
	Load     v1alpha1.Load     `json:"load"`
	// The hashes are the first 12 hexadecimal digits of SHA-256 over the canonical JSON.
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
	return fmt.Sprintf("What %s had sent and used before they ended is not known: these figures are the least that there was.", strings.Join(d.Uncounted, ", "))
}

// Manifests are the specs of the objects that a run consists of.
type Manifests struct {
	Run      *v1alpha1.BenchmarkRunSpec   `json:"benchmarkRun,omitempty"`
	Database *v1alpha1.GeoDatabaseSpec    `json:"geoDatabase,omitempty"`
	Network  *v1alpha1.NetworkProfileSpec `json:"networkProfile,omitempty"`
	// ConfigMaps are the digests of the ConfigMaps that pods of the database mount, by their names, on a cluster.
	ConfigMaps map[string]string `json:"configMaps,omitempty"`
}

// MeasuredDigest stands for what runs of these manifests measure: it is equal for equal specs, whatever their database
// is called, and whatever they have for the fields of a run that can change.
func (m *Manifests) MeasuredDigest() (string, error) {
	run := m.Run.Fixed()
	run.DatabaseRef = v1alpha1.LocalReference{}
	text, err := json.Marshal(Manifests{Run: run, Database: m.Database, Network: m.Network})
	return identity.Digest(text), err
}

// Machine describes the machine that evaluated a run that is not simulated.
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

// Reason is a cause of a verdict: a CamelCase word, and a sentence with the numbers.
type Reason struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Summary is the gist of a run.
type Summary struct {
	Counts
	// CarriedIn transactions were due before a window and committed in it; throughput includes them.
	CarriedIn           int64 `json:"carriedIn"`
	ThroughputPerSecond int64 `json:"throughputPerSecond"`
	// OfferedPerSecond is the transactions that were due per second, sent or not; only in an open loop.
	OfferedPerSecond    int64   `json:"offeredPerSecond,omitempty"`
	LatencyMicroseconds Latency `json:"latencyMicroseconds"`
	// ServiceTimeMicroseconds counts from when a transaction was sent; only in an open loop, where it differs.
	ServiceTimeMicroseconds *Latency `json:"serviceTimeMicroseconds,omitempty"`
	AbortPPM                int64    `json:"abortPPM"`
	Attempts                Attempts `json:"attempts"`
	Unanswered
	// Discarded transactions waited in the queue of an open loop when a warm-up ended. Late outcomes arrived after their
	// client had given up, at any time.
	Discarded int64    `json:"discarded"`
	Late      int64    `json:"late"`
	Realised  Realised `json:"realised"`
	// TpmC is TPC-C's throughput: new orders that were due and committed in the windows, per minute (clause 5.4.2).
	// Left out of other workloads.
	TpmC *int64 `json:"tpmC,omitempty"`
	TPCC *TPCC  `json:"tpcc,omitempty"`

	// CPUMicrosecondsPerTransaction is the CPU time of all nodes and load generators per committed transaction. This field
	// and the next three are omitted when they are 0, for example because they are unknown: see Document.Target.
	CPUMicrosecondsPerTransaction  int64 `json:"cpuMicrosecondsPerTransaction,omitzero"`
	BytesPerTransaction            int64 `json:"bytesPerTransaction,omitzero"`
	CrossRegionBytesPerTransaction int64 `json:"crossRegionBytesPerTransaction,omitzero"`
	Cost                           Cost  `json:"cost,omitzero"`
	// Wire is omitted if the messages of clients and nodes are not counted.
	Wire *Wire `json:"wire,omitempty"`
}

// Wire is the number of bytes sent for each committed transaction, as network cards count them. It covers messages
// between nodes, inside a region and between regions, messages of clients and their answers, and the headers below.
// SmallBank on Detock uses the same count (section 4.3). A database in one process, or in the simulator, knows frames,
// not packets: each frame is assumed to be sent alone.
type Wire struct {
	// BytesPerTransaction is the sum of the next four.
	BytesPerTransaction int64 `json:"bytesPerTransaction"`
	// MessageBytesPerTransaction are those between nodes: Summary.BytesPerTransaction.
	MessageBytesPerTransaction int64 `json:"messageBytesPerTransaction"`
	// RequestBytesPerTransaction come from clients, AnswerBytesPerTransaction go to them.
	RequestBytesPerTransaction int64 `json:"requestBytesPerTransaction"`
	AnswerBytesPerTransaction  int64 `json:"answerBytesPerTransaction"`
	// HeaderBytesPerTransaction are Ethernet's, IP's and TCP's, geo.HeaderBytes for each segment.
	HeaderBytesPerTransaction int64 `json:"headerBytesPerTransaction"`
	// SentBytesPerTransaction is what nodes alone send: all but requests and their headers.
	SentBytesPerTransaction int64 `json:"sentBytesPerTransaction"`
	// CostPerHour is the cost of the machines and of all messages of the nodes, to any destination. Each region's messages
	// have the average price from that region to other regions, as in SmallBank on Detock (section 4.3). Cost charges only
	// messages that leave a region.
	CostPerHour Micros `json:"costPerHour"`
}

// Cost is the cost of a million committed transactions.
type Cost struct {
	Currency                       string `json:"currency"`
	PerMillionTransactions         Micros `json:"perMillionTransactions"`
	MachinesPerMillionTransactions Micros `json:"machinesPerMillionTransactions"`
	TransferPerMillionTransactions Micros `json:"transferPerMillionTransactions"`
	// Instance, PriceSource and PriceDate say how it was reckoned.
	Instance    string `json:"instance"`
	PriceSource string `json:"priceSource"`
	PriceDate   string `json:"priceDate"`
}

// Repetition is a measured window, or the median of all windows.
type Repetition struct {
	// Index counts from 1; 0 for the median, which is taken figure by figure.
	Index int `json:"index,omitempty"`
	Counts
	CarriedIn           int64    `json:"carriedIn"`
	ThroughputPerSecond int64    `json:"throughputPerSecond"`
	LatencyMicroseconds Latency  `json:"latencyMicroseconds"`
	AbortPPM            int64    `json:"abortPPM"`
	Attempts            Attempts `json:"attempts"`
	// Regions holds the figures of each region's clients in this window. It is omitted from the median, and if there is
	// only one window, which Document.Regions describes.
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
	// Growing reports whether the clients of an open loop had significantly more transactions in flight when the windows
	// closed than when they opened. The database did not serve the rate. All percentiles are lower bounds.
	Growing bool `json:"growing,omitempty"`
	// Faults are what each fault of Document.Faults did to the region's clients, in the same order.
	Faults []FaultEffect `json:"faults,omitempty"`
}

// FaultEffect describes how a fault affected the clients of one region.
type FaultEffect struct {
	// Name of the fault.
	Name string `json:"name"`
	// Availability is nil where Fault.Availability is, and if the region's clients committed nothing before the fault.
	Availability *Availability `json:"availability,omitempty"`
}

// Transaction holds the figures of the clients of one region for one type and class.
type Transaction struct {
	Type   string `json:"type"`
	Class  string `json:"class"`
	Region string `json:"region"`
	// Outcomes of the transactions that were due and ended in the measured windows, and of the attempts that ended in
	// them.
	Outcomes
	Attempts Outcomes `json:"attempts"`

	LatencyMicroseconds     Latency  `json:"latencyMicroseconds"`
	ServiceTimeMicroseconds *Latency `json:"serviceTimeMicroseconds,omitempty"`
}

// RTT is a measured round trip in microseconds.
type RTT struct {
	P50 int64 `json:"p50"`
	P99 int64 `json:"p99"`
}

// Link is a direction between two regions, with its declared properties and the measurements by the nodes of From.
type Link struct {
	From                    string `json:"from"`
	To                      string `json:"to"`
	DeclaredRTTMicroseconds int64  `json:"declaredRTTMicroseconds"`
	// MeasuredRTTMicroseconds was measured before the load began; LoadedRTTMicroseconds at its end, queueing included.
	MeasuredRTTMicroseconds RTT   `json:"measuredRTTMicroseconds"`
	Samples                 int64 `json:"samples"`
	// ToleranceMicroseconds is the allowed difference between the measured and the declared median: see
	// geo.Topology.RTTTolerance.
	ToleranceMicroseconds int64 `json:"toleranceMicroseconds"`
	LoadedRTTMicroseconds *RTT  `json:"loadedRTTMicroseconds,omitempty"`
	// Probes is the number of packets that probes sent over the link during the run, and LostProbes the number without a
	// reply; omitted if no probe measures the link.
	Probes     int64 `json:"probes,omitzero"`
	LostProbes int64 `json:"lostProbes,omitzero"`
	// Mesh is the delay that a service mesh adds to the link, measured before the load started. It is omitted if
	// spec.network.mesh names no mesh.
	Mesh *v1alpha1.MeshLink `json:"mesh,omitempty"`
	// Bytes and Messages sent during the run.
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
	// Segments is the number of TCP segments of these messages: see geo.Traffic. It is omitted if segments are not
	// counted.
	Segments int64 `json:"segments,omitzero"`
}

// Node is one node of the database, with its resource usage during the run and the data that it holds.
type Node struct {
	Name string `json:"name"`
	// CPUMilliseconds and its rounding CPUSeconds are the node's CPU time, or that of the process if several nodes share
	// one process.
	CPUSeconds      int64 `json:"cpuSeconds"`
	CPUMilliseconds int64 `json:"cpuMilliseconds"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	DataBytes       int64 `json:"dataBytes"`
	Rows            int64 `json:"rows"`
	Operations      int64 `json:"operations"`
	// Counters are the growth of the engine's counters during the run, and Gauges its gauges at the end of the run: see
	// protocol.Figure. Documents of earlier versions have gauges among the counters, less their values before the run.
	Counters map[string]int64 `json:"counters,omitempty"`
	Gauges   map[string]int64 `json:"gauges,omitempty"`
	// LateMicroseconds is the lateness of the node's process in the measured windows, less the CPU time that the process
	// used. SidecarLateMicroseconds is the lateness of the sidecar of its pod. They are nil if not measured.
	LateMicroseconds        *Lateness `json:"lateMicroseconds,omitempty"`
	SidecarLateMicroseconds *Lateness `json:"sidecarLateMicroseconds,omitempty"`
	// QuotaPeriods is the number of CPU quota periods in which its container ran, and ThrottledPeriods the number in which
	// the container was throttled.
	QuotaPeriods     int64 `json:"quotaPeriods,omitzero"`
	ThrottledPeriods int64 `json:"throttledPeriods,omitzero"`
	// Clock is the largest measured offset of its clock from the operator's; nil if not measured.
	Clock *NodeClock `json:"clock,omitempty"`
}

// Process is the resource usage of a process that ran all nodes and load generators.
type Process struct {
	CPUMilliseconds int64 `json:"cpuMilliseconds"`
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
}

// WorkerShare is a load generator, with the share of its CPU allowance that it used while measuring.
type WorkerShare struct {
	Region            string `json:"region"`
	Index             int    `json:"index"`
	Clients           int    `json:"clients"`
	CPUSharePPM       *int64 `json:"cpuSharePPM,omitempty"`
	AllowanceMilliCPU int64  `json:"allowanceMilliCPU,omitempty"`
	PeakMemoryBytes   int64  `json:"peakMemoryBytes,omitempty"`
	// LateMicroseconds is the lateness of its process for due work; nil if unknown.
	LateMicroseconds *Lateness `json:"lateMicroseconds,omitempty"`
	// NodeRTTMicroseconds is the round trip between its clients and the most distant node of their region, without
	// emulated delays. It is part of all latencies. It is 0 if unknown.
	NodeRTTMicroseconds int64 `json:"nodeRTTMicroseconds,omitzero"`
	// ClockAheadMicroseconds is the largest measured offset of its clock from the operator's clock, with an error of at
	// most ClockWithinMicroseconds. A negative offset means that the clock lags. It is nil if both use the same clock.
	ClockAheadMicroseconds  *int64 `json:"clockAheadMicroseconds,omitempty"`
	ClockWithinMicroseconds *int64 `json:"clockWithinMicroseconds,omitempty"`
}

// Tick is one second of the timeline. Percentiles are in microseconds, accurate to 3.2%. They cover the transactions
// that finished in the second, except aborted transactions; failed transactions rank above committed transactions.
type Tick struct {
	// Repetition counts from 1; omitted if there is only one repetition.
	Repetition int `json:"repetition,omitempty"`
	Second     int `json:"second"`
	// Seconds is the length of the tick; omitted from ticks of one second. Long results have longer ticks: see
	// Document.Fit.
	Seconds   int   `json:"seconds,omitempty"`
	Committed int64 `json:"committed"`
	Aborted   int64 `json:"aborted,omitempty"`
	Failed    int64 `json:"failed,omitempty"`
	// Attempts that ended in this second.
	Attempts int64 `json:"attempts,omitempty"`
	// Offered is the load of this second where spec.load has a curve: the transactions that were due, in an open loop, or
	// the time of the clients that took part, in milliseconds.
	Offered int64             `json:"offered,omitempty"`
	P50     v1alpha1.Quantile `json:"p50"`
	P99     v1alpha1.Quantile `json:"p99"`
	// Regions are the committed transactions of each, in the order of Document.Regions.
	Regions []int64 `json:"regions"`
	// Tenths split the second, in runs with faults. Faults names the faults that may have had an effect in this second.
	Tenths *Tenths  `json:"tenths,omitempty"`
	Faults []string `json:"faults,omitempty"`
	// Gap: the emulated network was not as it should be, so that objectives leave this second out.
	Gap bool `json:"gap,omitempty"`
}

// Objective is a bound and whether it holds.
type Objective struct {
	Name string `json:"name"`
	// Measured is for people; Value is in microseconds for latencies, per second for throughput, parts per million
	// for aborts.
	Measured string            `json:"measured"`
	Value    v1alpha1.Quantile `json:"value"`
	// Samples is the number of transactions that a percentile is of.
	Samples int64 `json:"samples,omitempty"`
	Holds   bool  `json:"holds"`
	// Undecided is the reason why it is unknown whether the objective holds; empty if it is known.
	Undecided string `json:"undecided,omitempty"`

	// FewSamples says that it is undecided since there are too few samples.
	FewSamples bool `json:"-"`
}

// Histograms hold the full distributions of the latencies, repetitions merged.
type Histograms struct {
	// Encoding is hdr-v2-deflate-base64; values are microseconds.
	Encoding string `json:"encoding"`
	// Estimator names the estimation method of percentiles: see the constant. It is empty in results of versions whose
	// percentiles cover only committed transactions.
	Estimator string `json:"estimator,omitempty"`
	// Rounded reports whether the values of the histograms, or the percentiles of single repetitions, are accurate only to
	// 3.2%. Rounding makes the result fit into a ConfigMap.
	Rounded bool              `json:"rounded,omitempty"`
	Series  []HistogramSeries `json:"series"`
}

// HistogramEncoding is the format of Histograms.
const HistogramEncoding = "hdr-v2-deflate-base64"

// HistogramSeries is the distribution of one type, class and region.
type HistogramSeries struct {
	Type   string `json:"type"`
	Class  string `json:"class"`
	Region string `json:"region"`
	// Histogram holds the latencies of committed transactions.
	Histogram string `json:"histogram"`
	// Unfinished holds the waiting times of the transactions in flight when their window closed.
	Unfinished string `json:"unfinished,omitempty"`
	// Never is the number of transactions that rank above all others, and NeverMicroseconds the time that they waited.
	// LongestMicroseconds is the longest wait of a transaction that was not observed: see Latency.
	Never               int64 `json:"never,omitempty"`
	NeverMicroseconds   int64 `json:"neverMicroseconds,omitempty"`
	LongestMicroseconds int64 `json:"longestMicroseconds,omitempty"`
	// Growing says that the backlog of the region grew while it was measured: see Region.Growing.
	Growing bool `json:"growing,omitempty"`
	// SumMicroseconds and MaxMicroseconds are of the committed transactions.
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

// ErrNoResult reports that the input is another kind of document.
var ErrNoResult = errors.New("it is no result")

// Parse reads a document from JSON. Fields that this version does not know are ignored.
func Parse(b []byte) (*Document, error) {
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

// RunSummary is the summary as a BenchmarkRun's status has it.
func (d *Document) RunSummary() *v1alpha1.RunSummary {
	s := &d.Summary
	return &v1alpha1.RunSummary{
		Committed: s.Committed, Aborted: s.Aborted, ThroughputPerSecond: s.ThroughputPerSecond, OfferedPerSecond: s.OfferedPerSecond, LeastServed: d.LeastServed(),
		LatencyMicroseconds: s.LatencyMicroseconds.api(), AbortPPM: s.AbortPPM, ClientsBusy: d.ClientsBusy(),
		BytesPerTransaction: s.BytesPerTransaction, CrossRegionBytesPerTransaction: s.CrossRegionBytesPerTransaction,
		MultiHomePPM: s.Realised.AllMultiHomePPM, MultiPartitionPPM: s.Realised.AllMultiPartitionPPM,
	}
}

// RunRegions are the regions as a BenchmarkRun's status has them.
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

// RunObjectives are the objectives as a BenchmarkRun's status has them.
func (d *Document) RunObjectives() []v1alpha1.ObjectiveStatus {
	var out []v1alpha1.ObjectiveStatus
	for _, o := range d.Objectives {
		out = append(out, v1alpha1.ObjectiveStatus{Name: o.Name, Measured: o.Measured, Holds: o.Holds})
	}
	return out
}

// RunChecks are the checks as a BenchmarkRun's status has them.
func (d *Document) RunChecks() []v1alpha1.CheckStatus {
	var out []v1alpha1.CheckStatus
	for _, c := range d.Checks {
		out = append(out, v1alpha1.CheckStatus{Name: c.Name, Passed: c.Passed, Message: c.Message})
	}
	return out
}

// RunRepetition is the repetition as a BenchmarkRun's status has it, but for its start.
func (r *Repetition) RunRepetition() v1alpha1.RepetitionStatus {
	return v1alpha1.RepetitionStatus{
		Index: int32(r.Index), Committed: r.Committed, Aborted: r.Aborted, ThroughputPerSecond: r.ThroughputPerSecond,
		LatencyMicroseconds: r.LatencyMicroseconds.api(), AbortPPM: r.AbortPPM,
	}
}

func (l Latency) api() v1alpha1.LatencyMicroseconds {
	return v1alpha1.LatencyMicroseconds{P50: l.P50, P90: l.P90, P95: l.P95, P99: l.P99}
}
