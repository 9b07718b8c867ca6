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

// Resets restores a copy after one of its nodes has lost its state: the copy receives the rows of another copy. Resets
// is for engines with a single order of all transactions.
//
// The partitions of a copy send each other their reads once, and no node stores them. When a node is lost, the pending
// reads to and from it are lost, too. Therefore the node's whole copy restarts at a place in the order on which all
// nodes agree: the mark of the new incarnation.
//
// The nodes of another copy, the donor, reach the mark and run nothing after it until all earlier transactions have
// finished there. Then they send their rows to the nodes of their partitions in the restarting copy, and continue. The
// nodes of the restarting copy stop at the mark and discard all executed and pending transactions. They continue after
// the mark with the received rows. They never execute the transactions before the mark, so they cannot report the
// outcomes of these transactions to their clients.
//
// No other node may be lost before all nodes have reached and passed the mark: see FullyReplicated.
type Resets struct {
	c            ResetConfig
	incarnations []uint32   // latest incarnation of each node that this node has been notified of
	passed       [][]uint32 // passed[m][n] is the last incarnation of node n whose mark node m has reported as passed
	telling      bool       // this node may have passed a mark that it has not reported

	// lacking is set in a new incarnation until it has rows. waiting is set while this node has stopped at a mark and
	// cannot continue. at is the place of that mark.
	lacking, waiting bool
	at               uint64
	restored         uint64 // 1 + place of the state with which this node last continued; 0 for none
	receiver         statetransfer.Receiver
	came             *copyState // received state that this node has not used yet, or nil

	// draining is set while the reader waits until the transactions before a mark have finished. owed holds the states
	// that other nodes still need from this node.
	draining bool
	owed     []*owedState
	sender   *statetransfer.Sender
	sent     uint64 // number of states sent
	ticking  bool   // the timer is pending
}

// ResetConfig describes the node that a Resets belongs to.
type ResetConfig struct {
	protocol.Config
	Layout   geo.Layout
	Executor *Executor
	// Passed returns the last incarnation of a node whose mark this node has passed. For this node itself, it returns 0
	// until the node has everything that was sent to its predecessor.
	Passed func(n geo.NodeID) uint32
	// Append appends the state of a donor at the mark, without its rows. Ready reports whether this node can continue at a
	// place with received rows. Begin makes this node continue there: when Begin returns, the node's reader is at the mark
	// of that place.
	Append func(b []byte) []byte
	Ready  func(place uint64, r codec.Reader) bool
	Begin  func(place uint64, r *codec.Reader)
	// Forget discards everything in the engine that is ordered before place. The executor has already discarded its part.
	Forget func(place uint64)
	// Advance makes the reader continue.
	Advance func()
	// PieceTimer and AgainTimer are timer kinds; the engine must pass these timers to Fire.
	PieceTimer, AgainTimer uint8
}

// copyState is the state received from a donor, as of a place.
type copyState struct {
	place uint64
	rest  codec.Reader
}

// owedState is the state that node "to" needs, because it restarts at the mark of a new incarnation of the lost node
// "node".
type owedState struct {
	to, node    geo.NodeID
	incarnation uint32
	data        []byte
	arrived     bool
}

// ReasonReset is the reason of an unknown outcome: a node of the coordinator's copy has lost its state, and the copy
// restarted after the transaction.
const ReasonReset = "copy-begins-anew"

// againEvery is the interval at which a donor checks whether it must resend a state that was lost in transit.
const againEvery = time.Second

// NewResets returns the Resets of a node.
func NewResets(c ResetConfig) *Resets {
	nodes := c.Topology.Nodes()
	s := &Resets{c: c, incarnations: make([]uint32, nodes), passed: make([][]uint32, nodes), lacking: c.Incarnation > 0}
	s.incarnations[c.Self] = c.Incarnation
	s.telling = s.lacking
	s.sender = statetransfer.NewSender(c.Env, c.PieceTimer)
	return s
}

// Lacking reports whether this is a new incarnation without rows.
func (s *Resets) Lacking() bool { return s.lacking }

// Pending returns 1 while this node waits for rows, else 0.
func (s *Resets) Pending() int {
	if s.lacking || s.waiting {
		return 1
	}
	return 0
}

// donor returns the copy that sends its rows to copy copyNumber: the copy with the same replica number in the nearest
// other region.
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

// Mark handles the mark of a node's incarnation at a place in the order, and reports whether the reader may pass it:
// see batchlog.ReaderConfig.
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

// reset restarts this node at a place. It returns false until this node has the rows of that place and its messages can
// reach the new incarnations of its copy.
func (s *Resets) reset(n geo.NodeID, incarnation uint32, place uint64) (passes bool) {
	// If this node already has the rows of this place, it only waits for new incarnations.
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
	// The driver must have reported the new incarnations. Messages would otherwise go to the predecessors and be lost.
	if incarnation > s.incarnations[n] || s.early() {
		s.c.Env.Mark(copyEarly)
		return false
	}
	s.waiting, s.lacking = false, false
	return true
}

// forget discards everything that is ordered before a place.
func (s *Resets) forget(place uint64) {
	s.at = place
	s.c.Executor.Reset(place)
	s.c.Forget(place)
}

// early reports whether this node has passed the mark of a new incarnation of its copy before the driver reported that
// incarnation.
func (s *Resets) early() bool {
	for q := range s.c.Layout.Shards() {
		if n := s.c.Layout.Node(s.c.Layout.CopyOf(s.c.Self), q); s.c.Passed(n) > s.incarnations[n] {
			return true
		}
	}
	return false
}

// begin continues with the received state, if that state is of the node's current place or a later place.
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
	// A later state includes all transactions up to its place, so the node skips the marks in between.
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

// give sends this node's rows to a node of a copy that restarts at the mark at place. It returns false while earlier
// transactions are unfinished.
func (s *Resets) give(n geo.NodeID, incarnation uint32, place uint64, to geo.NodeID) (passes bool) {
	if s.draining = !s.c.Executor.Idle(); s.draining {
		s.c.Env.Mark(copyDrained)
		return false
	}
	// A later mark invalidates an earlier state for the same node.
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

// Receive handles a message that belongs to Resets, and reports whether m is such a message.
func (s *Resets) Receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *statetransfer.Piece:
		if _, data, whole := s.receiver.Receive(s.c.Env, from, m); whole {
			r := codec.NewReader(data)
			// An outdated state may still arrive after this node has continued with the state of a later place. Ignore it.
			if place := r.Uvarint(); place >= s.restored {
				s.came = &copyState{place, r}
				s.c.Advance()
			}
		}
	case *statetransfer.Ack:
		busy := s.sender.Busy(from)
		s.sender.Receive(from, m)
		// The transfer has ended with this acknowledgement. If the state was damaged, Fire sends the state again.
		if busy && !s.sender.Busy(from) && !m.Damaged {
			for _, o := range s.owed {
				o.arrived = o.arrived || o.to == from
			}
		}
	case *Passed:
		for _, p := range m.Marks {
			if int(p.Node) < len(s.passed) { // otherwise the message is corrupt
				s.note(from, p.Node, p.Incarnation)
			}
		}
		// A received state is lost if its receiver is lost before it has passed the mark. The donor therefore keeps the state
		// until the receiver has passed the mark.
		s.owed = slices.DeleteFunc(s.owed, func(o *owedState) bool { return o.to == from && s.has(from, o.node) >= o.incarnation })
	default:
		return false
	}
	return true
}

// has returns the last incarnation of the second node whose mark the first node has passed, or 0 for none.
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

// Fire handles a timer of Resets.
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
			// The predecessor may have acknowledged the state, but the state is lost with the predecessor.
			o.arrived = false
			s.send(o)
		}
	}
	// The new incarnation lacks all earlier reports, and needs them for FullyReplicated.
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

// Flush continues the reader if all earlier transactions have finished, and reports the marks that this node has passed
// to the other nodes. An engine calls it at the end of each step, before the executor's Flush.
func (s *Resets) Flush() {
	if s.draining && s.c.Executor.Idle() {
		s.draining = false
		s.c.Advance()
	}
	if !s.telling {
		return
	}
	// Passed reports a new incarnation's own mark only some time after the reader has passed it, so this node keeps
	// checking.
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

// FullyReplicated reports whether all nodes have passed the marks of all new incarnations that this node knows. In that
// case, all copies have their rows, and no node still needs data that only the lost nodes had.
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

// Idle reports whether all transactions that have started here have finished.
func (x *Executor) Idle() bool {
	if !x.locks.empty() {
		return false
	}
	for _, e := range x.running {
		if e.t != nil || e.parts > 0 {
			return false // a stale transaction without locks
		}
	}
	return true
}

// Reset discards everything except received reads of transactions after a place. Earlier transactions will never run
// here.
func (x *Executor) Reset(place uint64) {
	if x.c.KeepLocks {
		// With KeepLocks, places do not have the order of the log. The engine itself must then distinguish the reads of other
		// nodes from before and after the reset.
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
