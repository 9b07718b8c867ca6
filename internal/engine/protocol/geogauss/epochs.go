package geogauss

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// epochs holds the epochs of all servers that this server has received. walk advances over them, up to the first
// incomplete epoch.
type epochs struct {
	r       *Replica
	acks    string // the parameter
	servers []server

	// frontier is the last epoch that is complete here. view determines the servers that count in later epochs.
	frontier, view uint64
	// base is the last merged epoch, and baseView the view after it.
	base, baseView uint64
	// ready are the complete epochs after base, up to frontier.
	ready []segment
	// wanted is the last epoch with write sets that this server knows of. filled is the last merged epoch with write sets.
	wanted, filled uint64
	// awaited is the server with the first missing epoch, or nobody if no epoch is missing. since is the time at which the
	// wait for that server started.
	awaited geo.NodeID
	since   time.Duration

	kept     int // approximate bytes of all logs
	passedOn int64
	arrivals map[*WriteSet]int // the order in which write sets have arrived, for the faulty variant arrivalOrder
}

// server is this server's knowledge about one server, which may be itself.
type server struct {
	// open are the received write sets of the server's running epoch.
	open []*WriteSet
	// log holds the server's ended epochs, without gaps after the merged epochs. ended is the last ended epoch.
	log   []*Closed
	ended uint64
	since time.Duration // time when ended last advanced
	// completed is the last epoch that the server has declared complete, in view completedView.
	completed, completedView uint64
	// tenures are the intervals of epochs in which the server is a member, ascending.
	tenures []tenure
	// limited is set if epochs after limit must not count in this view.
	limited bool
	limit   uint64
	// passedOn[n] is the last of the server's epochs that were passed on to server n. Links lose nothing, so these epochs
	// need not be sent again, however long a link delays them.
	passedOn []uint64
	// incarnation is the latest known incarnation of the server. settled is the latest incarnation that the group has
	// agreed on. Epochs of earlier incarnations count up to epoch boundary. Later epochs count only if they belong to the
	// settled incarnation, which starts in view from.
	incarnation, settled uint32
	// counted is the last merged epoch in which the server's write sets may have counted.
	counted        uint64
	from, boundary uint64
}

// segment is a sequence of epochs that are merged together. Every counting member has ended these epochs, and only the
// last of the epochs may have write sets.
type segment struct {
	end  uint64
	view uint64    // view after the segment
	sets []*Closed // the epochs with write sets, by server
}

// nobody stands for the absence of a server.
const nobody = ^geo.NodeID(0)

// keepBytes bounds the merged epochs that a server keeps for servers that have not received them. The bound matters
// after a server is lost, since a lost server completes no epochs. A server that is missing epochs of the lost server
// must request them before they are discarded.
const keepBytes = 64 << 20

func (e *epochs) init(r *Replica, p protocol.Params) {
	e.r, e.acks, e.awaited = r, p.Word("acks"), nobody
	e.servers = make([]server, r.nodes)
	for i := range e.servers {
		// All servers are members from view 0 on.
		e.servers[i].tenures = []tenure{{0, forever}}
	}
	e.arrivals = map[*WriteSet]int{}
}

// want records that an epoch has write sets.
func (e *epochs) want(epoch uint64) {
	e.wanted = max(e.wanted, epoch)
	e.r.local.active = e.r.env.Now()
}

// busy reports whether an epoch with write sets has not been merged.
func (e *epochs) busy() bool { return e.base < e.wanted }

// receive handles a write set from the server that has executed it.
func (e *epochs) receive(from geo.NodeID, m *WriteSet) {
	s := &e.servers[from]
	// This server must end the epoch, too, even without write sets of its own: busy is true until the epoch is merged.
	e.want(m.Epoch)
	if e.r.wrong == arrivalOrder {
		e.arrivals[m] = len(e.arrivals)
	}
	s.open = append(s.open, m)
}

// end handles a server's announcement that one of its epochs has ended.
func (e *epochs) end(from geo.NodeID, m *End) {
	s := &e.servers[from]
	sets := s.open
	s.open = nil
	// The sender may know of write sets that have not arrived here. It waits for this server's epochs up to Wanted.
	if e.wanted = max(e.wanted, m.Wanted); m.Busy {
		e.r.local.active = e.r.env.Now()
	}
	// End also declares epochs complete, so walk sends no separate declaration for segments without write sets.
	e.completed(from, m.View, m.Complete)
	// Without all its write sets the epoch stays missing here, and is requested from other servers.
	if uint64(len(sets)) == m.Count {
		e.put(&Closed{Server: from, Epoch: m.Epoch, After: m.After, View: m.View, Sets: sets})
	}
}

// completed records that a server has declared all epochs up to epoch complete in a view.
func (e *epochs) completed(from geo.NodeID, view, epoch uint64) {
	s := &e.servers[from]
	// A new view may move the frontier back (rewind), so the later view prevails, whatever its epoch.
	if view > s.completedView || view == s.completedView && epoch > s.completed {
		s.completed, s.completedView = epoch, view
	}
}

// put appends an epoch to its server's log. The epoch must follow the last received epoch of that server, or follow
// only merged epochs. All servers may have discarded epochs in which that server did not count.
//
// The epoch arrives from its server, from a server that passes it on, or with the server's departure.
func (e *epochs) put(c *Closed) {
	// The decoder accepts any node number, because it does not know how many servers there are.
	if int(c.Server) >= e.r.nodes {
		return
	}
	s := &e.servers[c.Server]
	if e.r.replace.lacking {
		e.anchor(s, c)
	}
	if c.After != s.ended && (c.After < s.ended || c.After > e.base) || c.Epoch <= s.ended || s.predecessors(c) {
		e.r.env.Mark(epochRepeated)
		return // a repetition, or a gap: the missing epochs will be requested
	}
	s.log = append(s.log, c)
	s.ended, s.since = c.Epoch, e.r.env.Now()
	e.kept += keptSize(c)
	// An epoch that is passed on may be the first message about its write sets.
	if len(c.Sets) > 0 {
		e.want(c.Epoch)
	}
}

// keptSize returns the approximate size of an epoch in memory, in bytes.
func keptSize(c *Closed) int {
	// each is the assumed overhead in memory of an epoch or a write set, in bytes.
	const each = 100
	n := each
	for _, s := range c.Sets {
		n += each + s.Size()
	}
	return n
}

// find returns the server's log entry that contains an epoch, or nil if the epoch is missing or must not count.
func (s *server) find(epoch uint64) *Closed {
	i, _ := slices.BinarySearchFunc(s.log, epoch, func(c *Closed, epoch uint64) int {
		switch {
		case c.Epoch < epoch:
			return -1
		case c.Epoch > epoch:
			return 1
		}
		return 0
	})
	// This server has reported limit to the leader, and must not count epochs that have arrived afterwards.
	if i == len(s.log) || s.limited && s.log[i].Epoch > s.limit {
		return nil
	}
	return s.log[i]
}

// walk advances the frontier over the epochs that have become complete. It declares them complete to the other servers
// if they contain write sets.
func (e *epochs) walk() {
	news := false
	// A segment may end in a view that this server does not know yet. The next segment's members are unknown until then.
	for e.view <= e.r.members.view {
		g, complete := e.next()
		if !complete {
			break
		}
		e.ready = append(e.ready, g)
		e.frontier, e.view = g.end, g.view
		news = news || len(g.sets) > 0
	}
	if news || e.r.members.redeclare {
		e.declare()
	}
	e.r.members.redeclare = false
}

// declare notifies the other servers that all epochs up to the frontier are complete here.
func (e *epochs) declare() {
	// With acks: None, no server waits for declarations.
	if e.acks == acksNone {
		return
	}
	m := &Completion{e.r.members.view, e.frontier}
	e.r.others(func(n geo.NodeID) { e.r.env.Send(n, m) })
}

// next returns the segment after the frontier, if it is complete. The segment ends with the first epoch in which a
// counting member has write sets or has announced an end. A membership change takes effect after a segment at whose end
// all counting members know the change.
func (e *epochs) next() (g segment, complete bool) {
	first := e.frontier + 1
	// As long as the awaited epoch is missing, a full search would fail at the same server.
	if e.awaited != nobody && e.servers[e.awaited].find(first) == nil && e.counts(e.awaited, first) && e.r.wrong != earlyMerge {
		return g, false
	}
	g.end, g.view = forever, forever
	missing, members := 0, 0
	for n := range e.servers {
		if !e.counts(geo.NodeID(n), first) {
			continue
		}
		members++
		c := e.servers[n].find(first)
		if c == nil {
			if missing++; e.r.wrong == earlyMerge && missing <= (e.r.nodes-1)/2 && geo.NodeID(n) != e.r.self {
				continue
			}
			e.await(geo.NodeID(n))
			return g, false
		}
		// Only changes that all members knew when they ended these epochs take effect after the segment.
		g.end, g.view = min(g.end, c.Epoch), min(g.view, c.View)
	}
	if members == 0 && e.resume(first) {
		e.r.env.Mark(walkResumed)
		return e.next()
	}
	if members == 0 || g.end == forever {
		e.await(nobody)
		return g, false
	}
	// A member may end an epoch before it learns of a view that earlier End messages have reported. The view never goes
	// back.
	g.view = max(g.view, e.view)
	for n := range e.servers {
		// Only an entry that ends with the segment may contain write sets of it; longer entries are empty up to the
		// segment's end.
		if c := e.servers[n].find(first); c != nil && c.Epoch == g.end && len(c.Sets) > 0 && e.counts(geo.NodeID(n), first) {
			g.sets = append(g.sets, c)
		}
	}
	e.await(nobody)
	return g, true
}

// resume applies if all members have left: it moves the walk to the first later view in which a server counts. Without
// members, no End message can report that its sender knows of the servers that have joined again. No server merges an
// epoch before that view, because no server counts there.
func (e *epochs) resume(epoch uint64) bool {
	view := uint64(forever)
	for n := range e.servers {
		for _, t := range e.servers[n].tenures {
			if t.from > e.view && epoch <= t.last {
				view = min(view, t.from)
			}
		}
	}
	if view == forever {
		return false
	}
	e.view = view
	return true
}

// await records the server with the first missing epoch.
func (e *epochs) await(n geo.NodeID) {
	// While the same server is awaited, since does not change. The awaited server's progress is recorded in server.since,
	// which suspect also considers.
	if n == nobody || n != e.awaited {
		e.since = e.r.env.Now()
	}
	e.awaited = n
}

// counts reports whether a server's write sets of an epoch count in the view at the frontier.
func (e *epochs) counts(n geo.NodeID, epoch uint64) bool {
	return e.servers[n].counts(e.view, epoch)
}

func (s *server) counts(view, epoch uint64) bool {
	for _, t := range s.tenures {
		if t.from <= view && epoch <= t.last {
			return true
		}
	}
	return false
}

// rewind restarts the walk at the last merged epoch after a membership change.
func (e *epochs) rewind() {
	if len(e.ready) > 0 {
		e.r.env.Mark(rewound)
	}
	// Unmerged segments may include epochs of a server that no longer count.
	e.frontier, e.view, e.ready, e.awaited = e.base, e.baseView, nil, nobody
}

// acknowledged reports whether a segment, which is complete here, has the acknowledgements that parameter acks
// requires.
func (e *epochs) acknowledged(g *segment) bool {
	if e.acks == acksNone {
		return true
	}
	view, have := e.r.members.view, 0
	for n := range e.servers {
		s := &e.servers[n]
		// This server sends no declarations to itself. A declaration of an earlier view no longer counts.
		if geo.NodeID(n) == e.r.self || s.completedView == view && s.completed >= g.end {
			have++
		} else if e.acks == acksAll && s.current() {
			return false
		}
	}
	// A majority has received the segment, so it survives the loss of a minority.
	return have > e.r.nodes/2
}

// current reports whether the server is a member after all known membership changes.
func (s *server) current() bool { return s.tenures[len(s.tenures)-1].last == forever }

// requested sends a server's epochs to a server that is missing them.
func (e *epochs) requested(from geo.NodeID, m *Request) {
	if int(m.Server) >= e.r.nodes || e.r.replace.lacking {
		return
	}
	s := &e.servers[m.Server]
	if s.passedOn == nil {
		s.passedOn = make([]uint64, e.r.nodes)
	}
	after := m.After
	if s.settled == 0 || after > s.boundary {
		after = max(after, s.passedOn[from])
		// A request from before the boundary does not skip epochs that were passed on. The requester may have refused them,
		// since it did not know how many of the predecessor's epochs precede them.
	}
	for _, c := range s.log {
		if c.Epoch <= after {
			continue
		}
		if c.After > after {
			if after < s.counted || c.After > e.base {
				return // the earlier epochs were discarded, and the later ones are useless without them
			}
			e.uncounted(from, m.Server, after, c.After)
		}
		e.passedOn++
		e.r.env.Mark(epochPassedOn)
		after = c.Epoch
		s.passedOn[from] = after
		e.r.env.Send(from, c)
	}
	// The server's later epochs are discarded and did not count, so the requester can continue after them.
	if last := min(s.ended, e.base); len(s.log) == 0 && s.counted <= after && after < last {
		e.uncounted(from, m.Server, after, last)
	}
}

// uncounted sends an empty epoch in place of the discarded epochs of a server that did not count.
func (e *epochs) uncounted(to, server geo.NodeID, after, epoch uint64) {
	e.r.env.Send(to, &Closed{Server: server, Epoch: epoch, After: after, View: e.servers[server].from})
}

// has returns the last epoch of server n that this server has received or no longer needs.
func (e *epochs) has(n geo.NodeID) uint64 { return max(e.servers[n].ended, e.base) }

// collect discards merged epochs that all servers have received. Beyond keepBytes, it also discards the oldest merged
// epochs.
//
// A server has received the epochs that it has declared complete in the current view. A declaration in an earlier view
// means less. A server that has joined since then may count in epochs that were complete without its write sets. That
// happens if another server leaves before it has learned of the join.
func (e *epochs) collect() {
	low := e.base
	for n := range e.servers {
		switch s := &e.servers[n]; {
		case geo.NodeID(n) == e.r.self:
		case s.completedView != e.r.members.view:
			// The server has declared nothing in the current view, so all epochs are kept for it.
			low = 0
		default:
			low = min(low, s.completed)
		}
	}
	for n := range e.servers {
		s := &e.servers[n]
		for len(s.log) > 0 && s.log[0].Epoch <= low {
			e.forget(s)
		}
	}
	// A new incarnation that is receiving the state needs the epochs that follow it, so the bound does not apply yet.
	for e.kept > keepBytes && e.r.replace.sender.Idle() {
		var oldest *server
		for n := range e.servers {
			s := &e.servers[n]
			// Epochs after base are still needed for the merge here.
			if len(s.log) > 0 && s.log[0].Epoch <= e.base && (oldest == nil || s.log[0].Epoch < oldest.log[0].Epoch) {
				oldest = s
			}
		}
		if oldest == nil {
			return
		}
		e.forget(oldest)
	}
}

// forget discards the oldest epoch of a server.
func (e *epochs) forget(s *server) {
	e.kept -= keptSize(s.log[0])
	// Otherwise the backing array would keep the epoch in memory.
	s.log[0] = nil
	s.log = s.log[1:]
}
