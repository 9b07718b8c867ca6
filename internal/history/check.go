package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/txn"
)

// Check judges a history. It takes time linear in the history's size but for sorting, and about 60 bytes of memory per
// transaction and 25 per operation beside the history itself.
//
// A transaction whose outcome is unknown counts as committed when somebody read or overwrote a version of its making. Such
// a transaction has told nothing of itself, so what it read puts it under no obligation.
func Check(h *History, level Level) *Verdict {
	c := &checker{h: h, n: len(h.txns), v: &Verdict{Level: level, Stats: Stats{Found: map[Anomaly]int{}}}, direct: map[Anomaly]*evidence{}}
	c.v.Stats.Transactions, c.v.Stats.Operations, c.v.Stats.Keys = len(h.txns), len(h.ops), len(h.keys)
	if c.index(); len(c.direct) > 0 {
		return c.verdict(nil, nil)
	}
	c.resolve()
	c.sortByKey()
	c.internal()

	c.g = newGraph(c.n)
	c.versions()
	strict := level == StrictSerializable
	if strict {
		c.realTime()
	}
	if c.worst() != "" {
		return c.verdict(nil, nil)
	}
	copy(c.v.Stats.Edges[:], c.g.counts[:link])
	c.g.counted()
	c.versions()
	if strict {
		c.realTime()
	}
	// The search for cycles needs none of these.
	c.order, c.owner, c.from, c.marks, c.sent, c.answered, c.session = nil, nil, nil, nil, nil, nil, nil
	return c.verdict(c.cycle(level))
}

// worst returns the first of the anomalies that need no cycle which was found and which the level rules out, or "".
func (c *checker) worst() Anomaly {
	for _, a := range [...]Anomaly{DuplicateID, GarbageRead, G1a, DirtyUpdate, G1b, Internal, IncompatibleOrder, LostUpdate} {
		if (a == Internal || a == LostUpdate) && c.v.Level < Serializable {
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

	// ids finds transactions: a hash table of indexes plus one with linear probing.
	ids  []uint32
	bits uint
	// writer[i] is the transaction that wrote the version of operation i: an index, initial or missing.
	writer []uint32
	// committed are the transactions in the graph.
	committed []bool
	// order lists the operations of committed transactions by key, owner their transactions; from[k] is where key k's begin.
	order, owner, from []uint32
	// marks[i] is scratch of versions: what transaction i has to do with the key at hand.
	marks []keyMark
	turn  uint32
	// sent and answered are the transactions in the order of these times, session by client.
	sent, answered, session []uint32

	direct map[Anomaly]*evidence
}

const (
	initial = math.MaxUint32     // the version that nobody wrote
	missing = math.MaxUint32 - 1 // a version of a transaction that the history does not have
)

// evidence shows an anomaly that needs no cycle: transactions, the key where it happened, and what else to tell.
type evidence struct {
	a, b    uint32 // a did it; b, if not initial, it did it to
	key     uint32
	version txn.ID
	nth, of uint8
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
				c.from[o.key+1]++
				total++
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
			at := next[o.key]
			next[o.key]++
			c.order[at], c.owner[at] = first+uint32(k), i
		}
	}
}

// internal looks for transactions that contradict themselves: that read another version of a row than the one they
// have read or written before.
func (c *checker) internal() {
	last := make([]uint32, len(c.h.keys)) // the operation before on the same key, plus one
	for i := range uint32(c.n) {
		if !c.committed[i] {
			continue
		}
		first := c.h.txns[i].ops
		id := c.h.txns[i].id
		for k, o := range c.h.opsOf(i) {
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

// realTime adds the order in time. Its nodes are instants: an instant stands for all the answers since the one before
// it, and comes after each of them and before everything sent later:
//
//	T1 -> instant 1 -> instant 2 -> ... -> T2
//
// so that one edge in and one out per transaction say what takes n*n edges between transactions, or n times the number of
// clients with a frontier of those that have just completed.
func (c *checker) realTime() {
	t := c.h.txns
	if c.sent == nil {
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
			if d := cmp.Compare(t[a].region, t[b].region); d != 0 {
				return d
			}
			return cmp.Compare(t[a].client, t[b].client)
		})
	}
	instant, any := uint32(0), false
	used := true // the instant has transactions after it: what is answered next needs another
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
	c.sessions()
}

// sessions adds the order of each client's transactions: it holds whatever the clocks say, and also when an answer and
// the next transaction happen at the same instant.
func (c *checker) sessions() {
	t := c.h.txns
	// done is the client's transaction that was answered last, of those answered when the next was sent.
	var done uint32
	var until time.Duration
	has := false
	for k, i := range c.session {
		if k == 0 || t[c.session[k-1]].region != t[i].region || t[c.session[k-1]].client != t[i].client {
			has = false
		}
		if has && until <= t[i].invoked {
			c.g.add(done, i, Session)
		}
		if t[i].status == txn.Committed && (!has || until <= t[i].invoked) {
			done, until, has = i, t[i].answered, true
		}
	}
}

// cycle looks for a cycle that the level rules out, the worst kind first, and returns the smallest of its kind. When one of
// another kind, that needs the order in time, is shorter, it returns that too: it is easier to understand.
func (c *checker) cycle(level Level) (worst, shorter []hop) {
	all := maskOf(WW, WR)
	if level >= Serializable {
		all |= maskOf(RW)
	}
	if level >= StrictSerializable {
		all |= maskOf(Session, RealTime)
	}
	of, count := c.g.components(all, nil)
	if count == 0 {
		return nil, nil
	}
	s := newSearch(c.g, c.n)
	for _, kind := range []struct {
		all, first, rest mask
	}{
		{maskOf(WW), maskOf(WW), maskOf(WW)},
		{maskOf(WW, WR), maskOf(WW, WR), maskOf(WW, WR)},
		{maskOf(WW, WR, RW), maskOf(RW), maskOf(WW, WR)},
		{maskOf(WW, WR, RW), maskOf(WW, WR, RW), maskOf(WW, WR, RW)},
		{maskOf(WW, WR, RW, Session), maskOf(WW, WR, RW, Session), maskOf(WW, WR, RW, Session)},
		{all, all, all},
	} {
		if kind.all&^all != 0 {
			break
		}
		parts, n := c.g.components(kind.all, of)
		if n == 0 {
			continue
		}
		s.left = patience
		if cycle := s.shortest(parts, n, kind.first, kind.rest); cycle != nil {
			c.v.Stats.Shortest = s.left > 0
			for i := range c.n {
				if parts[i] != 0 {
					c.v.Stats.Cyclic++
				}
			}
			if len(cycle) > 2 && kind.all != all {
				s.left = patience
				if shorter = s.shortest(of, count, all, all); len(shorter) >= len(cycle) {
					shorter = nil
				}
			}
			return cycle, shorter
		}
	}
	panic("history: a component without a cycle")
}
