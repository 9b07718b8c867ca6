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

// Replicated home logs (the parameter homeLogs). If a single node stores a home log, the loss of that node blocks all
// transactions that need a row of that home. In the papers, the log is replicated inside the region, or also to nearby
// regions. Other nodes receive its entries once a majority has them (Ren 2019, section 4; Nguyen 2023, section 3).
// Here, unless homeLogs is First, each log has its own consensus group. The group's first leader is in the home region;
// later, any member may lead.
//
// The users of a log do not depend on its current leader. A coordinator is a sequencer of the logs of all homes. It
// sends its batches' data to all readers, and requests a position from the leader (package batchlog). It is notified
// whether each of its batches has a position, and repeats requests to the next leader. It puts the transactions of void
// batches into its next batch. No forwarded transaction can therefore be lost with another node. If the coordinator is
// lost, each batch that it has sent either has a position at all nodes or becomes void.
//
// A multi-home transaction must have a position in all its logs or in none. It therefore first gets a position in a
// multi-home order, which is a log like the others. This position alone decides that the transaction executes. Home
// logs do not contain its parts, which a change of leader might lose, duplicate or reorder. They contain the position
// up to which they take the multi-home order (batchlog's streams). At that entry of the log, every reader builds the
// parts for the keys with that home. SLOG has a single multi-home order, which its orderer maintains. Detock has one
// order per region, and a transaction goes to the order of its nearest home, so there is still no global order.

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

// Replicated reports whether, by the parameter homeLogs, consensus groups store the logs.
func Replicated(p protocol.Params) bool { return p.Word(HomeLogsParameter.Name) != logsFirst }

// CheckTopology is an engine's CheckTopology for the parameters homeLogs and batchCopies.
func CheckTopology(t *geo.Topology, p protocol.Params) *protocol.TopologyError {
	if p.Word(HomeLogsParameter.Name) == logsRegions && len(t.Regions) < 3 {
		return &protocol.TopologyError{Field: "spec.regions", Value: fmt.Sprint(len(t.Regions)), Message: "with spec.engine.parameters.homeLogs Regions a log has its members " +
			"in three regions or more, since fewer would survive no more than one: add regions, or choose Local"}
	}
	return batchlog.CheckCopies(t, p)
}

// checkReplicated is the part of Check for the parameters homeLogs and batchCopies.
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

// Members returns the nodes that store the log of a region, the first leader first.
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
		// Stable, so that all nodes choose the same members among regions at equal distance.
		slices.SortStableFunc(others, func(a, b geo.Region) int { return int(t.RTT(home, a) - t.RTT(home, b)) })
		members := []geo.NodeID{first}
		// One member is in the home region.
		for _, r := range others[:logMembers(t)-1] {
			members = append(members, First(t, r))
		}
		return members
	case p.Word(HomeLogsParameter.Name) == logsLocal && t.Partitions*t.Replicas >= 3:
		return []geo.NodeID{first, first + 1, first + 2}
	}
	return []geo.NodeID{first}
}

// logMembers returns the number of members of a log that spans several regions.
func logMembers(t *geo.Topology) int {
	// Three members survive the loss of one region, five the loss of two.
	if len(t.Regions) < 5 {
		return 3
	}
	return 5
}

// Tolerates is an engine's Tolerates. With homeLogs Regions, each member of a log is in another region, and the
// database tolerates the loss of a minority of the members. Otherwise it tolerates the loss of no region. batches is
// the maximum time that a multi-home transaction waits in batches.
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
	// The steps lead to the order's leader and its majority, to the homes' leaders and their majorities, and back. If rows
	// move, a transaction may be sent twice.
	step := 4*rtt + batches
	if p.Int("remaster") > 0 {
		step *= 2
	}
	s.Answers = protocol.InTime(step)
	return s
}

// PlaceLaw returns the time that a batch needs to get a position in the replicated log of region home. It starts when a
// coordinator in region c sends the batch, and ends when the log's leader knows the position.
func PlaceLaw(t *geo.Topology, p protocol.Params, c, home geo.Region) time.Duration {
	return batchlog.PlaceLaw(t, batchlog.Copies(p), c, home, ToFirst(t, c, home)) + batchlog.MajorityLaw(t, Members(t, p, home))
}

// TakenLaw returns the time that a multi-home transaction needs to get from its order to the copies in region c. It
// starts with the position in an order led by region o, and ends when the copies have all parts of the transaction. In
// between, the leaders of the home logs receive the position and include it in their logs, which takes the agreement of
// a majority.
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

// sharedEnv is the environment of a log that shares the node's timers and messages with other logs.
type sharedEnv struct {
	protocol.Env
	log uint64
}

// logShift is the shift of the log number in a timer's Arg; the lower bits hold batch numbers and the groups'
// arguments.
const logShift = 52

// Send implements protocol.Env.
func (e sharedEnv) Send(to geo.NodeID, m protocol.Message) {
	// Only the messages of a consensus group do not name their log.
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

// sentBatch is a batch that has been sent and is not settled.
type sentBatch struct {
	number  uint64
	entries []Entry
}

// settled records that the oldest sent batch has its position or is void. The entries of a void batch go into the batch
// that is being collected.
func (l *Log) settled(_ uint64, void bool) {
	b := l.sent.Front()
	l.sent.Pop()
	if !void {
		return
	}
	l.env.Mark(batchAgain)
	// Add starts the timer for the first entry only; these entries bypass it.
	if len(l.batch) == 0 {
		l.env.After(l.c.Interval, protocol.Timer{Kind: l.c.Timers, Arg: l.number})
	}
	l.batch = append(l.batch, b.entries...)
	if l.c.Sent != nil {
		l.c.Sent(unsent, b.entries)
	}
}

// order is a node's view of a multi-home order. It stores the entries that this node has read and that at least one
// home log does not contain yet.
type order struct {
	log *Log
	// entries holds the entries from number first on. The log of region h takes entry number taken[h] next, and has
	// taken the order up to position upto[h].
	entries []placedEntry
	first   int
	taken   []int
	upto    []uint64
	foreign int // number of entries submitted by clients of other nodes
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
				if e.Remaster { // every partition must read the move
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

// orderMembers returns the nodes that store an order whose first leader is in the given region.
func (n *Node) orderMembers(leader geo.Region) []geo.NodeID {
	return Members(n.Topology, n.c.Params, leader)
}

func (n *Node) copies() int { return batchlog.Copies(n.c.Params) }

// everyPartition appends the numbers of all partitions to groups.
func everyPartition(t *geo.Topology, groups []int) []int {
	for q := range t.Partitions {
		groups = append(groups, q)
	}
	return groups
}

// AddToOrder adds a multi-home transaction of this node's clients, or a remastering, to multi-home order x.
func (n *Node) AddToOrder(x int, e Entry) {
	e.Part, e.LockOnly = true, e.Remaster
	n.orders[x].log.Add(e)
}

// placed stores an entry of an order until all home logs have taken it.
func (n *Node) placed(o *order, e *Entry) {
	o.entries = append(o.entries, placedEntry{o.log.Order.Position(), *e})
	// Transactions of this node's clients are already counted as unanswered.
	if e.Coordinator != n.Self {
		o.foreign++
	}
}

// takeOrder makes the home logs that this node leads take order x up to the last position that this node knows.
func (n *Node) takeOrder(x int) {
	if known := n.orders[x].log.Order.Known(); known > 0 {
		for h := range n.Topology.Regions {
			n.Logs[h].Order.Take(x, known)
		}
	}
}

// led makes the home logs of a new leader take all orders: the previous leader may not have done so.
func (n *Node) led() {
	for x := range n.orders {
		n.takeOrder(x)
	}
}

// advanceHomes continues home logs that have waited for an order to be read.
func (n *Node) advanceHomes() {
	for h := range n.Topology.Regions {
		n.Logs[h].reader.Advance()
	}
}

// take adds the entries of order x before position upto at the current position of home's log, and builds their parts
// for region home. It returns false if this node has not read the order up to upto.
func (n *Node) take(home geo.Region, x int, upto uint64) bool {
	if x >= len(n.orders) {
		return true // the entry is corrupt
	}
	o := n.orders[x]
	if o.log.Order.Position() < upto && !n.c.TakesWhatIsHere {
		return false
	}
	n.takeUpTo(home, x, upto)
	return true
}

// takeUpTo adds to home's log the entries of order x before position upto that the log does not contain yet. This node
// must already have read the order up to upto.
func (n *Node) takeUpTo(home geo.Region, x int, upto uint64) {
	o := n.orders[x]
	o.upto[home] = max(o.upto[home], upto)
	for ; o.taken[home] < o.first+len(o.entries); o.taken[home]++ {
		e := o.entries[o.taken[home]-o.first]
		// Entries beyond upto belong to a later entry of the home log, even if they are known already. All
		// readers must split the order at the same entries.
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

// callsHome reports whether an entry of an order has a part in a region's log for this node's partition.
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

// forget drops the entries that all home logs have taken from an order.
func (n *Node) forget(o *order) {
	k := slices.Min(o.taken) - o.first
	for i := range k {
		if o.entries[i].Coordinator != n.Self {
			o.foreign--
		}
	}
	// The array remains referenced, so its transactions would otherwise stay in memory.
	clear(o.entries[:k])
	o.entries = o.entries[k:]
	o.first += k
}
