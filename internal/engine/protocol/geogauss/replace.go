package geogauss

import (
	"cmp"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
)

// replacement replaces a server that has lost its state with a new incarnation.
//
// The lost server has declared epochs complete, and has reported the epochs that it had received from other servers.
// The new incarnation does not know these declarations and reports. So it declares and reports nothing before the group
// has agreed that it replaces the server. The group agrees by the change by which the lost server leaves, or by a
// separate change if the server had left before.
//
// Declarations of an earlier view do not count in a later view, and the lost server was dead when the change was
// proposed. So from that view on, everything that arrives from the server is from the new incarnation. The reports of
// the other servers determine the last epoch that counts, as for any silent server. A reporting server has every epoch
// that a majority, possibly including the lost server, had declared complete.
//
// The new incarnation then requests a server's state: the rows as of the last epoch merged there, and the later epochs.
// It keeps the messages that arrive in the meantime. It continues where the state ends, ends its own epochs after the
// last epoch of the lost server that counts, and asks to join.
type replacement struct {
	r *Replica
	// lacking is set while this server is a new incarnation without state.
	lacking  bool
	receiver statetransfer.Receiver
	got      uint64 // bytes received at the last call of ask
	asked    time.Duration
	patience time.Duration // time until another server is asked
	state    []byte        // the received state, until this server has reached the state's view
	donor    geo.NodeID    // the server that has sent the state

	sender *statetransfer.Sender
	sent   int64

	// view is the view of the last change that has replaced a server with a new incarnation. merged is the last epoch with
	// write sets that was merged here before that change. Lost servers may have been among the servers that acknowledged
	// epoch merged.
	view, merged uint64
}

func (p *replacement) init(r *Replica, incarnation uint32) {
	p.r, p.lacking, p.patience = r, incarnation > 0, r.members.silence
	p.sender = statetransfer.NewSender(r.env, stateTimer)
	r.epochs.servers[r.self].incarnation = incarnation
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	e := &r.epochs
	s := &e.servers[n]
	// Without a group (acks: None), no server can be replaced.
	if r.members.group == nil || incarnation <= s.incarnation {
		return
	}
	// The end of the predecessor's open epoch is lost, so its write sets must not be counted with the next end.
	s.incarnation, s.open = incarnation, nil
	// The new incarnation does not have the epochs that its predecessor has declared.
	s.completed, s.completedView = 0, 0
	// The new incarnation has not received the epochs that were passed on to its predecessor.
	for i := range e.servers {
		if passedOn := e.servers[i].passedOn; passedOn != nil {
			passedOn[n] = 0
		}
	}
	if r.replace.lacking {
		e.drop(s)
	}
	// The transfer was meant for the predecessor.
	r.replace.sender.Cancel(n)
	r.members.group.Replaced(n, incarnation)
	r.members.forgetReport(n)
	r.local.active = r.env.Now() // the end of the next epoch informs the new incarnation of all epochs
	r.settle()
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool {
	m := &r.members
	if m.group == nil {
		return true
	}
	if r.replace.lacking || !m.group.FullyReplicated() || m.limiting() != nobody || r.replace.unsettled() != nobody {
		return false
	}
	for n := range r.epochs.servers {
		s := &r.epochs.servers[n]
		if !s.current() || r.epochs.has(geo.NodeID(n)) < s.boundary || !r.replace.spread(geo.NodeID(n)) {
			return false
		}
	}
	return true
}

// spread reports whether a server is known to have the epochs up to merged. A lost server may have been among the
// servers that acknowledged them.
func (p *replacement) spread(n geo.NodeID) bool {
	s := &p.r.epochs.servers[n]
	return n == p.r.self || s.completedView >= p.view && s.completed >= p.merged
}

// unsettled returns a server with a new incarnation that the group has not agreed on yet, or nobody.
func (p *replacement) unsettled() geo.NodeID {
	for n := range p.r.epochs.servers {
		if s := &p.r.epochs.servers[n]; s.incarnation > s.settled {
			return geo.NodeID(n)
		}
	}
	return nobody
}

// settle records that the group has agreed on a server's new incarnation in the current view. Epochs of earlier
// incarnations after the last epoch of the server's tenures no longer count.
func (p *replacement) settle(n geo.NodeID, incarnation uint32) {
	s := &p.r.epochs.servers[n]
	s.settled, s.from, s.boundary = incarnation, p.r.members.view, 0
	// The last tenure has ended with the departure, so every tenure has a last epoch.
	for _, t := range s.tenures {
		s.boundary = max(s.boundary, t.last)
	}
	p.view, p.merged = s.from, p.r.epochs.filled
	p.r.epochs.cut(s)
	// Later epochs that were passed on were the predecessor's; the new incarnation's epochs may have the same numbers.
	for i, last := range s.passedOn {
		s.passedOn[i] = min(last, s.boundary)
	}
}

// predecessors reports whether an epoch is from a lost incarnation and does not count. The lost server was dead when
// its departure was proposed, so its epochs carry earlier views.
func (s *server) predecessors(c *Closed) bool { return c.Epoch > s.boundary && c.View < s.from }

// cut discards the epochs of lost incarnations that do not count, and the epochs that were stored as their
// continuation.
func (e *epochs) cut(s *server) {
	if i := slices.IndexFunc(s.log, s.predecessors); i >= 0 {
		e.r.env.Mark(predecessorsForgot)
		for _, c := range s.log[i:] {
			e.kept -= keptSize(c)
		}
		clear(s.log[i:])
		s.log = s.log[:i]
	}
	if last := len(s.log) - 1; last >= 0 {
		s.ended = s.log[last].Epoch
	} else {
		s.ended = min(s.ended, s.boundary)
	}
}

// drop discards a server's epochs.
func (e *epochs) drop(s *server) {
	for _, c := range s.log {
		e.kept -= keptSize(c)
	}
	s.log = nil
}

// anchor prepares a server's log for an epoch that arrives before this server has received its state. If the epoch does
// not follow the epochs in the log, they are discarded.
func (e *epochs) anchor(s *server, c *Closed) {
	// Beyond keepBytes the log starts again with this epoch. The gap to the state is requested later (restore).
	if len(s.log) == 0 || c.After != s.ended || e.kept > keepBytes {
		e.drop(s)
		s.ended = c.After
	}
}

// forgetReport discards a lost server's report: the server can no longer pass on the reported epochs.
func (m *members) forgetReport(n geo.NodeID) {
	if q := &m.round; q.server != nobody && q.have[n] {
		q.have[n], q.reports[n] = false, 0
	}
}

// ask requests a server's state, once the group has agreed on this incarnation. It asks the leader first, which had the
// lost server's epochs that count. If nothing arrives within patience, it asks the other members in turn.
func (p *replacement) ask() {
	e := &p.r.epochs
	self := &e.servers[p.r.self]
	now := p.r.env.Now()
	// Before the agreement, the epochs of the predecessor that count are unknown.
	if self.settled < self.incarnation || p.state != nil {
		return
	}
	// A transfer that makes progress is not restarted.
	if got := p.receiver.Got(); got != p.got {
		p.got, p.asked = got, now
		return
	}
	donor, known := p.r.members.group.Leader()
	if p.asked > 0 {
		if now-p.asked < p.patience && !p.r.env.Buggify(asksAnother) {
			return
		}
		// The wait doubles up to the time after which a silent transfer is aborted. known is cleared to select another
		// server.
		p.patience, known = min(2*p.patience, statetransfer.Patience), false
	}
	p.asked = now
	for left := p.r.nodes; left > 0 && (!known || donor == p.r.self || !p.r.members.current(donor)); left-- {
		donor, known = p.r.members.next(), true // a server that is not a member may not have the state either
	}
	p.r.env.Send(donor, &StateRequest{p.r.members.view})
}

// requested sends this server's state to a new incarnation. It does so only if this server knows all membership changes
// that the new incarnation knows, and has the lost server's epochs that count.
func (p *replacement) requested(from geo.NodeID, q *StateRequest) {
	s := &p.r.epochs.servers[from]
	if p.lacking || p.r.members.group == nil || q.View > p.r.members.view || s.settled < s.incarnation ||
		s.ended > s.boundary || p.r.epochs.has(from) < s.boundary {
		p.r.env.Mark(stateRefused)
		return
	}
	// A repeated request must not restart a transfer that is in progress.
	if !p.sender.Busy(from) {
		p.sent++
		p.sender.Send(from, uint64(p.sent), p.snapshot())
	}
}

// snapshot returns this server's state without the membership changes.
func (p *replacement) snapshot() []byte {
	e := &p.r.epochs
	b := []byte(nil)
	for _, v := range []uint64{p.r.members.view, e.base, e.baseView, e.wanted, e.filled, p.r.merge.number} {
		b = codec.AppendUvarint(b, v)
	}
	for n := range e.servers {
		s := &e.servers[n]
		behind := s.log[s.merged(e.base):]
		b = codec.AppendUvarint(codec.AppendUvarint(b, s.ended), uint64(len(behind)))
		for _, c := range behind {
			b = c.AppendTo(b)
		}
	}
	return appendRows(b, p.r.store)
}

// merged returns the number of epochs in a server's log up to base.
func (s *server) merged(base uint64) int {
	n, _ := slices.BinarySearchFunc(s.log, base+1, func(c *Closed, epoch uint64) int { return cmp.Compare(c.Epoch, epoch) })
	return n
}

// change is the last change of a row.
type change struct {
	key     txn.Key
	record  store.Record
	deleted bool
}

// appendRows appends the last change of every row, except for rows that every node has and that never change. Existing
// rows come first, ordered by key. Deleted rows follow, in the order of their deletion.
func appendRows(b []byte, s *store.Versioned) []byte {
	var rows []change
	s.EachChange(func(k txn.Key, r store.Record, deleted bool) {
		if !k.Everywhere() {
			rows = append(rows, change{k, r, deleted})
		}
	})
	slices.SortFunc(rows, func(a, b change) int {
		switch {
		// Trim discards deletions from the front of a queue, which restore must fill in the order of versions.
		case a.deleted && b.deleted:
			return cmp.Or(cmp.Compare(a.record.Version, b.record.Version), cmp.Compare(a.key, b.key))
		case a.deleted:
			return 1
		case b.deleted:
			return -1
		}
		return cmp.Compare(a.key, b.key)
	})
	b = codec.AppendUvarint(b, uint64(len(rows)))
	for _, r := range rows {
		b = codec.AppendUvarint(codec.AppendString(b, string(r.key)), r.record.Version)
		b = append(codec.AppendID(b, r.record.Writer), codec.Flags(r.deleted, false))
		if !r.deleted {
			b = codec.AppendBytes(b, r.record.Value)
		}
	}
	return b
}

func readRows(r *codec.Reader) []change {
	rows := make([]change, 0, r.Count(5))
	for range cap(rows) {
		c := change{key: r.Key(), record: store.Record{Version: r.Uvarint(), Writer: r.ID()}}
		if c.deleted = r.Flag(); !c.deleted {
			// Without a copy, the values would keep the whole received state in memory.
			c.record.Value = slices.Clone(r.Bytes())
		}
		rows = append(rows, c)
	}
	return rows
}

// receive handles a piece of the requested state.
func (p *replacement) receive(from geo.NodeID, m *statetransfer.Piece) {
	// Another server that was asked may send its state after the first state has arrived.
	if !p.lacking || p.state != nil {
		return
	}
	if _, data, whole := p.receiver.Receive(p.r.env, from, m); whole {
		p.state, p.donor = data, from
	}
}

// restore installs the received state, once this server has reached the state's view. Afterwards it behaves like a
// server that was disconnected.
func (p *replacement) restore() {
	if p.state == nil {
		return
	}
	e, l := &p.r.epochs, &p.r.local
	in := codec.NewReader(p.state)
	view := in.UvarintMax(maxNumber)
	// The state does not include the membership changes. They arrive by Raft, and decide which epochs count.
	if view > p.r.members.view {
		p.r.env.Mark(stateOfAnotherView)
		return
	}
	p.state = nil
	base, baseView, wanted, filled, number := in.Uvarint(), in.Uvarint(), in.Uvarint(), in.Uvarint(), in.Uvarint()
	type log struct {
		ended  uint64
		behind []*Closed
	}
	logs := make([]log, p.r.nodes)
	for n := range logs {
		logs[n].ended = in.Uvarint()
		for range in.Count(5) {
			e := &Closed{}
			e.read(&in)
			logs[n].behind = append(logs[n].behind, e)
		}
	}
	rows := readRows(&in)
	if in.Done() != nil {
		return // no server sends such a state
	}
	p.lacking = false
	for _, c := range rows {
		if c.deleted {
			p.r.store.Delete(c.key, c.record.Version, c.record.Writer)
		} else {
			p.r.store.Put(c.key, c.record)
		}
	}
	p.r.merge.number = number
	e.base, e.baseView, e.filled, e.kept = base, baseView, filled, 0
	e.wanted = max(e.wanted, wanted)
	for n := range e.servers {
		s := &e.servers[n]
		since := s.log
		s.log, s.ended, s.counted = logs[n].behind, logs[n].ended, base
		for _, c := range s.log {
			e.kept += keptSize(c)
		}
		// The group agreed on the server's new incarnation after the state's view, so the state may include epochs that do
		// not count.
		if s.from > view {
			e.cut(s)
		}
		for _, c := range since {
			e.put(c)
		}
		if last := len(since) - 1; last >= 0 && since[last].Epoch > s.ended {
			p.r.env.Mark(gapBehindState)
			p.r.env.Send(p.donor, &Request{geo.NodeID(n), e.has(geo.NodeID(n))})
		}
	}
	e.rewind()
	p.r.members.forget()
	// The other servers have received no declaration from this incarnation in the current view.
	p.r.members.redeclare = true
	// Epochs up to the boundary belong to the predecessor and may count.
	l.ended = e.servers[p.r.self].boundary
	l.read()
}
