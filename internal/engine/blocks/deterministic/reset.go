package deterministic

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Resets restores a copy after one of its nodes has lost its state. The copy receives the rows of another copy. Resets
// is for engines that put all transactions into one order.
//
// The partitions of a copy send each other their reads once, and no node stores them. So the pending reads to and from
// the lost node are lost with it. Therefore its whole copy restarts at a place in the order on which all nodes agree:
// the mark of the new incarnation.
//
// The nodes of another copy, the donor, reach the mark and run nothing after it until all transactions before it have
// finished there. Then they send their rows to the nodes of their partitions in the restarting copy, and continue. The
// nodes of that copy stop at the mark, discard all executed and pending transactions, and continue after the mark with
// the received rows. They never execute what was ordered before the mark, so they cannot report those outcomes to their
// clients.
//
// No other node may be lost before all nodes have reached and passed the mark: see FullyReplicated.
type Resets struct {
	c            ResetConfig
	incarnations []uint32   // of the nodes, as reported to this one
	passed       [][]uint32 // passed[by][of] is the last incarnation of node of whose mark node by reports to have passed
	telling      bool       // this node may have passed a mark that it has not reported

	// lacking says that this is a new incarnation without rows, waiting that this node stands at the mark at place at.
	lacking, waiting bool
	at               uint64
	restored         uint64 // the place of the mark from whose rows this node has continued, plus one
	receiver         statetransfer.Receiver
	came             *copyState // received and not in use yet

	// draining means that the reader waits for the transactions before a mark to finish. owed holds the rows that other
	// nodes wait for.
	draining bool
	owed     []*owedState
	sender   *statetransfer.Sender
	sent     uint64 // states
	ticking  bool   // a timer is set
}

// ResetConfig describes what Resets are part of.
type ResetConfig struct {
	protocol.Config
	Layout   geo.Layout
	Executor *Executor
	// Passed returns the last incarnation of a node that has its mark passed by this node. For this node itself, it does
	// so once the node needs nothing more that went to its predecessor.
	Passed func(n geo.NodeID) uint32
	// Append appends the state of a donor node at the mark, except its rows. Ready reports whether this node can continue
	// at a place for which it has the rows. Begin then continues there: when it returns, the node's reader is at the mark
	// of that place.
	Append func(b []byte) []byte
	Ready  func(place uint64, r codec.Reader) bool
	Begin  func(place uint64, r *codec.Reader)
	// Forget discards what is ordered before the reader's current place: the executor has discarded it.
	Forget func(place uint64)
	// Advance has the reader go on.
	Advance func()
	// PieceTimer and AgainTimer are the kinds of timers that the engine hands to Fire.
	PieceTimer, AgainTimer uint8
}

// copyState is the state received from a donor: the rows as of a place.
type copyState struct {
	place uint64
	rest  codec.Reader
}

// owedState is the state that a node must receive whose copy restarts at the mark of a node's incarnation.
type owedState struct {
	to, node    geo.NodeID
	incarnation uint32
	data        []byte
	arrived     bool
}

// ReasonReset is the reason of an unknown outcome: a node of the coordinator's copy has lost its state, and the copy
// has restarted after the transaction.
const ReasonReset = "copy-begins-anew"

// againEvery is the interval at which a donor checks whether it must resend a state that was lost on the way.
const againEvery = time.Second

// NewResets returns the resets of a node.
func NewResets(c ResetConfig) *Resets {
	nodes := c.Topology.Nodes()
	s := &Resets{c: c, incarnations: make([]uint32, nodes), passed: make([][]uint32, nodes), lacking: c.Incarnation > 0}
	s.incarnations[c.Self] = c.Incarnation
	s.telling = s.lacking
	s.sender = statetransfer.NewSender(c.Env, c.PieceTimer)
	return s
}

// Lacking reports whether this is a new incarnation that has no rows yet.
func (s *Resets) Lacking() bool { return s.lacking }

// Pending is 1 while this node waits for rows.
func (s *Resets) Pending() int {
	if s.lacking || s.waiting {
		return 1
	}
	return 0
}

// donor returns the copy that sends its rows to another copy: the copy of the same number in the nearest other region.
func (s *Resets) donor(copyNumber int) int {
	t := s.c.Topology
	region, k := geo.Region(copyNumber/t.Replicas), copyNumber%t.Replicas
	nearest := region
	for r := range geo.Region(len(t.Regions)) {
		if r != region && (nearest == region || t.RTT(region, r) < t.RTT(region, nearest)) {
			nearest = r
		}
	}
	return int(nearest)*t.Replicas + k
}

// Mark takes the mark of a node's incarnation, at a place in the order: see batchlog.ReaderConfig.
func (s *Resets) Mark(n geo.NodeID, incarnation uint32, place uint64) (passes bool) {
	own, of := s.c.Layout.CopyOf(s.c.Self), s.c.Layout.CopyOf(n)
	switch own {
	case of:
		passes = s.reset(n, incarnation, place)
	case s.donor(of):
		passes = s.give(n, incarnation, place, s.c.Layout.Node(of, s.c.Layout.ShardOf(s.c.Self)))
	default:
		passes = true
	}
	s.telling = s.telling || passes
	return passes
}

// reset restarts this node at a place. It waits until it has the rows of that place or a later one, and until its
// messages reach the new incarnations of its copy.
func (s *Resets) reset(n geo.NodeID, incarnation uint32, place uint64) (passes bool) {
	if s.restored != place+1 {
		if !s.waiting || s.at != place {
			s.c.Env.Mark(copyReset)
			s.waiting = true
			s.forget(place)
		}
		if !s.begin() || s.at != place {
			return false
		}
	}
	if incarnation > s.incarnations[n] || s.early() {
		s.c.Env.Mark(copyEarly)
		return false
	}
	s.waiting, s.lacking = false, false
	return true
}

// forget discards what is ordered before a place.
func (s *Resets) forget(place uint64) {
	s.at = place
	s.c.Executor.Reset(place)
	s.c.Forget(place)
}

// early reports whether this node has passed the mark of a new incarnation of its copy before it was notified of the
// incarnation.
func (s *Resets) early() bool {
	for q := range s.c.Layout.Shards() {
		if n := s.c.Layout.Node(s.c.Layout.CopyOf(s.c.Self), q); s.c.Passed(n) > s.incarnations[n] {
			return true
		}
	}
	return false
}

// begin continues with the received rows, if they are of the node's current place or a later one.
func (s *Resets) begin() bool {
	if s.came == nil {
		return false
	}
	if s.came.place < s.at {
		s.c.Env.Mark(copyOutdated)
		s.came = nil
		return false
	}
	if !s.c.Ready(s.came.place, s.came.rest) {
		return false
	}
	if s.came.place > s.at {
		s.c.Env.Mark(copyLater)
	}
	place, rest := s.came.place, s.came.rest
	s.came, s.telling, s.restored = nil, true, place+1
	s.c.Begin(place, &rest)
	s.c.Store.(*store.Hash).Replace(statetransfer.ReadRows(&rest))
	if s.at < place {
		s.forget(place)
	}
	return true
}

// give copies the rows of this node for a node of a copy that restarts here, once all earlier transactions have
// finished.
func (s *Resets) give(n geo.NodeID, incarnation uint32, place uint64, to geo.NodeID) (passes bool) {
	if s.draining = !s.c.Executor.Idle(); s.draining {
		s.c.Env.Mark(copyDrained)
		return false
	}
	s.owed = slices.DeleteFunc(s.owed, func(o *owedState) bool { return o.to == to })
	o := &owedState{to: to, node: n, incarnation: incarnation}
	o.data = statetransfer.AppendRows(s.c.Append(codec.AppendUvarint(nil, place)), store.Placed(s.c.Store))
	s.owed = append(s.owed, o)
	s.send(o)
	s.later()
	return true
}

func (s *Resets) send(o *owedState) {
	s.sent++
	s.sender.Send(o.to, s.sent, o.data)
}

func (s *Resets) later() {
	if !s.ticking && len(s.owed) > 0 {
		s.ticking = true
		s.c.Env.After(againEvery, protocol.Timer{Kind: s.c.AgainTimer})
	}
}

// Receive handles a message of the resets, and reports whether it was one.
func (s *Resets) Receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *statetransfer.Piece:
		if _, data, whole := s.receiver.Receive(s.c.Env, from, m); whole {
			r := codec.NewReader(data)
			if place := r.Uvarint(); place >= s.restored {
				s.came = &copyState{place, r}
				s.c.Advance()
			}
		}
	case *statetransfer.Ack:
		busy := s.sender.Busy(from)
		s.sender.Receive(from, m)
		if busy && !s.sender.Busy(from) && !m.Damaged {
			for _, o := range s.owed {
				o.arrived = o.arrived || o.to == from
			}
		}
	case *Passed:
		for _, p := range m.Marks {
			if int(p.Node) < len(s.passed) { // or it is corrupt
				s.note(from, p.Node, p.Incarnation)
			}
		}
		s.owed = slices.DeleteFunc(s.owed, func(o *owedState) bool { return o.to == from && s.has(from, o.node) >= o.incarnation })
	default:
		return false
	}
	return true
}

// has returns the last incarnation of node of whose mark node by has passed.
func (s *Resets) has(by, of geo.NodeID) uint32 {
	if s.passed[by] == nil {
		return 0
	}
	return s.passed[by][of]
}

func (s *Resets) note(by, of geo.NodeID, incarnation uint32) {
	if s.passed[by] == nil {
		s.passed[by] = make([]uint32, len(s.passed))
	}
	s.passed[by][of] = max(s.passed[by][of], incarnation)
}

// Fire takes a timer of the resets.
func (s *Resets) Fire(t protocol.Timer) {
	if t.Kind == s.c.PieceTimer {
		s.sender.Fire()
		return
	}
	s.ticking = false
	for _, o := range s.owed {
		if !o.arrived && !s.sender.Busy(o.to) {
			s.c.Env.Mark(copySentAgain)
			s.send(o)
		}
	}
	s.later()
}

// Replaced records that a node has lost its state: see protocol.Rejoiner.
func (s *Resets) Replaced(n geo.NodeID, incarnation uint32) {
	s.incarnations[n], s.passed[n] = incarnation, nil
	s.sender.Cancel(n)
	for _, o := range s.owed {
		if o.to == n {
			o.arrived = false
			s.send(o)
		}
	}
	if m := s.marks(); len(m.Marks) > 0 {
		s.c.Env.Send(n, m)
	}
	s.c.Advance()
}

// marks returns the marks that this node has passed.
func (s *Resets) marks() *Passed {
	m := &Passed{}
	for n := range geo.NodeID(len(s.incarnations)) {
		if i := s.c.Passed(n); i > 0 {
			m.Marks = append(m.Marks, PassedMark{n, i})
		}
	}
	return m
}

// Flush continues where a step has made that possible, and reports this node's progress to the other nodes. An engine
// calls it at the end of each step, before the executor's Flush.
func (s *Resets) Flush() {
	if s.draining && s.c.Executor.Idle() {
		s.draining = false
		s.c.Advance()
	}
	if !s.telling {
		return
	}
	// A new incarnation has caught up some time after its mark.
	s.telling = s.c.Passed(s.c.Self) < s.incarnations[s.c.Self]
	told := false
	for _, p := range s.marks().Marks {
		told = told || s.has(s.c.Self, p.Node) < p.Incarnation
		s.note(s.c.Self, p.Node, p.Incarnation)
	}
	if told {
		m := s.marks()
		for n := range geo.NodeID(len(s.incarnations)) {
			if n != s.c.Self {
				s.c.Env.Send(n, m)
			}
		}
	}
}

// FullyReplicated reports whether all nodes have passed the marks of all new incarnations that this node knows of. Then
// their copies have their rows, and no node still needs data that only the lost nodes had.
func (s *Resets) FullyReplicated() bool {
	for n, incarnation := range s.incarnations {
		if incarnation == 0 {
			continue
		}
		for by := range geo.NodeID(len(s.passed)) {
			if s.has(by, geo.NodeID(n)) < incarnation {
				return false
			}
		}
	}
	return !s.waiting
}

// Idle reports whether nothing that was run waits for anything.
func (x *Executor) Idle() bool {
	if !x.locks.empty() {
		return false
	}
	for _, e := range x.running {
		if e.t != nil || e.parts > 0 {
			return false // it is stale, and without locks
		}
	}
	return true
}

// Reset discards everything except the received reads for transactions after a place: earlier transactions will never
// run here.
func (x *Executor) Reset(place uint64) {
	if x.c.KeepLocks {
		// Places are names without an order: an engine with several logs must itself distinguish the reads of other nodes.
		clear(x.running)
		x.untold, x.over = nil, nil
	} else {
		x.floor = place
	}
	for at, e := range x.running {
		if e.t != nil || e.parts > 0 || at.Position < place {
			delete(x.running, at)
		} else {
			x.c.Env.Mark(readsKept)
		}
	}
	x.locks, x.ready, x.free = newLockTable(), queue.Queue[*execution]{}, nil
	x.foreign, x.parted = 0, 0
	for _, q := range x.readsTo {
		x.outReads[q] = nil
	}
	clear(x.outAnswers)
	x.readsTo, x.answersTo = x.readsTo[:0], x.answersTo[:0]
}
