package history

import (
	"cmp"
	"math"
	"slices"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// Check judges a history. Its time is linear in the history's size except for sorting. In addition to the history it
// needs about 60 bytes of memory per transaction and 25 per operation. A history that does not have the level is
// checked once more, for the levels that it has.
//
// A transaction with an unknown outcome counts as committed if another transaction read or overwrote one of its
// versions. Such a transaction has reported nothing of itself, so its reads impose no constraint on it.
func Check(h *History, level isolation.Level) *Verdict {
	c := newChecker(h)
	c.v.Level = level
	v := c.check()
	if !v.Passed {
		v.Holds = c.holds()
	}
	return v
}

func newChecker(h *History) *checker {
	c := &checker{h: h, n: len(h.txns), v: &Verdict{Stats: Stats{Found: map[Anomaly]int{}}}, direct: map[Anomaly]*evidence{}}
	c.v.Stats.Transactions, c.v.Stats.Operations, c.v.Stats.Keys = len(h.txns), len(h.ops), len(h.keys)
	return c
}

func (c *checker) check() *Verdict {
	m, snapshots := dependencies(c.v.Level)
	if !c.prepare() {
		return c.verdict(nil, nil)
	}
	c.edges(m)
	if c.worst(c.v.Level) != "" {
		return c.verdict(nil, nil)
	}
	copy(c.v.Stats.Edges[:], c.g.counts[:link])
	c.fill(m)
	return c.verdict(c.cycle(m, snapshots))
}

// holds returns the strongest levels that a history has which does not have the level checked.
func (c *checker) holds() (strongest []isolation.Level) {
	failed := c.v.Level
	levels := slices.DeleteFunc(isolation.Levels(), func(l isolation.Level) bool { return isolation.Implies(l, failed) || c.worst(l) != "" })
	if len(levels) == 0 {
		return nil
	}
	if all, _ := dependencies(isolation.StrictSerializable); !c.g.fill || failed != isolation.StrictSerializable {
		h := c.h
		*c = checker{} // its memory is needed
		c = newChecker(h)
		c.prepare()
		c.edges(all)
		c.fill(all)
	}
	for _, l := range slices.Backward(levels) {
		if l == isolation.ReadCommitted { // it knows of fewer dependencies: see connect
			if len(strongest) == 0 {
				h := c.h
				*c = checker{}
				if Check(h, l).Passed {
					strongest = append(strongest, l)
				}
			}
			continue
		}
		if slices.ContainsFunc(strongest, func(s isolation.Level) bool { return isolation.Implies(s, l) }) {
			continue
		}
		m, snapshots := dependencies(l)
		if c.g.components(m, nil, snapshots).count == 0 {
			strongest = append(strongest, l)
		}
	}
	slices.Reverse(strongest)
	return strongest
}

// dependencies returns the dependencies that must form no cycle at a level. snapshots reports whether the condition
// applies to starts and commits rather than to whole transactions: see graph.components.
func dependencies(level isolation.Level) (m mask, snapshots bool) {
	m = maskOf(WW, WR)
	if isolation.Implies(level, isolation.SnapshotIsolation) {
		m |= maskOf(RW, PredicateRW)
		snapshots = !isolation.Implies(level, isolation.Serializable)
	}
	if isolation.Implies(level, isolation.SessionSnapshotIsolation) {
		m |= maskOf(Session)
	}
	if isolation.Implies(level, isolation.StrongSnapshotIsolation) {
		m |= maskOf(RealTime)
	}
	return m, snapshots
}

// prepare determines the writer of each version. It returns false if the history is meaningless.
func (c *checker) prepare() bool {
	if c.index(); len(c.direct) > 0 {
		return false
	}
	c.resolve()
	c.sortByKey()
	c.internal()
	if len(c.h.bounds) > 0 {
		c.findScans()
	}
	c.g = newGraph(c.n)
	return true
}

// edges adds the dependencies to the graph: all those between versions, and those in time that are in m.
func (c *checker) edges(m mask) {
	if c.scans != nil {
		c.plant()
	}
	c.versions()
	if m.contains(RealTime) {
		c.realTime()
	}
	if m.contains(Session) {
		c.sessions()
	}
}

// fill adds the dependencies, which have been counted, once more.
func (c *checker) fill(m mask) {
	c.g.counted()
	c.edges(m)
	// The search for cycles needs none of these.
	c.order, c.owner, c.from, c.marks, c.scans, c.sent, c.answered, c.session = nil, nil, nil, nil, nil, nil, nil, nil
}

// worst returns the first of the anomalies that need no cycle which was found and which the level rules out, or "".
func (c *checker) worst(level isolation.Level) Anomaly {
	for _, a := range [...]Anomaly{DuplicateID, GarbageRead, PredicateReadMiss, G1a, DirtyUpdate, G1b, Internal, IncompatibleOrder, LostUpdate} {
		if (a == Internal || a == LostUpdate) && !isolation.Implies(level, isolation.SnapshotIsolation) {
			continue
		}
		if c.direct[a] != nil {
			return a
		}
	}
	return ""
}

// checker holds the state of one Check.
type checker struct {
	h *History
	n int
	g *graph
	v *Verdict

	// ids is a hash table with linear probing that finds transactions; a slot holds the transaction's index plus one, or 0
	// if it is empty.
	ids  []uint32
	bits uint
	// writer[i] is the transaction that wrote the version of operation i: an index, initial or missing.
	writer []uint32
	// committed are the transactions in the graph.
	committed []bool
	// order lists the operations of committed transactions by key, and owner their transactions; from[k] is the start of
	// key k's operations.
	order, owner, from []uint32
	// marks[i] is scratch of versions: what transaction i has to do with the key at hand.
	marks []keyMark
	turn  uint32
	// scans is nil when no transaction looked at a range.
	scans *scans
	// sent and answered are the transactions in the order of these times, session by client.
	sent, answered, session []uint32

	direct map[Anomaly]*evidence
}

const (
	initial = math.MaxUint32     // the version that no transaction wrote
	missing = math.MaxUint32 - 1 // a version of a transaction that the history does not have
)

// evidence shows an anomaly that needs no cycle: the transactions, the key, and further details.
type evidence struct {
	a, b    uint32 // a did it; b, if not initial, it did it to
	key     uint32
	version txn.ID
	nth, of uint8
	found   presence // the presence that a found, unlike b
}

func (c *checker) note(a Anomaly, e evidence) {
	if c.g != nil && c.g.fill {
		return // the first pass has seen it
	}
	c.v.Stats.Found[a]++
	if c.direct[a] == nil {
		c.direct[a] = &e
	}
}

func (c *checker) slot(id txn.ID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 >> (64 - c.bits) }

// index makes the table of ids and counts outcomes.
func (c *checker) index() {
	for c.bits = 4; 1<<c.bits < 2*c.n; {
		c.bits++
	}
	c.ids = make([]uint32, 1<<c.bits)
	c.committed = make([]bool, c.n)
	for i := range c.h.txns {
		t := &c.h.txns[i]
		at := c.slot(t.id)
		for ; c.ids[at] != 0; at = (at + 1) & (1<<c.bits - 1) {
			if other := c.ids[at] - 1; c.h.txns[other].id == t.id {
				c.note(DuplicateID, evidence{a: uint32(i), b: other})
				break
			}
		}
		c.ids[at] = uint32(i) + 1
		switch t.status {
		case txn.Committed:
			c.committed[i] = true
			c.v.Stats.Committed++
		case txn.Unknown:
			c.v.Stats.Unknown++
		default:
			c.v.Stats.Aborted++
		}
	}
}

func (c *checker) find(id txn.ID) uint32 {
	if id == Initial {
		return initial
	}
	for at := c.slot(id); c.ids[at] != 0; at = (at + 1) & (1<<c.bits - 1) {
		if i := c.ids[at] - 1; c.h.txns[i].id == id {
			return i
		}
	}
	return missing
}

// resolve finds the writer of every version, and the unknown transactions that were committed after all.
func (c *checker) resolve() {
	c.writer = make([]uint32, len(c.h.ops))
	var more []uint32
	visit := func(i uint32) {
		first := c.h.txns[i].ops
		for k, o := range c.h.opsOf(i) {
			if !o.known() {
				continue
			}
			w := c.find(o.version)
			c.writer[first+uint32(k)] = w
			if w < missing && !c.committed[w] && c.h.txns[w].status == txn.Unknown {
				c.committed[w] = true
				c.v.Stats.UnknownCommitted++
				more = append(more, w)
			}
		}
	}
	for i := range uint32(c.n) {
		if c.h.txns[i].status == txn.Committed {
			visit(i)
		}
	}
	for len(more) > 0 {
		i := more[len(more)-1]
		more = more[:len(more)-1]
		visit(i)
	}
}

// sortByKey lists the operations of committed transactions by key: a counting sort.
func (c *checker) sortByKey() {
	c.from = make([]uint32, len(c.h.keys)+1)
	total := 0
	for i := range uint32(c.n) {
		if c.committed[i] {
			for _, o := range c.h.opsOf(i) {
				if !o.scan() {
					c.from[o.key+1]++
					total++
				}
			}
		}
	}
	for k := 1; k < len(c.from); k++ {
		c.from[k] += c.from[k-1]
	}
	c.order, c.owner = make([]uint32, total), make([]uint32, total)
	next := slices.Clone(c.from)
	for i := range uint32(c.n) {
		if !c.committed[i] {
			continue
		}
		first := c.h.txns[i].ops
		for k, o := range c.h.opsOf(i) {
			if o.scan() {
				continue
			}
			at := next[o.key]
			next[o.key]++
			c.order[at], c.owner[at] = first+uint32(k), i
		}
	}
}

// internal finds transactions that contradict themselves: they read another version of a row than the version that they
// have read or written before.
func (c *checker) internal() {
	last := make([]uint32, len(c.h.keys)) // the previous operation on the same key, plus one
	for i := range uint32(c.n) {
		if !c.committed[i] {
			continue
		}
		first := c.h.txns[i].ops
		id := c.h.txns[i].id
		for k, o := range c.h.opsOf(i) {
			if o.scan() {
				continue
			}
			before := last[o.key]
			last[o.key] = first + uint32(k) + 1
			if !o.known() {
				continue
			}
			if o.version == id && (before <= first || !c.wroteBefore(i, o.key, uint32(k))) {
				c.note(Internal, evidence{a: i, b: initial, key: o.key, version: o.version})
				continue
			}
			if o.write() || before <= first { // the first of this transaction
				continue
			}
			p := c.h.ops[before-1]
			version, nth := p.version, p.nth
			if p.write() {
				version = id
			} else if !p.known() {
				continue
			}
			if o.version != version || o.nth != nth && o.nth != 0 && nth != 0 {
				c.note(Internal, evidence{a: i, b: initial, key: o.key, version: o.version})
			}
		}
	}
}

// wroteBefore reports whether one of transaction i's first n operations writes the key.
func (c *checker) wroteBefore(i, key, n uint32) bool {
	for _, o := range c.h.opsOf(i)[:n] {
		if o.write() && o.key == key {
			return true
		}
	}
	return false
}

// realTime adds the real-time order. Its nodes are instants: an instant stands for all the answers since the previous
// instant. It follows each of them and precedes everything sent later:
//
//	T1 -> instant 1 -> instant 2 -> ... -> T2
//
// so that a single edge in and a single edge out per transaction suffice. Direct edges between transactions would need
// n*n edges. A frontier of the most recently completed transactions would need n times the number of clients.
func (c *checker) realTime() {
	c.sortByTime()
	t := c.h.txns
	instant, any := uint32(0), false
	used := true // the instant has transactions after it: the next answer needs a new instant
	next := 0
	for _, i := range c.sent {
		for ; next < len(c.answered) && t[c.answered[next]].answered+c.h.ClockError < t[i].invoked; next++ {
			if used {
				later := c.g.node()
				if any {
					c.g.add(instant, later, link)
				}
				instant, any, used = later, true, false
			}
			c.g.add(c.answered[next], instant, RealTime)
		}
		if any {
			c.g.add(instant, i, link)
			used = true
		}
	}
}

// sortByTime lists the transactions by their times of sending and of the answer, and by client. A transaction with an
// unknown outcome has no answer.
func (c *checker) sortByTime() {
	if c.sent != nil {
		return
	}
	t := c.h.txns
	for i := range uint32(c.n) {
		if !c.committed[i] {
			continue
		}
		c.sent = append(c.sent, i)
		if t[i].status == txn.Committed {
			c.answered = append(c.answered, i)
		}
	}
	slices.SortStableFunc(c.sent, func(a, b uint32) int { return cmp.Compare(t[a].invoked, t[b].invoked) })
	slices.SortStableFunc(c.answered, func(a, b uint32) int { return cmp.Compare(t[a].answered, t[b].answered) })
	c.session = slices.Clone(c.sent)
	slices.SortStableFunc(c.session, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(t[a].region, t[b].region), cmp.Compare(t[a].client, t[b].client))
	})
}

// sessions adds the order of each client's transactions: it holds whatever the clocks say, and also when an answer and
// the next transaction happen at the same instant. A client that has given up on an answer may get it after it has sent
// more.
func (c *checker) sessions() {
	c.sortByTime()
	t := c.h.txns
	// past is the node that follows all transactions whose answers the client has, once there are any. It is one of these
	// transactions, as long as they completed one after another, or else a separate node. turn counts its changes.
	var past, turn uint32
	type sent struct{ i, turn uint32 }
	var waiting []sent // transactions whose answers the client does not have yet, in the order of their answers
	for k, i := range c.session {
		if k == 0 || t[c.session[k-1]].region != t[i].region || t[c.session[k-1]].client != t[i].client {
			turn, waiting = 0, waiting[:0]
		}
		answered := 0
		for answered < len(waiting) && t[waiting[answered].i].answered <= t[i].invoked {
			answered++
		}
		switch {
		case answered == 1 && waiting[0].turn == turn:
			past = waiting[0].i
			turn++
		case answered > 0:
			join := c.g.node()
			if turn > 0 {
				c.g.add(past, join, c.sessionEdge(past))
			}
			for _, s := range waiting[:answered] {
				c.g.add(s.i, join, Session)
			}
			past = join
			turn++
		}
		waiting = append(waiting[:0], waiting[answered:]...)
		if turn > 0 {
			c.g.add(past, i, c.sessionEdge(past))
		}
		if t[i].status == txn.Committed {
			at := len(waiting)
			for at > 0 && t[waiting[at-1].i].answered > t[i].answered {
				at--
			}
			waiting = slices.Insert(waiting, at, sent{i, turn})
		}
	}
}

// sessionEdge returns the label of an edge of a session that leaves a transaction or a separate node.
func (c *checker) sessionEdge(past uint32) Dependency {
	if past < uint32(c.n) {
		return Session
	}
	return link
}

// cycle looks for a cycle that the level rules out, the worst kind first, and returns the smallest of its kind. If a
// shorter cycle of another kind exists that needs the order in time, it returns that too: it is easier to understand.
func (c *checker) cycle(all mask, snapshots bool) (worst, shorter []hop) {
	cyclic := c.g.components(all, nil, snapshots)
	if cyclic.count == 0 {
		return nil, nil
	}
	if snapshots { // a cycle of starts and commits is one of transactions, too
		cyclic = c.g.components(all, nil, false)
	}
	s := newSearch(c.g, c.n)
	items := maskOf(WW, WR, RW)
	data := items | maskOf(PredicateRW)
	process := data | maskOf(Session)
	for _, kind := range []struct {
		all, first, rest mask
		snapshots        bool
	}{
		{maskOf(WW), maskOf(WW), maskOf(WW), false},
		{maskOf(WW, WR), maskOf(WW, WR), maskOf(WW, WR), false},
		{items, maskOf(RW), maskOf(WW, WR), false},
		{data, maskOf(RW, PredicateRW), maskOf(WW, WR), false},
		{items, items, items, true},
		{data, data, data, true},
		{items, items, items, false},
		{data, data, data, false},
		{process, process, process, snapshots},
		{all, all, all, snapshots},
	} {
		if kind.all&^all != 0 || snapshots && !kind.snapshots && kind.rest.contains(RW) {
			continue
		}
		parts := c.g.components(kind.all, &cyclic, kind.snapshots)
		if parts.count == 0 {
			continue
		}
		s.left = patience
		if worst = s.shortest(parts, kind.first, kind.rest); worst == nil {
			continue
		}
		c.v.Stats.Shortest = s.left > 0
		for i := range uint32(c.n) {
			if parts.contains(i) {
				c.v.Stats.Cyclic++
			}
		}
		if more := all &^ kind.all; len(worst) > 2 && (more.contains(Session) || more.contains(RealTime)) {
			s.left = patience
			if snapshots {
				cyclic = c.g.components(all, &cyclic, true)
			}
			if shorter = s.shortest(cyclic, all, all); len(shorter) >= len(worst) {
				shorter = nil
			}
		}
		return worst, shorter
	}
	panic("history: a component without a cycle")
}
