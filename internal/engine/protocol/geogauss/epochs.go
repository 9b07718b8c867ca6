package geogauss

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// epochs are the epochs of all servers, as far as this server has their write sets. It walks along them, up to the
// first incomplete epoch.
type epochs struct {
	r       *Replica
	acks    string // the parameter
	servers []server

	// frontier is the last epoch that is complete here. view is the view that determines the servers that count after it.
	frontier, view uint64
	// base and baseView are the same of the last epoch that is merged.
	base, baseView uint64
	// ready are the complete epochs after base, up to frontier.
	ready []segment
	// wanted is the last epoch in which this server knows of write sets. filled is the last such epoch that is merged.
	wanted, filled uint64
	// awaited is the server whose epochs the walk lacks since a time, or nobody.
	awaited geo.NodeID
	since   time.Duration

	kept     int // bytes of what servers keep for others
	passedOn int64
	arrivals map[*WriteSet]int // the order in which write sets have arrived, for a faulty variant
}

// server is the state of another server.
type server struct {
	// open are write sets of the epoch that is not over.
	open []*WriteSet
	// log are its closed epochs, without gaps after the merged epochs; the last one ends at ended.
	log   []*Closed
	ended uint64
	since time.Duration // when ended has moved
	// completed is the last epoch that is complete there, as of a view.
	completed, completedView uint64
	// tenures are the times for which it is a member, ascending.
	tenures []tenure
	// limited reports that epochs after limit must not count in this view.
	limited bool
	limit   uint64
	// passedOn are, by server, the last of the epochs that were passed on to it. Links lose nothing, so no more requests
	// are needed for these, however many a link has held back.
	passedOn []uint64
	// incarnation is the server's latest known incarnation. settled is the latest incarnation that the group has agreed
	// on, from a view on. Epochs of earlier incarnations count up to boundary; its own epochs follow.
	incarnation, settled uint32
	// counted is the last epoch that is merged here in which it may have counted.
	counted        uint64
	from, boundary uint64
}

// segment is a sequence of epochs that end together: all counting members have ended them, and have write sets only in
// the last.
type segment struct {
	end  uint64
	view uint64    // after it
	sets []*Closed // with write sets, by server
}

// nobody stands for no server.
const nobody = ^geo.NodeID(0)

// keepBytes bounds the merged epochs that a server keeps for servers that lack them. The bound matters when a server is
// lost, since it completes no epochs. A server that was disconnected from the lost server's last epochs must request
// them before they are discarded.
const keepBytes = 64 << 20

func (e *epochs) init(r *Replica, p protocol.Params) {
	e.r, e.acks, e.awaited = r, p.Word("acks"), nobody
	e.servers = make([]server, r.nodes)
	for i := range e.servers {
		e.servers[i].tenures = []tenure{{0, forever}}
	}
	e.arrivals = map[*WriteSet]int{}
}

// want notes that there are write sets in an epoch.
func (e *epochs) want(epoch uint64) {
	e.wanted = max(e.wanted, epoch)
	e.r.local.active = e.r.env.Now()
}

// busy reports whether an epoch with write sets is not merged.
func (e *epochs) busy() bool { return e.base < e.wanted }

// receive takes a write set from its server.
func (e *epochs) receive(from geo.NodeID, m *WriteSet) {
	s := &e.servers[from]
	e.want(m.Epoch)
	if e.r.wrong == arrivalOrder {
		e.arrivals[m] = len(e.arrivals)
	}
	s.open = append(s.open, m)
}

// end takes the end of an epoch from its server.
func (e *epochs) end(from geo.NodeID, m *End) {
	s := &e.servers[from]
	sets := s.open
	s.open = nil
	if e.wanted = max(e.wanted, m.Wanted); m.Busy {
		e.r.local.active = e.r.env.Now()
	}
	e.completed(from, m.View, m.Complete)
	if uint64(len(sets)) == m.Count {
		e.put(&Closed{Server: from, Epoch: m.Epoch, After: m.After, View: m.View, Sets: sets})
	}
}

// completed learns that a server has all write sets up to an epoch.
func (e *epochs) completed(from geo.NodeID, view, epoch uint64) {
	s := &e.servers[from]
	if view > s.completedView || view == s.completedView && epoch > s.completed {
		s.completed, s.completedView = epoch, view
	}
}

// put adds epochs of a server that follow its epochs here, or all epochs that are merged here. The latter is possible
// since no server may keep the epochs that a server ended while it did not count. The epochs are sent by the server
// itself, by a server that passes them on, or with the server's departure.
func (e *epochs) put(c *Closed) {
	if int(c.Server) >= e.r.nodes {
		return
	}
	s := &e.servers[c.Server]
	if e.r.replace.lacking {
		e.anchor(s, c)
	}
	if c.After != s.ended && (c.After < s.ended || c.After > e.base) || c.Epoch <= s.ended || s.predecessors(c) {
		e.r.env.Mark(epochRepeated)
		return // they are here, or there is a gap that will be asked for
	}
	s.log = append(s.log, c)
	s.ended, s.since = c.Epoch, e.r.env.Now()
	e.kept += keptSize(c)
	if len(c.Sets) > 0 {
		e.want(c.Epoch)
	}
}

// keptSize is about what an epoch takes in memory.
func keptSize(c *Closed) int {
	const each = 100
	n := each
	for _, s := range c.Sets {
		n += each + s.Size()
	}
	return n
}

// find returns the server's entry that contains an epoch, or nil.
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
	if i == len(s.log) || s.limited && s.log[i].Epoch > s.limit {
		return nil
	}
	return s.log[i]
}

// walk finds the epochs that have become complete, and notifies the other servers if they contain write sets.
func (e *epochs) walk() {
	news := false
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

// declare acknowledges the epochs that are complete.
func (e *epochs) declare() {
	if e.acks == acksNone {
		return
	}
	m := &Completion{e.r.members.view, e.frontier}
	e.r.others(func(n geo.NodeID) { e.r.env.Send(n, m) })
}

// next returns the epochs after the frontier that end together, if they are complete. They last until the first
// counting member has write sets, or has announced an end. A membership change counts after epochs at whose end all
// these members know the change.
func (e *epochs) next() (g segment, complete bool) {
	first := e.frontier + 1
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
	g.view = max(g.view, e.view)
	for n := range e.servers {
		if c := e.servers[n].find(first); c != nil && c.Epoch == g.end && len(c.Sets) > 0 && e.counts(geo.NodeID(n), first) {
			g.sets = append(g.sets, c)
		}
	}
	e.await(nobody)
	return g, true
}

// resume moves the walk to the first view in which a server counts, if none counts now: all members have left. No end
// of a member can report that it knows the servers that have joined again. Since no server counts before that view, no
// server merges the epoch before it.
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

// await notes which server's epochs the walk lacks.
func (e *epochs) await(n geo.NodeID) {
	if n == nobody || n != e.awaited {
		e.since = e.r.env.Now()
	}
	e.awaited = n
}

// counts reports whether a server's write sets of an epoch count, in the view at the frontier.
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

// rewind walks again from the last epoch that is merged, since the membership has changed.
func (e *epochs) rewind() {
	if len(e.ready) > 0 {
		e.r.env.Mark(rewound)
	}
	e.frontier, e.view, e.ready, e.awaited = e.base, e.baseView, nil, nobody
}

// acknowledged reports whether the epochs of a segment, which are complete here, may be merged.
func (e *epochs) acknowledged(g *segment) bool {
	if e.acks == acksNone {
		return true
	}
	view, have := e.r.members.view, 0
	for n := range e.servers {
		s := &e.servers[n]
		if geo.NodeID(n) == e.r.self || s.completedView == view && s.completed >= g.end {
			have++
		} else if e.acks == acksAll && s.current() {
			return false
		}
	}
	return have > e.r.nodes/2
}

// current reports whether the server is currently a member, according to the known changes.
func (s *server) current() bool { return s.tenures[len(s.tenures)-1].last == forever }

// requested passes on a server's epochs to a server that lacks them.
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
				return // the earlier epochs are discarded, and the later ones are useless without them
			}
			e.uncounted(from, m.Server, after, c.After)
		}
		e.passedOn++
		e.r.env.Mark(epochPassedOn)
		after = c.Epoch
		s.passedOn[from] = after
		e.r.env.Send(from, c)
	}
	if last := min(s.ended, e.base); len(s.log) == 0 && s.counted <= after && after < last {
		e.uncounted(from, m.Server, after, last)
	}
}

// uncounted passes on an empty epoch in place of discarded epochs of a server that did not count.
func (e *epochs) uncounted(to, server geo.NodeID, after, epoch uint64) {
	e.r.env.Send(to, &Closed{Server: server, Epoch: epoch, After: after, View: e.servers[server].from})
}

// has returns the epoch up to which this server has another server's epochs, as far as they matter here.
func (e *epochs) has(n geo.NodeID) uint64 { return max(e.servers[n].ended, e.base) }

// collect discards merged epochs that all servers have, and the oldest epochs if there are too many. A server has the
// epochs that it has declared complete in this view. A declaration in an earlier view means less: a server that has
// joined since then may count in epochs that were complete without it. That happens if another server, which did not
// know of the joining, leaves.
func (e *epochs) collect() {
	low := e.base
	for n := range e.servers {
		switch s := &e.servers[n]; {
		case geo.NodeID(n) == e.r.self:
		case s.completedView != e.r.members.view:
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
	for e.kept > keepBytes && e.r.replace.sender.Idle() {
		var oldest *server
		for n := range e.servers {
			s := &e.servers[n]
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

// forget forgets the oldest of a server's epochs.
func (e *epochs) forget(s *server) {
	e.kept -= keptSize(s.log[0])
	s.log[0] = nil
	s.log = s.log[1:]
}
