// Package detock implements Detock (Nguyen, Miller, Abadi: Detock: High Performance Multi-region Transactions at Scale,
// SIGMOD 2023). As in SLOG, every row has a home region, whose local log orders the row's transactions. However, no
// node orders multi-home transactions beforehand. The coordinator sends a multi-home transaction directly to all its
// homes, and every home puts its part into its local log on arrival.
//
// Two logs may hold two transactions in different orders, so lock queues can deadlock. Every copy eventually sees the
// same logs, and hence the same waits-for graph. The copies therefore resolve deadlocks in the same way without
// communication (resolver.go). This needs no aborts, and a multi-home transaction takes one round trip.
//
// To make deadlocks rare, the homes put a multi-home transaction into their logs at the same time rather than when it
// arrives (opportunistic.go). Package locallog provides local logs, forwarding and execution.
package detock

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/locallog"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Engine is Detock.
var Engine = &protocol.Engine{
	Name:    "detock",
	Paper:   "Nguyen, Miller, Abadi, Detock: High Performance Multi-region Transactions at Scale, SIGMOD 2023",
	Doc:     "Orders each row's transactions in its home region and resolves deadlocks between homes deterministically.",
	Figures: figures,
	Aborts:  deterministic.Aborts,
	Parameters: []protocol.Parameter{
		{
			Name: "batch", Default: "5ms", Min: 0, Max: time.Second,
			Doc: "How long a sequencer collects a batch for its region's local log, from its first transaction on.",
		},
		{
			Name: "forward", Default: "1ms", Min: 0, Max: time.Second,
			Doc: "How long a node collects transactions for another region before it forwards them.",
		},
		{
			Name: "opportunistic", Default: "true", OneOf: []string{"true", "false"},
			Doc: "Whether the homes of a multi-home transaction put it into their logs at the same time, by their clocks, " +
				"instead of when it arrives.",
		},
		{
			Name: "resolver", Default: "40ms", Min: time.Millisecond, Max: time.Minute,
			Doc: "The interval at which each copy looks for deadlocks.",
		},
		{
			Name: "resolverCore", Default: coreShared, OneOf: []string{coreShared, coreOwn},
			Doc: "Whether the search for deadlocks has a core of its own beside that of the node, as a thread of the paper's servers, " +
				"a goroutine in a process, or shares the node's.",
		},
		{
			Name: "remaster", Default: "0", Integer: true, MinInt: 0, MaxInt: 1000,
			Doc: "How many transactions in a row from one other region move a row's home there; 0 for homes that don't move.",
		},
		{
			Name: "replication", Default: locallog.Full, OneOf: []string{locallog.Full, locallog.HomeOnly},
			Doc: "Whether every region keeps a copy of all rows, or each row is kept in its home region only.",
		},
		reconnaissance.Parameter,
		locallog.MastersParameter,
		locallog.HomeLogsParameter,
		batchlog.CopiesParameter,
	},
	Check:         locallog.Check,
	CheckTopology: locallog.CheckTopology,
	Place:         locallog.Place,
	Roles:         []string{locallog.RoleLeader},
	Tolerates: func(t *geo.Topology, p protocol.Params) protocol.Tolerance {
		return locallog.Tolerates(t, p, p.Duration("batch")+2*p.Duration("resolver"))
	},
	Replaces: locallog.Replaces,
	New:      func(c protocol.Config) protocol.Replica { return newReplica(c, false) },
	Decode:   decode,
	Law:      law,
}

// Values of the parameter resolverCore.
const (
	coreShared = "shared"
	coreOwn    = "own"
)

// Timer kinds.
const (
	insertTimer = locallog.EngineTimers + iota
	probeTimer
	resolveTimer
	gatherTimer
	readTimer
	searchedTimer
)

// Replica is one node.
type Replica struct {
	*locallog.Node
	replicated    bool // home logs are replicated by consensus groups
	opportunistic bool
	latencies     latencies
	inserter      inserter
	resolver      resolver
	homes         []geo.Region
}

func newReplica(c protocol.Config, unfetched bool) *Replica {
	replicated := locallog.Replicated(c.Params)
	r := &Replica{replicated: replicated, opportunistic: !replicated && c.Params.Word("opportunistic") == "true"}
	everywhere := make([]geo.Region, len(c.Topology.Regions))
	for region := range everywhere {
		everywhere[region] = geo.Region(region)
	}
	r.Node = locallog.New(locallog.Config{
		Config: c, Batch: c.Params.Duration("batch"), Forward: c.Params.Duration("forward"), Reorderable: len(c.Topology.Regions) > 1,
		Remaster: c.Params.Int("remaster"), HomeOnly: locallog.KeepsHomeOnly(c.Params),
		AskMasters: locallog.AsksMasters(c.Params), MultiHome: r.multiHome, Arrive: r.inserter.arrive,
		Orders: everywhere, OrderBatch: c.Params.Duration("batch"), Unfetched: unfetched,
		Rejoins: len(locallog.Replaces(c.Topology, c.Params)) > 0, Reset: r.resolver.reset, Again: r.receive,
	})
	r.latencies.init(r)
	r.inserter.r = r
	r.resolver.apart = c.Params.Word("resolverCore") == coreOwn
	r.resolver.init(r, c.Params.Duration("resolver"), locallog.Place(c.Topology, c.Params))
	return r
}

// multiHome sends a transaction, or a remastering, to the first node of each of its homes. With replicated home logs,
// the transaction goes to the order of the nearest home instead.
func (r *Replica) multiHome(e locallog.Entry) {
	r.homes = r.Homes(&e, r.homes[:0])
	if r.replicated {
		r.AddToOrder(int(nearest(r.Topology, r.Region, r.homes)), e)
		return
	}
	f := locallog.Forwarded{Txn: e.Txn, Part: true, Placing: e.Placing}
	if r.opportunistic {
		// All homes compare the time with their own clocks. The time is never negative, and a part with time 0 is not held.
		f.NotBefore = max(0, r.Env.Now()+r.latencies.largest(r.homes)+timestampBuffer)
	}
	for _, home := range r.homes {
		if first := locallog.First(r.Topology, home); first != r.Self {
			r.Forward(first, f)
		} else {
			r.inserter.arrive(r.Self, f)
		}
	}
}

// nearest returns the home that is nearest to region c; the lowest number decides between equal distances. With
// replicated home logs, that home orders the transaction.
func nearest(t *geo.Topology, c geo.Region, homes []geo.Region) geo.Region {
	return slices.MinFunc(homes, func(a, b geo.Region) int {
		return cmp.Or(cmp.Compare(distance(t, c, a), distance(t, c, b)), cmp.Compare(a, b))
	})
}

// distance returns the round-trip time between two regions, or 0 within a region.
func distance(t *geo.Topology, a, b geo.Region) time.Duration {
	if a == b {
		return 0
	}
	return t.RTT(a, b)
}

// Start implements protocol.Replica.
func (r *Replica) Start() {
	r.Node.Start()
	if r.opportunistic {
		r.latencies.probe()
	}
}

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.Node.Submit(t)
	r.end()
}

// Receive implements protocol.Replica.
func (r *Replica) Receive(from geo.NodeID, m protocol.Message) {
	r.receive(from, m)
	r.end()
}

func (r *Replica) receive(from geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Probe:
		r.Env.Send(from, &Echo{OneWay: r.Env.Now() - m.Sent})
	case *Echo:
		r.latencies.measured(r.Topology.RegionOf(from), m.OneWay)
	case *Graph:
		// A graph from before a restart of the copy does not belong to the current graph.
		if r.Timely(from, m.Since, m) {
			r.resolver.gather(*m)
		}
	case *Resolution:
		if r.Timely(from, m.Since, m) {
			r.resolver.apply(m.Deadlocks)
		}
	default:
		r.Node.Receive(from, m)
	}
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	r.Node.Replaced(n, incarnation)
	r.end()
}

// Fire implements protocol.Replica.
func (r *Replica) Fire(t protocol.Timer) {
	switch t.Kind {
	case insertTimer:
		r.inserter.expire(time.Duration(t.Arg))
	case probeTimer:
		r.latencies.probe()
	case resolveTimer:
		r.resolver.tick()
	case gatherTimer:
		r.resolver.resolve()
	case readTimer:
		r.resolver.passRead()
	case searchedTimer:
		r.resolver.searched()
	default:
		r.Node.Fire(t)
	}
	r.end()
}

// end completes a step: it sends the messages and schedules the resolver.
func (r *Replica) end() {
	r.Flush()
	// Any step may change this partition's waits-for graph.
	r.resolver.watch()
}

// Steps implements protocol.StepCounter: it returns the steps of the resolver.
func (r *Replica) Steps() int64 { return r.resolver.steps() }

// Pending implements protocol.Replica. It adds 1 while the copy's graph lacks changes from this node.
func (r *Replica) Pending() int {
	n := r.Node.Pending()
	if r.resolver.busy() {
		n++
	}
	return n
}

// Readings implements protocol.Replica.
func (r *Replica) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(r.Node.Readings(dst),
		protocol.Reading{Name: "deadlocks_resolved", Value: r.resolver.resolved},
		protocol.Reading{Name: "deadlocked", Value: r.resolver.members},
		protocol.Reading{Name: "late_parts", Value: r.inserter.late},
		protocol.Reading{Name: "resolver_steps", Value: r.Steps() + r.resolver.readSteps + r.resolver.searchSteps},
	)
}

// law is Engine.Law. A single-home transaction has the latency of SLOG. With opportunistic ordering, all homes log a
// multi-home transaction at the same time, 2 ms after its expected arrival at the last home. Without opportunistic
// ordering, each home logs the transaction on arrival. In both cases, the transaction then reaches the coordinator in
// these logs.
//
// With replicated home logs, a multi-home transaction first takes a position in the order of the nearest home. It then
// enters the logs of all homes.
func law(t *geo.Topology, p protocol.Params, c geo.Region, homes []geo.Region) time.Duration {
	d := t.RTT(c, c)
	if len(homes) <= 1 {
		return d + locallog.SingleHomeLaw(t, p, c, homes)
	}
	if locallog.Replicated(p) {
		o := nearest(t, c, homes)
		return d + p.Duration("batch") + locallog.PlaceLaw(t, p, c, o) + locallog.TakenLaw(t, p, o, c, homes)
	}
	forward := p.Duration("forward")
	there := func(r geo.Region) time.Duration {
		to := locallog.ToFirst(t, c, r)
		if to > 0 {
			to += forward
		}
		return to
	}
	inserted := there
	if p.Word("opportunistic") == "true" {
		var last time.Duration
		for _, r := range homes {
			// The time is based on probes, which do not include the forwarder's delay.
			last = max(last, there(r)-forward)
		}
		inserted = func(geo.Region) time.Duration { return last + max(timestampBuffer, forward) }
	}
	return d + p.Duration("batch") + locallog.ReturnLaw(t, locallog.KeepsHomeOnly(p), c, homes, inserted)
}
