package history

import (
	"math"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// keyMark describes how a transaction used the current key. It is valid only if its turn equals checker.turn.
type keyMark struct {
	turn  uint32
	write uint32 // index of its version in chain.versions, or 0
	read  uint32 // index of the version that it read, plus 1, or 0
}

// version is a version of the current key.
type version struct {
	writer uint32
	before uint32 // operation that overwrote the previous version, or unknownBefore
	nth    uint8  // number of writes by the writer
	row    presence
	// witness is the transaction that reported the value of row.
	witness uint32
	// next holds up to two versions that overwrote this version; the second already proves an anomaly.
	next [2]uint32
}

const unknownBefore = math.MaxUint32

// presence states whether a version of a row contains the row, if known.
type presence uint8

const (
	unknownPresence presence = iota
	there
	gone
)

func presenceOf(o *op) presence {
	if o.gone() {
		return gone
	}
	return there
}

// chain holds the versions of the current key. versions[0] is the initial version.
type chain struct {
	key      uint32
	versions []version
	heads    []uint32 // versions for which the overwritten version is unknown
	// tail is the last version of the chain that starts at the initial version, if several heads follow this version in
	// unknown order. after is the graph node that represents these heads, or 0. tail is valid only if after is not 0.
	tail  uint32
	after uint32
}

// versions adds the dependencies at every key, and notes the anomalies that need no cycle.
func (c *checker) versions() {
	if c.marks == nil {
		c.marks = make([]keyMark, c.n)
	}
	var ch chain
	for k := range c.h.keys {
		from, to := c.from[k], c.from[k+1]
		if from == to {
			continue
		}
		c.turn++
		ch.key = uint32(k)
		c.collect(&ch, from, to)
		c.connect(&ch, from, to)
		if ch.after = 0; len(ch.heads) > 1 {
			if !c.g.fill {
				c.v.Stats.Unordered += len(ch.heads)
			}
			ch.after = c.g.node()
		}
		c.emit(&ch, from, to)
	}
}

// mark returns the mark of transaction i for the current key.
func (c *checker) mark(i uint32) *keyMark {
	m := &c.marks[i]
	if m.turn != c.turn {
		*m = keyMark{turn: c.turn}
	}
	return m
}

// collect lists the versions of the key that committed transactions report, and the versions of unknown transactions
// that another transaction observed.
func (c *checker) collect(ch *chain, from, to uint32) {
	ch.versions = append(ch.versions[:0], version{writer: initial, before: unknownBefore})
	for at := from; at < to; at++ {
		i, o := c.owner[at], &c.h.ops[c.order[at]]
		if !o.write() {
			continue
		}
		m := c.mark(i)
		if m.write != 0 { // a further write of the same row
			v := &ch.versions[m.write]
			v.nth, v.row = max(v.nth, o.nth), presenceOf(o)
			continue
		}
		m.write = uint32(len(ch.versions))
		v := version{writer: i, before: unknownBefore, nth: o.nth, row: presenceOf(o), witness: i}
		if o.known() {
			v.before = c.order[at]
		}
		ch.versions = append(ch.versions, v)
	}
	for at := from; at < to; at++ {
		i, o := c.owner[at], &c.h.ops[c.order[at]]
		w := c.writer[c.order[at]]
		if !o.known() || w == i {
			continue
		}
		if w == initial {
			if o.read() && ch.versions[0].row != presenceOf(o) {
				c.look(ch, &ch.versions[0], i, o)
			}
			continue
		}
		e := evidence{a: i, b: w, key: ch.key, version: o.version, nth: o.nth}
		switch {
		case w == missing:
			e.b = initial
			c.note(GarbageRead, e)
		case !c.committed[w] && o.write():
			c.note(DirtyUpdate, e)
		case !c.committed[w]:
			c.note(G1a, e)
		// Only the last write of a transaction may be visible to other transactions.
		case c.mark(w).write != 0:
			if v := &ch.versions[c.mark(w).write]; !o.write() && o.nth != 0 && v.nth != 0 && o.nth != v.nth {
				e.of = v.nth
				c.note(G1b, e)
			} else if o.read() && v.row != presenceOf(o) {
				c.look(ch, v, i, o)
			}
		// The writer reported nothing, so this observation is the only evidence of its version.
		case c.h.txns[w].status == txn.Unknown && len(c.h.opsOf(w)) == 0:
			c.mark(w).write = uint32(len(ch.versions))
			ch.versions = append(ch.versions, version{writer: w, before: unknownBefore})
			if o.read() {
				c.look(ch, &ch.versions[len(ch.versions)-1], i, o)
			}
		default:
			c.note(GarbageRead, e)
		}
	}
}

// look records whether a version contains the row, as observed by transaction i. It notes an anomaly if this
// contradicts the earlier observation by the version's witness.
func (c *checker) look(ch *chain, v *version, i uint32, o *op) {
	if v.row == unknownPresence {
		v.row, v.witness = presenceOf(o), i
		return
	}
	c.note(GarbageRead, evidence{a: i, b: v.witness, key: ch.key, version: o.version, found: presenceOf(o)})
}

// place returns the index of the version that an operation read or overwrote; false if that version was not committed.
func (c *checker) place(operation uint32) (at uint32, ok bool) {
	w := c.writer[operation]
	if w == initial {
		return 0, true
	}
	if w == missing || !c.committed[w] {
		return 0, false
	}
	at = c.mark(w).write
	return at, at != 0
}

// connect orders the versions of the key.
func (c *checker) connect(ch *chain, from, to uint32) {
	for at := from; at < to; at++ {
		if o := &c.h.ops[c.order[at]]; !o.write() && o.known() {
			if p, ok := c.place(c.order[at]); ok {
				c.mark(c.owner[at]).read = p + 1
			}
		}
	}
	ch.heads = ch.heads[:0]
	for i := 1; i < len(ch.versions); i++ {
		v := &ch.versions[i]
		var p uint32
		ok := false
		if v.before != unknownBefore {
			p, ok = c.place(v.before)
		}
		// A transaction may report that it overwrote its own version, which says nothing about the order.
		if !ok || p == uint32(i) {
			ch.heads = append(ch.heads, uint32(i))
			continue
		}
		u := &ch.versions[p]
		switch {
		case u.next[0] == 0:
			u.next[0] = uint32(i)
			continue
		case u.next[1] == 0:
			u.next[1] = uint32(i)
		}
		other := ch.versions[u.next[0]].writer
		a := IncompatibleOrder
		// Both transactions read the version that they replaced, so this is a lost update rather than an incompatible order.
		if c.mark(v.writer).read == p+1 && c.mark(other).read == p+1 {
			a = LostUpdate
		}
		e := evidence{a: v.writer, b: other, key: ch.key}
		if u.writer != initial {
			e.version = c.h.txns[u.writer].id
		}
		c.note(a, e)
	}
	if c.v.Level == isolation.ReadCommitted {
		// Updates may be lost at this level: a transaction may overwrite versions later than the version that it has seen.
		// Versions without a known predecessor are therefore unordered.
		ch.heads = ch.heads[:0]
	}
	if len(ch.heads) == 0 {
		return
	}
	// Every version with a known predecessor is in the chain from the initial version. A head cannot lie between two
	// versions of the chain, so it follows the chain.
	ch.tail = 0
	for ch.versions[ch.tail].next[0] != 0 {
		ch.tail = ch.versions[ch.tail].next[0]
	}
	// A single head has a definite position: the end of the chain.
	if len(ch.heads) == 1 {
		ch.versions[ch.tail].next[0] = ch.heads[0]
	}
}

// emit adds the dependencies between the transactions that used the key.
func (c *checker) emit(ch *chain, from, to uint32) {
	g := c.g
	for i := 1; i < len(ch.versions); i++ {
		v := &ch.versions[i]
		for _, s := range v.next {
			if s != 0 {
				g.add(v.writer, ch.versions[s].writer, WW)
			}
		}
	}
	if ch.after != 0 {
		if ch.tail != 0 {
			g.add(ch.versions[ch.tail].writer, ch.after, WW)
		}
		for _, i := range ch.heads {
			g.add(ch.after, ch.versions[i].writer, link)
		}
	}
	if c.scans != nil {
		c.plantLeaves(ch)
	}
	maybeDeleted, counted := false, false
	for at := from; at < to; at++ {
		i, o := c.owner[at], &c.h.ops[c.order[at]]
		d := RW
		if c.scans != nil && c.scans.stands(c.order[at]) {
			d = PredicateRW
		}
		if o.write() {
			if d == PredicateRW {
				c.replaced(ch, i, 0, d)
			}
			continue
		}
		var p uint32
		if o.known() {
			var ok bool
			if p, ok = c.place(c.order[at]); !ok {
				continue
			}
		} else {
			if !counted {
				// An unknown transaction that reported no operations may have deleted any row.
				counted, maybeDeleted = true, c.v.Stats.Unknown > 0
				for k := from; k < to && !maybeDeleted; k++ {
					d := &c.h.ops[c.order[k]]
					maybeDeleted = d.write() && d.gone()
				}
			}
			// If no transaction deletes the row, a missing row is in its initial version: the row does not exist yet.
			if !o.gone() || maybeDeleted {
				if !g.fill {
					c.v.Stats.Unresolved++
				}
				continue
			}
		}
		if v := &ch.versions[p]; v.writer != i {
			if p != 0 {
				g.add(v.writer, i, WR)
			}
			c.replaced(ch, i, p, d)
		}
	}
}

// replaced adds the dependencies of transaction i, which read the version at index p, on the transactions that replaced
// this version.
func (c *checker) replaced(ch *chain, i, p uint32, d Dependency) {
	for _, s := range ch.versions[p].next {
		if s != 0 && ch.versions[s].writer != i {
			c.g.add(i, ch.versions[s].writer, d)
		}
	}
	// A transaction with its own write among the unordered versions is skipped, because it does not precede itself.
	if ch.after != 0 && p == ch.tail && !c.isHead(ch, i) {
		c.g.add(i, ch.after, d)
	}
}

// isHead reports whether transaction i wrote a version of the key for which the overwritten version is unknown.
func (c *checker) isHead(ch *chain, i uint32) bool {
	w := c.mark(i).write
	if w == 0 {
		return false
	}
	v := &ch.versions[w]
	if v.before == unknownBefore {
		return true
	}
	p, ok := c.place(v.before)
	return !ok || p == w
}
