package history

import (
	"cmp"
	"math"
	"slices"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// Check checks a history against an isolation level. Except for sorting, its time is linear in the size of the history.
// In addition to the history it needs about 60 bytes of memory per transaction and 25 per operation. If the history
// does not satisfy the level, Check runs again to find the levels that the history does satisfy.
//
// A transaction with an unknown outcome counts as committed if another transaction read or overwrote one of its
// versions. Such a transaction has reported no operations, so its reads impose no constraints.
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
	// Any of these anomalies already disproves the level, so a cycle search would only cost time.
	if c.worst(c.v.Level) != "" {
		return c.verdict(nil, nil)
	}
	copy(c.v.Stats.Edges[:], c.g.counts[:link])
	c.fill(m)
	return c.verdict(c.cycle(m, snapshots))
}

// holds returns the strongest levels that the history satisfies, after it was found to violate the level of c.
func (c *checker) holds() (strongest []isolation.Level) {
	failed := c.v.Level
	// A level that implies the failed level fails, too.
	levels := slices.DeleteFunc(isolation.Levels(), func(l isolation.Level) bool { return isolation.Implies(l, failed) || c.worst(l) != "" })
	if len(levels) == 0 {
		return nil
	}
	// The graph must contain the edges of every level, and only a check of strict serializability adds all of them.
	if all, _ := dependencies(isolation.StrictSerializable); !c.g.fill || failed != isolation.StrictSerializable {
		h := c.h
		*c = checker{} // release its memory before the next pass needs the same amount
		c = newChecker(h)
		c.prepare()
		c.edges(all)
		c.fill(all)
	}
	// Start with the strongest level, because a level that is implied by a satisfied level needs no check.
	for _, l := range slices.Backward(levels) {
		if l == isolation.ReadCommitted { // it uses fewer dependencies, so it needs a separate graph: see connect
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

// dependencies returns the dependencies that must not form a cycle at a level. snapshots reports whether cycles
// consist of starts and commits instead of whole transactions: see graph.components.
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

// prepare determines the writer of each version. It returns false if two transactions share an ID, which makes the
// history meaningless.
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

// edges adds dependencies to the graph: all dependencies between versions, and the orders in time that m contains.
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

// fill makes the second pass over the edges, which adds the edges that the first pass counted to the graph.
func (c *checker) fill(m mask) {
	c.g.counted()
	c.edges(m)
	// The search for cycles uses none of these; release their memory.
	c.order, c.owner, c.from, c.marks, c.scans, c.sent, c.answered, c.session = nil, nil, nil, nil, nil, nil, nil, nil
}

// worst returns the first anomaly in this order that was found without a cycle and that the level rules out, or "".
func (c *checker) worst(level isolation.Level) Anomaly {
	for _, a := range [...]Anomaly{DuplicateID, GarbageRead, PredicateReadMiss, G1a, DirtyUpdate, G1b, Internal, IncompatibleOrder, LostUpdate} {
		// Levels below snapshot isolation allow lost updates, and allow a transaction to see different versions when it reads
		// twice.
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
	// committed marks the transactions in the graph.
	committed []bool
	// order lists the operations of committed transactions by key, and owner[i] is the transaction of operation order[i].
	// from[k] is the index of key k's first operation in order and owner.
	order, owner, from []uint32
	// marks[i] is scratch space of the method versions. It records how transaction i used the current key.
	marks []keyMark
	turn  uint32
	// scans is nil if no transaction scanned a range.
	scans *scans
	// sent and answered list the transactions by their times of sending and answer; session lists them by client.
	sent, answered, session []uint32

	direct map[Anomaly]*evidence
}

const (
	initial = math.MaxUint32     // the version that no recorded transaction wrote
	missing = math.MaxUint32 - 1 // a version whose writer is not in the history
)

// evidence proves an anomaly that needs no cycle: the transactions, the key, and further details.
type evidence struct {
	a, b    uint32 // a is the transaction with the anomaly; b is the other transaction, or initial
	key     uint32
	version txn.ID
	nth, of uint8
	found   presence // the presence that a observed, which contradicts b
}

func (c *checker) note(a Anomaly, e evidence) {
	if c.g != nil && c.g.fill {
		return // the counting pass has recorded it
	}
	c.v.Stats.Found[a]++
	if c.direct[a] == nil {
		c.direct[a] = &e
	}
}

func (c *checker) slot(id txn.ID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 >> (64 - c.bits) }

// index builds the table of transaction IDs and counts the outcomes.
func (c *checker) index() {
	// A table at most half full keeps the probes short.
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

// resolve finds the writer of every version. It also marks unknown transactions as committed if another transaction
// observed one of their versions.
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
	// The operations of a transaction that proved to be committed may reveal further commits.
	for len(more) > 0 {
		i := more[len(more)-1]
		more = more[:len(more)-1]
		visit(i)
	}
}

// sortByKey lists the operations of committed transactions by key, with a counting sort.
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

// internal notes transactions that contradict themselves: a read returns a version of a row other than the version that
// the transaction read or wrote before.
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
			// A transaction cannot observe its own version before it writes the row.
			if o.version == id && (before <= first || !c.wroteBefore(i, o.key, uint32(k))) {
				c.note(Internal, evidence{a: i, b: initial, key: o.key, version: o.version})
				continue
			}
			if o.write() || before <= first { // the transaction's first operation on the row, or a write
				continue
			}
			p := c.h.ops[before-1]
			version, nth := p.version, p.nth
			// After a write, the transaction must read its own version.
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

// wroteBefore reports whether one of the first n operations of transaction i writes the key.
func (c *checker) wroteBefore(i, key, n uint32) bool {
	for _, o := range c.h.opsOf(i)[:n] {
		if o.write() && o.key == key {
			return true
		}
	}
	return false
}

// realTime adds the real-time order. It uses additional nodes, called instants. An instant stands for all answers since
// the previous instant. It follows the answered transactions and precedes all transactions that are sent later:
//
//	T1 -> instant 1 -> instant 2 -> ... -> T2
//
// so that each transaction needs only one incoming and one outgoing edge. Direct edges between transactions would need
// up to n*n edges. A frontier of the most recently completed transactions would need n times the number of clients.
func (c *checker) realTime() {
	c.sortByTime()
	t := c.h.txns
	instant, any := uint32(0), false
	used := true // whether transactions already follow the current instant, so that the next answer needs a new instant
	next := 0
	for _, i := range c.sent {
		// Two events are ordered only if they are further apart than the clock error. Otherwise an edge could contradict
		// the true order.
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

// sortByTime lists the transactions by time of sending, by time of answer, and by client. Transactions with an unknown
// outcome have no answer.
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

// sessions adds the order of each client's transactions. This order does not depend on clocks, and holds even if an
// answer and the next transaction have the same time. A client that gave up on an answer may receive the answer after
// it has sent further transactions.
func (c *checker) sessions() {
	c.sortByTime()
	t := c.h.txns
	// past is the graph node that follows all transactions whose answers the client has received. It is valid if turn is
	// not 0. While the transactions complete one after another, past is the last completed transaction; otherwise it is a
	// separate node. turn counts the changes of past.
	var past, turn uint32
	type sent struct{ i, turn uint32 }
	var waiting []sent // transactions without an answer so far, in the order of their answers
	for k, i := range c.session {
		if k == 0 || t[c.session[k-1]].region != t[i].region || t[c.session[k-1]].client != t[i].client {
			turn, waiting = 0, waiting[:0]
		}
		answered := 0
		for answered < len(waiting) && t[waiting[answered].i].answered <= t[i].invoked {
			answered++
		}
		switch {
		// The answered transaction was sent after past, so it follows everything that past follows and can replace past.
		case answered == 1 && waiting[0].turn == turn:
			past = waiting[0].i
			turn++
		// Several answers arrived, or an answer to a transaction that is concurrent with past. A new node must follow all of
		// these transactions.
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
		// An unknown transaction has no answer, so no transaction of the session follows it.
		if t[i].status == txn.Committed {
			at := len(waiting)
			for at > 0 && t[waiting[at-1].i].answered > t[i].answered {
				at--
			}
			waiting = slices.Insert(waiting, at, sent{i, turn})
		}
	}
}

// sessionEdge returns the label of a session edge that starts at past: Session for a transaction, and link for a
// separate node.
func (c *checker) sessionEdge(past uint32) Dependency {
	if past < uint32(c.n) {
		return Session
	}
	return link
}

// cycle looks for a cycle that the level rules out, starting with the worst kind, and returns the smallest cycle of
// this kind. If a cycle that needs the order in time is shorter, cycle also returns the shorter cycle, because it is
// easier to understand.
func (c *checker) cycle(all mask, snapshots bool) (worst, shorter []hop) {
	cyclic := c.g.components(all, nil, snapshots)
	if cyclic.count == 0 {
		return nil, nil
	}
	if snapshots { // a cycle of starts and commits also is a cycle of transactions
		cyclic = c.g.components(all, nil, false)
	}
	s := newSearch(c.g, c.n)
	items := maskOf(WW, WR, RW)
	data := items | maskOf(PredicateRW)
	process := data | maskOf(Session)
	// The first edge of a cycle is taken from first and all further edges from rest. The kinds are in the order of the
	// Anomaly constants.
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
		// Skip kinds with dependencies that the level ignores, and kinds that the level allows because of its snapshots.
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
		// A search that ran out of its budget may have missed a shorter cycle.
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
