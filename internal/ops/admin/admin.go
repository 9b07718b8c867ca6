// Package admin is the administration protocol of a node: small JSON documents over HTTP, which are for the operator
// alone: mutual TLS (package identity). geobench run asks its nodes in its own process.
//
//	GET  /status   Status
//	POST /load     LoadRequest -> LoadResponse: replaces the node's data; refused with 409 while transactions are pending, and with 400 for a
//	               workload that the API server would refuse
//	POST /join     Join: which incarnation of its node a process is that waits to be told
//	POST /disturb  Agenda: what faults do to this node and when, in place of what it was told before
//	GET  /log      Log: what was done to this node, with its true times
//	GET  /clock    Reading
//	GET  /audit    Audit: what the workload's invariants need of this node's rows; 409 while transactions are pending
//
// Anybody may ask another port, of which nothing is changed:
//
//	GET  /healthz  200 while the event loop turns
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

// Status is what a node knows of itself. Counters only grow during an incarnation.
type Status struct {
	// Node is its name, region/partition/replica; ID its geo.NodeID.
	Node string `json:"node"`
	ID   int    `json:"id"`
	// Incarnation of the database, and Process: a name made up by this process when it started.
	Incarnation string `json:"incarnation"`
	Process     string `json:"process"`
	// NodeIncarnation counts the processes in the node's place that have lost what they knew, and got it from the others.
	// Mending: something that the node has copies of lacks one, because a node was lost, perhaps this one, and has not
	// been replaced yet.
	NodeIncarnation uint32 `json:"nodeIncarnation,omitempty"`
	Recovering      bool   `json:"mending,omitempty"`
	// Waiting: the process has not been told which incarnation of its node it is (Join), and nobody has heard of it.
	Waiting bool `json:"waiting,omitempty"`
	// Ready: every peer was reached and none has lost its state. Reason says in words why not.
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	// Broken: the database has lost state (a peer started again without its log) and must be made anew.
	Broken bool `json:"broken,omitempty"`
	// Dataset names what was loaded last: see LoadRequest.
	Dataset string `json:"dataset,omitempty"`
	// Pending is the number of unfinished transactions.
	Pending int `json:"pending"`
	// CPUSeconds is the process's user and system time; in one process for several nodes it is the process's.
	CPUSeconds      float64 `json:"cpuSeconds"`
	MemoryBytes     int64   `json:"memoryBytes"`
	PeakMemoryBytes int64   `json:"peakMemoryBytes"`
	// QuotaPeriods are the periods of its CPU quota in which the container has run, and ThrottledPeriods those in which it
	// had used the quota up and was stopped until the next. They are left out where there is no quota.
	QuotaPeriods     int64 `json:"quotaPeriods,omitempty"`
	ThrottledPeriods int64 `json:"throttledPeriods,omitempty"`
	DataBytes        int64 `json:"dataBytes"`
	Rows             int64 `json:"rows"`
	// Operations counts reads and writes of rows.
	Operations int64 `json:"operations"`
	// Leader and Elections are those of target.Activity, of a database that is not geobench's own.
	Leader    string `json:"leader,omitempty"`
	Elections int64  `json:"elections,omitempty"`
	// Counters and Gauges are the readings of the engine's figures, by kind: see protocol.Figure.
	Counters map[string]int64 `json:"counters,omitempty"`
	Gauges   map[string]int64 `json:"gauges,omitempty"`
	// Roles that the node has now: see protocol.RoleHolder.
	Roles []string `json:"roles,omitempty"`
	// Leads are the names of the shards whose groups the node leads now (protocol.ShardLeader); left out where the engine
	// has none.
	Leads []string `json:"leads,omitempty"`
	// Disturbance is what faults do to the node now; left out when that is nothing. Ahead is the number of steps of its
	// agenda that are still to come.
	Disturbance *Disturbance `json:"disturbance,omitempty"`
	Ahead       int          `json:"ahead,omitempty"`
	// LinksComplete is since when no round trip of this node was shorter than declared: since when every link is emulated.
	// Only probes tell (package ping); without it, one is short now or was not measured yet.
	LinksComplete *time.Time `json:"linksComplete,omitempty"`
	// Requests are what clients have sent, Answers what was sent to them.
	Requests geo.Traffic `json:"requests"`
	Answers  geo.Traffic `json:"answers"`
	// Links are the directed links from this node's region, one per peer region, this region itself included.
	Links []LinkStatus `json:"links"`
}

// LinkStatus sums up what this node sent to the nodes of one region, and the round trips that it measured.
type LinkStatus struct {
	// To is the peer region's name.
	To string `json:"to"`
	// Traffic is what was sent, probes included, retransmissions left out.
	geo.Traffic
	// Probes are the packets that a prober (package ping) has sent there, and Answered those that came back: what is
	// missing was lost on the way there or back, or is under way. Nodes of native engines, whose connections lose nothing,
	// leave them out.
	Probes   int64 `json:"probes,omitempty"`
	Answered int64 `json:"answered,omitempty"`
	// RTT is an HDR histogram (V2 compressed, base64) of the round trips of the last 10 s in microseconds; empty for a
	// region with no other node.
	RTT string `json:"rtt,omitempty"`
	// Mesh are the round trips of a pair of probes, where a mesh carries the pods' connections; nil where none does.
	Mesh *MeshRTT `json:"mesh,omitempty"`
}

// MeshRTT is what a link is with a mesh and without, in histograms as those of LinkStatus.RTT. Both probes take the
// same way at the same time, and neither is delayed by the emulation of native engines, which delays their own
// messages: what differs is the mesh's.
type MeshRTT struct {
	// Below is of packets that a mesh does not carry (UDP), Through of a TCP connection that it does.
	Below   string `json:"below"`
	Through string `json:"through"`
}

// Join tells a process which incarnation of its node it is. Where new incarnations can take the places of lost nodes, a
// process cannot know by itself whether another one was there before it.
type Join struct {
	// Process that is told: another one refuses.
	Process string `json:"process"`
	// NodeIncarnation is that of Status: one more than that of the process before, 0 for the first.
	NodeIncarnation uint32 `json:"nodeIncarnation,omitempty"`
	// Loaded is what the nodes were loaded with last, for a process that is not the first: it gets its rows from its
	// peers, but for those that are on every node and that nobody writes. Nil for nothing yet.
	Loaded *LoadRequest `json:"loaded,omitempty"`
}

// LoadRequest tells a node to replace its data with its part of a workload's data set.
type LoadRequest struct {
	// Dataset names the request: a node that has loaded it already answers at once, so that asking twice is safe.
	Dataset string `json:"dataset"`
	// Workload is a BenchmarkRun's spec.workload, as JSON.
	Workload json.RawMessage `json:"workload"`
	Seed     uint64          `json:"seed"`
	// Run is whose clients may connect from now on, where clients have to prove whose they are; no others may.
	Run string `json:"run,omitempty"`
	// Traced says that the run records a history, so that rows carry versions (package history), which audits leave out.
	Traced bool `json:"traced,omitempty"`
}

// LoadResponse sums up what was loaded.
type LoadResponse struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
	// Target is a result.Target, of a database that is not geobench's own.
	Target json.RawMessage `json:"target,omitempty"`
}

// Audit is what invariants need of the node's rows, by shard.
type Audit struct {
	Shards []store.ShardSums `json:"shards"`
	// Servers is a list of result.Server, of a database that is not geobench's own: what its servers are after the audit.
	Servers json.RawMessage `json:"servers,omitempty"`
}

// Disturbance is all that the faults of a run's timeline do to one node. The zero value is nothing.
type Disturbance struct {
	// Links change the emulated links to the nodes of some regions; the others are as declared.
	Links []DisturbedLink `json:"links,omitempty"`
	// Cut lists the nodes, by geo.NodeID, that this node cannot reach.
	Cut []int `json:"cut,omitempty"`
	// Lost lists the nodes that are gone for good, with what they held in memory: nobody waits for them any more. A node
	// that was lost once stays lost.
	Lost []int `json:"lost,omitempty"`
	// SlowPercent is how much longer than usual the node takes for everything: 100 is twice the time.
	SlowPercent int64 `json:"slowPercent,omitempty"`
	// ClockOffset is what the node's clock is ahead of what it would show; negative is behind.
	ClockOffset time.Duration `json:"clockOffsetNanoseconds,omitempty"`
}

// Agenda is what a node does to itself, and when. It is told beforehand, so that whoever tells it may be away when the
// time comes. A new agenda takes the place of the one before.
type Agenda struct {
	// Process that the times are of: a node that is another one refuses the agenda. Empty is whichever.
	Process string `json:"process,omitempty"`
	// Steps in the order of their times. Before the first one the node does nothing to itself.
	Steps []Step `json:"steps,omitempty"`
}

// Step is what a node does to itself from a time on, until the next step's.
type Step struct {
	// At is by the node's monotonic clock, which GET /clock shows. A time that has passed is at once.
	At time.Duration `json:"atNanoseconds,omitempty"`
	Disturbance
}

// Now is the agenda of what begins at once and stays.
func Now(d *Disturbance) *Agenda { return &Agenda{Steps: []Step{{Disturbance: *d}}} }

// At is what an agenda says for a time, and when the next step is; ok is false when there is none.
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

// Ahead counts the steps that are still to come.
func (a *Agenda) Ahead(now time.Duration) (n int) {
	for i := range a.Steps {
		if a.Steps[i].At > now {
			n++
		}
	}
	return n
}

// Log is all that was done to a node since it started, whoever asked for it.
type Log struct {
	Process string `json:"process"`
	// Since is when the node, or the first of the processes that have gone on from its journal, started. Times are by the
	// node's monotonic clock.
	Since time.Duration `json:"sinceNanoseconds"`
	// Entries are in the order of their times. Between them nothing was done.
	Entries []LogEntry `json:"entries,omitempty"`
	// ForgottenUntil is the time before which the log says nothing, since there were more entries than it keeps. It is
	// left out while it keeps all of them.
	ForgottenUntil time.Duration `json:"forgottenUntilNanoseconds,omitempty"`
	// Fast are the times in which links were too fast to be the declared ones, as this process has measured them.
	Fast []FastLink `json:"fast,omitempty"`
	// Late is how late this process was for what was due, second by second.
	Late *late.Record `json:"late,omitempty"`
}

// FastLink is a time in which the median of the round trips to the nodes of a region was too short: see wire.Fast.
type FastLink struct {
	To string `json:"to"`
	// Node is the one node of the region, where it is not all of them.
	Node   string        `json:"node,omitempty"`
	From   time.Duration `json:"fromNanoseconds"`
	Until  time.Duration `json:"untilNanoseconds"`
	Median time.Duration `json:"medianNanoseconds"`
}

// LogEntry is what was done to a node for a time.
type LogEntry struct {
	From time.Duration `json:"fromNanoseconds"`
	// To is nil while it lasts.
	To          *time.Duration `json:"toNanoseconds,omitempty"`
	Disturbance Disturbance    `json:"disturbance"`
}

const (
	// MaxLog is how many entries a log keeps: the last ones, since a node lives for many runs.
	MaxLog = 1000
	// MaxLogValues is how many values these entries have together. Where they cut a node off from thousands of others,
	// fewer than MaxLog are kept, so that a log always fits into an answer.
	MaxLogValues = 40_000
)

// Change notes that something else is done to the node from now on; nil or nothing ends what was.
func (l *Log) Change(now time.Duration, d *Disturbance) {
	if n := len(l.Entries); n > 0 && l.Entries[n-1].To == nil {
		l.Entries[n-1].To = &now
	}
	if d.Same(nil) {
		return
	}
	l.Entries = append(l.Entries, LogEntry{From: now, Disturbance: *d})
	values := 0
	for i := range l.Entries {
		values += l.Entries[i].Disturbance.values()
	}
	dropped := 0
	for ; len(l.Entries)-dropped > MaxLog || values > MaxLogValues && dropped < len(l.Entries)-1; dropped++ {
		l.ForgottenUntil = *l.Entries[dropped].To
		values -= l.Entries[dropped].Disturbance.values()
	}
	l.Entries = slices.Delete(l.Entries, 0, dropped)
}

// values is how many values a disturbance has as JSON, or a few more.
func (d *Disturbance) values() int {
	const ofLink, others = 10, 5
	return ofLink*len(d.Links) + len(d.Cut) + len(d.Lost) + others
}

// DisturbedLink is the emulated link to the nodes of a region, and the one back, which acknowledgements take.
type DisturbedLink struct {
	To   string   `json:"to"`
	Link geo.Link `json:"link"`
	Back geo.Link `json:"back"`
}

// Same tells whether two disturbances do the same; nil does nothing.
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
