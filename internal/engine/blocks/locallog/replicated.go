package locallog

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/batchlog"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Replicated home logs (the parameter homeLogs). A home log that one node keeps stands still with it, and with the log
// all who need a row of that home. The papers replicate it, inside the region or also to others nearby, and others hear
// of its entries once a majority has them (Ren 2019, section 4; Nguyen 2023, section 3). Here each log is then kept by
// a consensus group of its own, whose first leader is at home, and any of its members may lead it after that.
//
// Who then leads a log does not matter to who uses it. A coordinator puts its clients' transactions into the logs of
// their homes itself, as one of the sequencers of each log: it sends their data to all readers, and asks the leader for
// a place, whoever that is (package batchlog). It knows what became of each of its batches, asks the next leader again,
// and puts into its next batch what has become void. So nothing is forwarded that could be lost with a node on the way,
// and what a coordinator has sent when it is lost itself has its place for all or becomes void.
//
// A multi-home transaction has its place in several logs, and must have it in all or in none. So it has one in a
// multi-home order first, a log like the others, and that alone decides that it happens. Home logs do not hold parts of
// it, which a change of leader might lose, double or put into another order. They say up to where they take the
// multi-home order (batchlog's streams), and every reader makes the parts of what calls that region home from that, at
// that place of the log. SLOG has one such order, its orderer's. Detock has one for each region, so that there is still
// no global order: a transaction goes to that of the nearest of its homes.

// Values of the parameter homeLogs.
const (
	logsFirst   = "First"
	logsLocal   = "Local"
	logsRegions = "Regions"
)

// HomeLogsParameter is the parameter homeLogs of engines that embed a Node.
var HomeLogsParameter = protocol.Parameter{
	Name: "homeLogs", Default: logsFirst, OneOf: []string{logsFirst, logsLocal, logsRegions},
	Doc: "Who keeps the log of a region: its first node alone, as in the papers' measurements; Local, three nodes of the region where it has as many; or Regions, its first node " +
		"and those of the nearest other regions, three in all, or five where there are as many regions, so that the log outlives its region.",
}

// Replicated reports whether the parameter homeLogs asks for consensus groups.
func Replicated(p protocol.Params) bool { return p.Word(HomeLogsParameter.Name) != logsFirst }

// CheckTopology is an engine's, of the parameters homeLogs and batchCopies.
func CheckTopology(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	if p.Word(HomeLogsParameter.Name) == logsRegions && len(t.Regions) < 3 {
		return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprint(len(t.Regions)), Message: "with spec.engine.parameters.homeLogs Regions a log has its members " +
			"in three regions or more, since fewer would survive no more than one: add regions, or choose Local"}
	}
	return batchlog.CheckCopies(t, p)
}

// checkReplicated is Check's part of the parameters homeLogs and batchCopies.
func checkReplicated(p protocol.Params) (errs []*protocol.ParamError) {
	if name := batchlog.CopiesParameter.Name; batchlog.Copies(p) > 1 && !Replicated(p) {
		errs = append(errs, &protocol.ParamError{Name: name, Message: fmt.Sprintf("%q is for logs that outlive a node, and with homeLogs First none does: "+
			"make it 1, or choose homeLogs Local or Regions", p[name])})
	}
	if Replicated(p) && KeepsHomeOnly(p) {
		errs = append(errs, &protocol.ParamError{Name: "replication", Message: fmt.Sprintf("%q has each region read no log but its own, and with homeLogs %s all read all: "+
			"make it full, or choose homeLogs First", HomeOnly, p[HomeLogsParameter.Name])})
	}
	return errs
}

// Members returns the nodes that keep the log of a region, the first leader first.
func Members(t *geo.Topology, p protocol.Params, home geo.Region) []geo.NodeID {
	first := First(t, home)
	switch {
	case p.Word(HomeLogsParameter.Name) == logsRegions:
		others := make([]geo.Region, 0, len(t.Regions))
		for r := range t.Regions {
			if r := geo.Region(r); r != home {
				others = append(others, r)
			}
		}
		slices.SortStableFunc(others, func(a, b geo.Region) int { return int(t.RTT(home, a) - t.RTT(home, b)) })
		members := []geo.NodeID{first}
		for _, r := range others[:logMembers(t)-1] {
			members = append(members, First(t, r))
		}
		return members
	case p.Word(HomeLogsParameter.Name) == logsLocal && t.Partitions*t.Replicas >= 3:
		return []geo.NodeID{first, first + 1, first + 2}
	}
	return []geo.NodeID{first}
}

// logMembers is how many members a log has that are in several regions.
func logMembers(t *geo.Topology) int {
	if len(t.Regions) < 5 {
		return 3
	}
	return 5
}

// Tolerates is an engine's Tolerates: with homeLogs Regions a minority of the members of a log, and no region
// otherwise. batches is how long a transaction of several homes waits for others at most.
func Tolerates(t *geo.Topology, p protocol.Params, batches time.Duration) (s protocol.Tolerance) {
	if p.Word(HomeLogsParameter.Name) != logsRegions {
		return s
	}
	for r := range t.Regions {
		s.Regions = append(s.Regions, geo.Region(r))
	}
	s.Most = (logMembers(t) - 1) / 2
	s = batchlog.Bear(s, t, batchlog.Copies(p))
	rtt := t.LongestRTT()
	s.Settles = 4*consensus.DefaultElection + batchlog.Settles(t, p) + 10*rtt
	// To the leader of the order, to its majority, to the leaders of the homes, to theirs, and back. Where rows move, it
	// may be sent again.
	step := 4*rtt + batches
	if p.Int("remaster") > 0 {
		step *= 2
	}
	s.Answers = protocol.InTime(step)
	return s
}

// PlaceLaw is how long after a coordinator in region c has sent a batch for the log of a region, with replicated logs,
// that log's leader knows that it has its place.
func PlaceLaw(t *geo.Topology, p protocol.Params, c, home geo.Region) time.Duration {
	return batchlog.PlaceLaw(t, batchlog.Copies(p), c, home, ToFirst(t, c, home)) + batchlog.MajorityLaw(t, Members(t, p, home))
}

// TakenLaw is the time from the place of a multi-home transaction in an order that is led from region o until the
// copies in region c have all its parts: the leaders of its homes hear of the place, and have their logs take it, which
// takes a majority.
func TakenLaw(t *geo.Topology, p protocol.Params, o, c geo.Region, homes []geo.Region) (d time.Duration) {
	for _, r := range homes {
		there := time.Duration(0)
		if r != o {
			there = t.Links[o][r].Delay
		}
		d = max(d, there+batchlog.MajorityLaw(t, Members(t, p, r))+FromFirst(t, r, c))
	}
	return d
}

// sharedEnv is the world of a log whose timers and group share the node with those of other logs.
type sharedEnv struct {
	protocol.Env
	log uint64
}

// logShift is where a timer's Arg has the number of the log; batches and timers of groups count below.
const logShift = 52

// Send implements protocol.Env.
func (e sharedEnv) Send(to geo.NodeID, m protocol.Message) {
	if g, ok := m.(*consensus.Message); ok {
		m = &OfLog{e.log, g}
	}
	e.Env.Send(to, m)
}

// After implements protocol.Env.
func (e sharedEnv) After(d time.Duration, t protocol.Timer) {
	t.Arg |= e.log << logShift
	e.Env.After(d, t)
}

// sentBatch is a batch that has left.
type sentBatch struct {
	number  uint64
	entries []Entry
}

// settled learns that a batch has its place, or that it is void because this node was cut off for long: then its
// entries go into the batch that is being collected.
func (l *Log) settled(_ uint64, void bool) {
	b := l.sent.Front()
	l.sent.Pop()
	if !void {
		return
	}
	l.env.Mark(batchAgain)
	if len(l.batch) == 0 {
		l.env.After(l.c.Interval, protocol.Timer{Kind: l.c.Timers, Arg: l.number})
	}
	l.batch = append(l.batch, b.entries...)
	if l.c.Sent != nil {
		l.c.Sent(unsent, b.entries)
	}
}

// order is a multi-home order, as far as this node has read it and home logs have not all taken it.
type order struct {
	log *Log
	// entries are those from number first on; taken[h] is the number of the next one that the log of region h takes,
	// upto[h] the position up to which it has taken the order.
	entries []placedEntry
	first   int
	taken   []int
	upto    []uint64
	foreign int // entries of other nodes' clients
}

type placedEntry struct {
	position uint64
	Entry
}

// addOrders adds the multi-home orders of a node with replicated logs.
func (n *Node) addOrders(readers [][]geo.NodeID) {
	t := n.Topology
	for x, leader := range n.c.Orders {
		o := &order{taken: make([]int, len(t.Regions)), upto: make([]uint64, len(t.Regions))}
		n.orders = append(n.orders, o)
		lc := LogConfig{
			Number: uint64(len(n.Logs)), Members: n.orderMembers(leader), Interval: n.c.OrderBatch, Timers: replicatedTimers,
			Readers: readers, Group: t.PartitionOf(n.Self), Replicated: true, Copies: n.copies(), Unfetched: n.c.Unfetched,
			Groups: func(e *Entry, groups []int) []int {
				if e.Remaster { // everybody must know
					return everyPartition(t, groups)
				}
				for i := range e.Txn.Accesses {
					groups = append(groups, n.Placement.Partition(e.Txn.Accesses[i].Key))
				}
				return groups
			},
			Read:    func(e *Entry) { n.placed(o, e) },
			Known:   func() { n.takeOrder(x) },
			HasRead: n.advanceHomes,
		}
		if n.c.Rejoins {
			number := lc.Number
			lc.Mark = func(geo.NodeID, uint32) bool { return n.rejoin.orderMark(x) }
			lc.Marks = func() bool { return n.rejoin.mayMark() }
			lc.Sent = func(batch uint64, entries []Entry) { n.rejoin.sent(number, batch, entries) }
		}
		o.log = NewLog(n.c.Config, lc)
		n.Logs = append(n.Logs, o.log)
	}
}

// orderMembers returns the nodes that keep an order that is led from a region.
func (n *Node) orderMembers(leader geo.Region) []geo.NodeID {
	return Members(n.Topology, n.c.Params, leader)
}

func (n *Node) copies() int { return batchlog.Copies(n.c.Params) }

// everyPartition appends all partitions.
func everyPartition(t *geo.Topology, groups []int) []int {
	for q := range t.Partitions {
		groups = append(groups, q)
	}
	return groups
}

// AddToOrder puts a transaction of this node's clients that has several homes, or a remastering, into a multi-home
// order.
func (n *Node) AddToOrder(x int, e Entry) {
	e.Part, e.LockOnly = true, e.Remaster
	n.orders[x].log.Add(e)
}

// placed takes an entry of an order: home logs will take it.
func (n *Node) placed(o *order, e *Entry) {
	o.entries = append(o.entries, placedEntry{o.log.Order.Position(), *e})
	if e.Coordinator != n.Self {
		o.foreign++
	}
}

// takeOrder has the home logs that this node leads take an order as far as it knows it.
func (n *Node) takeOrder(x int) {
	if known := n.orders[x].log.Order.Known(); known > 0 {
		for h := range n.Topology.Regions {
			n.Logs[h].Order.Take(x, known)
		}
	}
}

// led has a home log take all orders whose leader this node has become: its predecessor may not have come to that.
func (n *Node) led() {
	for x := range n.orders {
		n.takeOrder(x)
	}
}

// advanceHomes goes on with home logs that have waited for an order to be read.
func (n *Node) advanceHomes() {
	for h := range n.Topology.Regions {
		n.Logs[h].reader.Advance()
	}
}

// take takes an order up to a position at the current place of a home log, whose region's parts are made here. It
// reports false while the order has not been read that far.
func (n *Node) take(home geo.Region, x int, upto uint64) bool {
	if x >= len(n.orders) {
		return true // it is corrupt
	}
	o := n.orders[x]
	if o.log.Order.Position() < upto && !n.c.TakesWhatIsHere {
		return false
	}
	n.takeUpTo(home, x, upto)
	return true
}

// takeUpTo takes what a home log has not taken of an order, which has been read up to that position.
func (n *Node) takeUpTo(home geo.Region, x int, upto uint64) {
	o := n.orders[x]
	o.upto[home] = max(o.upto[home], upto)
	for ; o.taken[home] < o.first+len(o.entries); o.taken[home]++ {
		e := o.entries[o.taken[home]-o.first]
		if e.position >= upto && !n.c.TakesWhatIsHere {
			break
		}
		if n.callsHome(&e.Entry, home) {
			n.Env.Mark(partTaken)
			n.parts++
			n.read(home, &e.Entry)
		}
	}
	n.forget(o)
}

// callsHome reports whether an entry of an order has a part in the log of a region, as far as this node's partition is
// concerned.
func (n *Node) callsHome(e *Entry, home geo.Region) bool {
	if e.Remaster {
		return home == e.To || home == n.HomeOf(e, 0)
	}
	q := n.Topology.PartitionOf(n.Self)
	for i := range e.Txn.Accesses {
		if n.HomeOf(e, i) == home && n.Placement.Partition(e.Txn.Accesses[i].Key) == q {
			return true
		}
	}
	return false
}

// forget drops what all home logs have taken of an order.
func (n *Node) forget(o *order) {
	k := slices.Min(o.taken) - o.first
	for i := range k {
		if o.entries[i].Coordinator != n.Self {
			o.foreign--
		}
	}
	clear(o.entries[:k])
	o.entries = o.entries[k:]
	o.first += k
}
