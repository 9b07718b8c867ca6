// Package admin is the administration protocol of a node: small JSON documents over HTTP. Only the operator may use it,
// authenticated by mutual TLS (package identity). geobench run calls the nodes in its process directly.
//
//	GET  /status   Status
//	POST /load     LoadRequest -> LoadResponse: replaces the node's data; 409 while transactions are pending, 400 for a
//	               workload that the API server would reject
//	POST /join     Join: assigns the incarnation of its node to a waiting process
//	POST /disturb  Agenda: the effects of faults on this node, with their times; replaces the previous agenda
//	GET  /log      Log: the disturbances of this node, with their actual times
//	GET  /clock    Reading
//	GET  /audit    Audit: the sums of this node's rows for the workload's invariants; 409 while transactions are pending
//
// A second, read-only port is open to every client:
//
//	GET  /healthz  200 while the event loop makes progress
//	GET  /readyz   200 when every peer has been reached and none has lost its state
//	GET  /metrics  Prometheus
package admin

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/late"
	"github.com/geobench/geobench/internal/base/store"
)

// Status is a node's report about itself. During an incarnation, counters never decrease.
type Status struct {
	// Node is the node's name, region/partition/replica. ID is its geo.NodeID.
	Node string `json:"node"`
	ID   int    `json:"id"`
	// Incarnation is the incarnation of the database. Process is a random name of this process.
	Incarnation string `json:"incarnation"`
	Process     string `json:"process"`
	// NodeIncarnation is the number of processes of the node that started without state and obtained it from other nodes.
	// Recovering is set while a copy of this node's data is missing, because a lost node, possibly this node, is not fully
	// replaced yet.
	NodeIncarnation uint32 `json:"nodeIncarnation,omitempty"`
	Recovering      bool   `json:"mending,omitempty"`
	// Waiting is set while the process waits for Join, which assigns its incarnation. Until then it has no contact with
	// other nodes.
	Waiting bool `json:"waiting,omitempty"`
	// Ready is set if every peer has been reached and none has lost its state. Otherwise Reason states the problem.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Broken is set if the database has lost state, because a peer restarted without its log. The database must be created
	// again.
	Broken bool `json:"broken,omitempty"`
	// Dataset is the name of the data set that was loaded last: see LoadRequest.
	Dataset string `json:"dataset,omitempty"`
	// Pending is the number of unfinished transactions.
	Pending int `json:"pending"`
	// CPUSeconds is the user and system time of the process. Nodes that share a process all report the total of the
	// process.
	CPUSeconds      float64 `json:"cpuSeconds"`
	MemoryBytes     int64   `json:"memoryBytes"`
	PeakMemoryBytes int64   `json:"peakMemoryBytes"`
	// QuotaPeriods is the number of CPU quota periods in which the container was running. ThrottledPeriods is the number
	// of periods in which the container used up the quota and was stopped until the next period. Both are omitted if there
	// is no quota.
	QuotaPeriods     int64 `json:"quotaPeriods,omitempty"`
	ThrottledPeriods int64 `json:"throttledPeriods,omitempty"`
	DataBytes        int64 `json:"dataBytes"`
	Rows             int64 `json:"rows"`
	// Operations is the number of reads and writes of rows.
	Operations int64 `json:"operations"`
	// Leader and Elections are the values of target.Activity, for a database other than Geobench's engines.
	Leader    string `json:"leader,omitempty"`
	Elections int64  `json:"elections,omitempty"`
	// Counters and Gauges are the readings of the engine's figures by name: see protocol.Figure.
	Counters map[string]int64 `json:"counters,omitempty"`
	Gauges   map[string]int64 `json:"gauges,omitempty"`
	// Roles are the node's current roles: see protocol.RoleHolder.
	Roles []string `json:"roles,omitempty"`
	// Leads are the names of the shards whose groups the node currently leads (protocol.ShardLeader); omitted if the
	// engine has no such groups.
	Leads []string `json:"leads,omitempty"`
	// Disturbance is the current effect of faults on the node; omitted if there is none. Ahead is the number of remaining
	// steps in its agenda.
	Disturbance *Disturbance `json:"disturbance,omitempty"`
	Ahead       int          `json:"ahead,omitempty"`
	// LinksComplete is the time since which every link has had at least its declared delay. Probes (package ping) measure
	// it. It is omitted while a link is too fast or not measured yet.
	LinksComplete *time.Time `json:"linksComplete,omitempty"`
	// Requests is the traffic from clients, Answers the traffic to clients.
	Requests geo.Traffic `json:"requests"`
	Answers  geo.Traffic `json:"answers"`
	// Links describes the links from this node's region to each region, including its own.
	Links []LinkStatus `json:"links"`
}

// LinkStatus summarizes the traffic from this node to the nodes of a region, and the measured round trips.
type LinkStatus struct {
	// To is the name of the peer region.
	To string `json:"to"`
	// Traffic is the sent traffic, including probes but not retransmissions.
	geo.Traffic
	// Probes is the number of packets that a prober (package ping) has sent to the region, and Answered the number of
	// replies. The remaining packets or their replies are lost or in flight. Nodes of native engines omit both fields,
	// because their connections lose nothing.
	Probes   int64 `json:"probes,omitempty"`
	Answered int64 `json:"answered,omitempty"`
	// RTT is an HDR histogram (V2 compressed, base64) of the round trips in the last 10 s, in microseconds. It is empty if
	// the region contains no other node.
	RTT string `json:"rtt,omitempty"`
	// Mesh contains the round trips of a pair of probes if a service mesh carries the pods' connections; nil otherwise.
	Mesh *MeshRTT `json:"mesh,omitempty"`
}

// MeshRTT compares a link with and without a service mesh, in histograms like LinkStatus.RTT. Two probes take the same
// path at the same time. Native engines emulate delays only for their own messages, so neither probe is delayed
// artificially. The difference is the cost of the mesh.
type MeshRTT struct {
	// Below contains the round trips of UDP packets, which bypass the mesh. Through contains the round trips over a TCP
	// connection, which the mesh carries.
	Below   string `json:"below"`
	Through string `json:"through"`
}

// Join assigns the incarnation of a node to a process. It is needed if new incarnations can replace lost nodes, because
// a process cannot determine on its own whether it has a predecessor.
type Join struct {
	// Process is the process to which the request is addressed. Any other process rejects the request.
	Process string `json:"process"`
	// NodeIncarnation is the process's value of Status.NodeIncarnation: 0 for the first process of the node, and one more
	// for each later process.
	NodeIncarnation uint32 `json:"nodeIncarnation,omitempty"`
	// Loaded is the load request that the nodes received last. It is nil if there was none, and for the first process of
	// the node. The process gets its rows from its peers, except for the read-only rows that every node stores.
	Loaded *LoadRequest `json:"loaded,omitempty"`
}

// LoadRequest asks a node to replace its data with its part of a workload's data set.
type LoadRequest struct {
	// Dataset is the name of the data set. A node that has already loaded this data set answers immediately, so repeating
	// a request is safe.
	Dataset string `json:"dataset"`
	// Workload is a BenchmarkRun's spec.workload, as JSON.
	Workload json.RawMessage `json:"workload"`
	Seed     uint64          `json:"seed"`
	// Run is the run whose clients, and no others, may connect from now on. It matters only if clients must authenticate.
	Run string `json:"run,omitempty"`
	// Traced is set if the run records a history. Rows then carry versions (package history), which audits ignore.
	Traced bool `json:"traced,omitempty"`
}

// LoadResponse summarizes the loaded data.
type LoadResponse struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// Target is a result.Target as JSON, for a database other than Geobench's engines.
	Target json.RawMessage `json:"target,omitempty"`
}

// Audit contains the sums of the node's rows that invariants need, by shard.
type Audit struct {
	Shards []store.ShardSums `json:"shards"`
	// Servers is a list of result.Server as JSON: the servers of a database other than Geobench's engines, after the
	// audit.
	Servers json.RawMessage `json:"servers,omitempty"`
}

// Disturbance is the combined effect of all current faults of a run on a node. The zero value means no effect.
type Disturbance struct {
	// Links change the emulated links to the nodes of some regions. All other links are as declared.
	Links []DisturbedLink `json:"links,omitempty"`
	// Cut lists the nodes, by geo.NodeID, that this node cannot reach.
	Cut []int `json:"cut,omitempty"`
	// Lost lists the nodes that have permanently lost their state. No node waits for them any longer, even if a later
	// Disturbance omits them.
	Lost []int `json:"lost,omitempty"`
	// SlowPercent is the additional time that every operation of the node takes, in percent: 100 doubles the time.
	SlowPercent int64 `json:"slowPercent,omitempty"`
	// ClockOffset is added to the node's clock. A positive offset sets the clock ahead.
	ClockOffset time.Duration `json:"clockOffsetNanoseconds,omitempty"`
}

// Agenda is a schedule of disturbances that a node applies to itself. The operator sends it in advance, so that the
// node follows it even while the operator cannot reach the node. A new agenda replaces the previous one.
type Agenda struct {
	// Process is the process to whose clock the times refer. Any other process rejects the agenda. If Process is empty,
	// every process accepts it.
	Process string `json:"process,omitempty"`
	// Steps are ordered by time. Before the first step, there is no disturbance.
	Steps []Step `json:"steps,omitempty"`
}

// Step is a disturbance from a given time until the next step.
type Step struct {
	// At is a time on the node's monotonic clock, as reported by GET /clock. A time in the past takes effect immediately.
	At time.Duration `json:"atNanoseconds,omitempty"`
	Disturbance
}

// Now returns an agenda whose only disturbance starts immediately and does not end.
func Now(d *Disturbance) *Agenda { return &Agenda{Steps: []Step{{Disturbance: *d}}} }

// At returns the disturbance at time now, and the time of the next step. ok is false if there is no next step.
func (a *Agenda) At(now time.Duration) (d *Disturbance, next time.Duration, ok bool) {
	d = &Disturbance{}
	for i := range a.Steps {
		if a.Steps[i].At > now {
			return d, a.Steps[i].At, true
		}
		d = &a.Steps[i].Disturbance
	}
	return d, 0, false
}

// Ahead returns the number of steps after now.
func (a *Agenda) Ahead(now time.Duration) (n int) {
	for i := range a.Steps {
		if a.Steps[i].At > now {
			n++
		}
	}
	return n
}

// Log records all disturbances of a node since it started, regardless of who requested them.
type Log struct {
	Process string `json:"process"`
	// Since is the time at which the node started. If the node continued from its journal, it is the time at which its
	// first process started. Times are on the node's monotonic clock.
	Since time.Duration `json:"sinceNanoseconds"`
	// Entries are ordered by time. Between entries there was no disturbance.
	Entries []LogEntry `json:"entries,omitempty"`
	// ForgottenUntil is the time before which the log is incomplete, because old entries were dropped to limit its size.
	// It is omitted if no entries were dropped.
	ForgottenUntil time.Duration `json:"forgottenUntilNanoseconds,omitempty"`
	// Fast are the intervals in which this process measured links that were faster than declared.
	Fast []FastLink `json:"fast,omitempty"`
	// Late is the lateness of this process's scheduled work for each second.
	Late *late.Record `json:"late,omitempty"`
}

// FastLink is an interval in which the median round trip to the nodes of a region was too short: see wire.Fast.
type FastLink struct {
	To string `json:"to"`
	// Node is the affected node of the region; empty if all nodes of the region are affected.
	Node   string        `json:"node,omitempty"`
	From   time.Duration `json:"fromNanoseconds"`
	Until  time.Duration `json:"untilNanoseconds"`
	Median time.Duration `json:"medianNanoseconds"`
}

// LogEntry is a disturbance of a node and the interval in which it was in effect.
type LogEntry struct {
	From time.Duration `json:"fromNanoseconds"`
	// To is nil while the disturbance lasts.
	To          *time.Duration `json:"toNanoseconds,omitempty"`
	Disturbance Disturbance    `json:"disturbance"`
}

const (
	// MaxLog is the maximum number of entries in a log. A node serves many runs, so the log keeps only the latest entries.
	MaxLog = 1000
	// MaxLogValues is the maximum number of values in all entries of a log together, so that a log always fits into a
	// response. Entries that cut a node off from thousands of nodes reduce the number of entries below MaxLog.
	MaxLogValues = 40_000
)

// Change records that d affects the node from now on, in place of the previous disturbance. A nil or empty d only ends
// the previous disturbance.
func (l *Log) Change(now time.Duration, d *Disturbance) {
	if n := len(l.Entries); n > 0 && l.Entries[n-1].To == nil {
		l.Entries[n-1].To = &now
	}
	// An empty disturbance only ends the previous disturbance.
	if d.Same(nil) {
		return
	}
	l.Entries = append(l.Entries, LogEntry{From: now, Disturbance: *d})
	values := 0
	for i := range l.Entries {
		values += l.Entries[i].Disturbance.values()
	}
	dropped := 0
	// Always keep the latest entry, even if it alone exceeds MaxLogValues: it is the current disturbance.
	for ; len(l.Entries)-dropped > MaxLog || values > MaxLogValues && dropped < len(l.Entries)-1; dropped++ {
		l.ForgottenUntil = *l.Entries[dropped].To
		values -= l.Entries[dropped].Disturbance.values()
	}
	l.Entries = slices.Delete(l.Entries, 0, dropped)
}

// values returns an upper bound on the number of JSON values in a disturbance.
func (d *Disturbance) values() int {
	const ofLink, others = 10, 5
	return ofLink*len(d.Links) + len(d.Cut) + len(d.Lost) + others
}

// DisturbedLink is the emulated link to the nodes of a region, and the link back, which carries acknowledgements.
type DisturbedLink struct {
	To   string   `json:"to"`
	Link geo.Link `json:"link"`
	Back geo.Link `json:"back"`
}

// Same reports whether two disturbances have the same effect; nil means no effect.
func (d *Disturbance) Same(o *Disturbance) bool {
	var a, b Disturbance
	if d != nil {
		a = *d
	}
	if o != nil {
		b = *o
	}
	return slices.Equal(a.Links, b.Links) && slices.Equal(a.Cut, b.Cut) && slices.Equal(a.Lost, b.Lost) &&
		a.SlowPercent == b.SlowPercent && a.ClockOffset == b.ClockOffset
}
