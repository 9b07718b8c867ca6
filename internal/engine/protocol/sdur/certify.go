package sdur

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Verdict is a group's decision on a transaction.
type Verdict uint8

// The verdicts. All but Commit are abortions.
const (
	// Commit: the transaction has passed.
	Commit Verdict = iota + 1
	// Conflict: a concurrent transaction that was delivered before has written a row that this transaction has read. A
	// global transaction is also in conflict if the earlier one has read or written a row that it writes.
	Conflict
	// FalsePositive: a Bloom filter says so, although it is not the case.
	FalsePositive
	// TooOld: the transaction's snapshot is older than the filters that are kept.
	TooOld
	// Prevented: another group has waited in vain for the vote of this group, which had not delivered the transaction.
	Prevented
)

// Reasons of outcomes, in addition to a procedure's own reasons.
const (
	ReasonConflict      = "certification"
	ReasonFalsePositive = "false-positive"
	ReasonTooOld        = "snapshot-too-old"
	ReasonPrevented     = "vote-missing"
)

func (v Verdict) String() string {
	return [...]string{"", "commit", "conflict", "false positive", "too old", "prevented"}[v]
}

func (v Verdict) reason() string {
	return [...]string{"", "", ReasonConflict, ReasonFalsePositive, ReasonTooOld, ReasonPrevented}[v]
}

// footprint holds the data about a transaction in a group that certification needs. Rows are known by their hashes;
// ranges, and the keys of rows that may lie in a range, are stored in full.
type footprint struct {
	reads   []uint64
	ranges  []txn.Range
	writes  []uint64
	ordered []txn.Key
}

func footprintOf(u *Update) footprint {
	f := footprint{reads: u.Reads, ranges: u.Ranges}
	for i := range f.ranges { // they are kept for longer than the entry of the log
		r := &f.ranges[i]
		r.From, r.To = txn.Key(strings.Clone(string(r.From))), txn.Key(strings.Clone(string(r.To)))
	}
	if len(u.Writes) > 0 {
		f.writes = make([]uint64, len(u.Writes))
	}
	for i := range u.Writes {
		k := u.Writes[i].Key
		if f.writes[i] = hashOf(k); k.Ordered() {
			f.ordered = append(f.ordered, txn.Key(strings.Clone(string(k))))
		}
	}
	return f
}

// eachRead and eachWrite call add for all that the filter of the read set or the write set holds.
func (f *footprint) eachRead(add func(uint64)) {
	for _, h := range f.reads {
		add(h)
	}
	for i := range f.ranges {
		add(markOf(f.ranges[i].From))
	}
}

func (f *footprint) eachWrite(add func(uint64)) {
	for _, h := range f.writes {
		add(h)
	}
	for i, k := range f.ordered {
		if i == 0 || k.Unit() != f.ordered[i-1].Unit() {
			add(markOf(k))
		}
	}
}

// scans reports whether the transaction has scanned a row.
func (f *footprint) scans(k txn.Key) bool {
	return slices.ContainsFunc(f.ranges, func(r txn.Range) bool { return r.Contains(k) })
}

// writesIn reports whether the transaction writes a row of a range.
func (f *footprint) writesIn(r *txn.Range) bool { return slices.ContainsFunc(f.ordered, r.Contains) }

// window is the footprints and filters of the last transactions that have completed in a group.
type window struct {
	kept          int
	footprints    []footprint // by number modulo their count
	reads, writes filters
}

func newWindow(kept, size int) window {
	return window{kept: kept, reads: newFilters(size, kept), writes: newFilters(size, kept)}
}

// add adds transaction n, which follows the last transaction.
func (h *window) add(n uint64, f footprint) {
	if at := n % uint64(h.kept); at < uint64(len(h.footprints)) {
		h.footprints[at] = f
	} else {
		for uint64(len(h.footprints)) < at {
			h.footprints = append(h.footprints, footprint{})
		}
		h.footprints = append(h.footprints, f)
	}
	h.reads.begin(n)
	h.writes.begin(n)
	f.eachRead(func(hash uint64) { h.reads.add(n, hash) })
	f.eachWrite(func(hash uint64) { h.writes.add(n, hash) })
}

// remove empties the footprint of transaction n.
func (h *window) remove(n uint64) {
	f := h.at(n)
	f.eachRead(func(hash uint64) { h.reads.remove(n, hash) })
	f.eachWrite(func(hash uint64) { h.writes.remove(n, hash) })
	*f = footprint{}
}

func (h *window) at(n uint64) *footprint { return &h.footprints[n%uint64(h.kept)] }

// unfinished holds the filters of the pending transactions. Each has a separate place, numbered from 1, which is free
// again when the transaction has completed.
type unfinished struct {
	places        []*delivery
	free          []uint64
	reads, writes filters
}

func newUnfinished(size int) unfinished {
	return unfinished{places: []*delivery{nil}, reads: filters{size: size}, writes: filters{size: size}}
}

func (w *unfinished) add(x *delivery) {
	if last := len(w.free) - 1; last >= 0 {
		x.at, w.free = w.free[last], w.free[:last]
		w.places[x.at] = x
	} else {
		x.at, w.places = uint64(len(w.places)), append(w.places, x)
		if len(w.reads.blocks) <= int(x.at/64) {
			w.reads.grow()
			w.writes.grow()
		}
	}
	x.eachRead(func(hash uint64) { w.reads.add(x.at, hash) })
	x.eachWrite(func(hash uint64) { w.writes.add(x.at, hash) })
}

func (w *unfinished) remove(x *delivery) {
	x.eachRead(func(hash uint64) { w.reads.remove(x.at, hash) })
	x.eachWrite(func(hash uint64) { w.writes.remove(x.at, hash) })
	w.places[x.at], w.free = nil, append(w.free, x.at)
}

// certification is the certification of one transaction.
type certification struct {
	g     *group
	x     *delivery
	found Verdict
}

// certify certifies a transaction against all transactions that were delivered before it and are not in its snapshot,
// including the pending ones. Its reads must not intersect their writes. A transaction that passed here and is aborted
// by another group counts like the others until the log contains its end. So all members decide alike, regardless of
// when they learn of the abort. Other groups may deliver a global transaction in another order, so its writes must not
// intersect their reads or writes either.
func (g *group) certify(x *delivery) Verdict {
	c := certification{g: g, x: x, found: Commit}
	if x.global() || len(x.reads)+len(x.ranges) > 0 {
		if passed := g.completed + uint64(len(g.pending)); passed > x.Snapshot.Count+uint64(g.history.kept) {
			return TooOld
		}
		c.run()
	}
	return c.found
}

func (c *certification) run() {
	x, g := c.x, c.g
	for _, h := range x.reads {
		c.row(h, false)
	}
	for i := range x.ranges {
		c.scan(&x.ranges[i])
	}
	if !x.global() || g.r.mistake == oneWay {
		return
	}
	for _, h := range x.writes {
		c.row(h, false)
		c.row(h, true)
	}
	for _, k := range x.ordered {
		c.orderedWrite(k)
	}
}

// row looks for transactions that write a row, or read it.
func (c *certification) row(h uint64, reads bool) {
	set := func(f *footprint) []uint64 { return f.writes }
	if reads {
		set = func(f *footprint) []uint64 { return f.reads }
	}
	c.each(h, reads, func(f *footprint) Verdict {
		if slices.Contains(set(f), h) {
			return Conflict
		}
		return FalsePositive
	})
}

// scan looks for transactions that write rows of a range. The filter finds the transactions that write in the range's
// group; their keys decide whether they write in the range.
func (c *certification) scan(r *txn.Range) {
	c.each(markOf(r.From), false, func(f *footprint) Verdict {
		if f.writesIn(r) {
			return Conflict
		}
		return Commit
	})
}

// orderedWrite looks for transactions that have scanned a row.
func (c *certification) orderedWrite(k txn.Key) {
	c.each(markOf(k), true, func(f *footprint) Verdict {
		if f.scans(k) {
			return Conflict
		}
		return Commit
	})
}

// each calls ask for the concurrent transactions whose filters contain a hash, until a transaction is in conflict.
func (c *certification) each(h uint64, reads bool, ask func(*footprint) Verdict) {
	g, first := c.g, c.x.Snapshot.Count+1
	completed, pending := &g.history.writes, &g.unfinished.writes
	if reads {
		completed, pending = &g.history.reads, &g.unfinished.reads
	}
	for n := completed.next(h, first, g.completed); n != 0 && c.found != Conflict; n = completed.next(h, n+1, g.completed) {
		c.note(ask(g.history.at(n)))
	}
	if len(g.pending) == 0 || g.r.mistake == forgetPending {
		return
	}
	last := uint64(len(g.unfinished.places) - 1)
	for at := pending.next(h, 1, last); at != 0 && c.found != Conflict; at = pending.next(h, at+1, last) {
		p := g.unfinished.places[at]
		i := slices.Index(g.pending, p)
		seen := g.completed+1+uint64(i) < first
		if !seen && !p.gone() && !(g.r.mistake == overtaking && !c.x.global() && g.leapable(c.x, i)) {
			c.note(ask(&p.footprint))
		}
	}
}

func (c *certification) note(v Verdict) {
	g := c.g
	g.r.steps++
	if v == Conflict || v == FalsePositive && c.found == Commit {
		c.found = v
	}
}

// leapable reports whether a local transaction that is being delivered may leap over the pending transaction at a
// place. That transaction is a global transaction whose threshold cannot be reached yet, or follows such a transaction.
// All members know that the global transaction is pending, regardless of the votes that they have received.
func (g *group) leapable(x *delivery, at int) bool { return at >= g.firstLeapable(x) }

func (g *group) firstLeapable(x *delivery) int {
	first := len(g.pending)
	for i := len(g.pending) - 1; i >= 0; i-- {
		if p := g.pending[i]; p.global() {
			if x.number > p.number+g.r.threshold {
				break
			}
			first = i
		}
	}
	return first
}

// place returns the place among the pending transactions for a transaction that has passed. A global transaction goes
// to the end. A local transaction goes to the leftmost place where it does not conflict with the transactions that it
// leaps over. None of them writes a row that it has read, as certification has found; none of them may read or write a
// row that it writes.
func (g *group) place(x *delivery) int {
	at := len(g.pending)
	if x.global() || g.r.threshold == 0 {
		return at
	}
	first := g.firstLeapable(x)
	if first < at {
		g.count(&g.r.counters.leapTries)
	}
	for at > first && (g.r.mistake == leapReads || !g.meets(x, g.pending[at-1])) {
		at--
	}
	return at
}

// meets reports whether a transaction writes a row that another transaction reads or writes, according to the filters.
func (g *group) meets(x, p *delivery) bool {
	if p.gone() {
		return false
	}
	size := g.r.filterBits
	for _, h := range x.writes {
		if p.filter(g, true).has(h, size) || p.filter(g, false).has(h, size) {
			return true
		}
	}
	return slices.ContainsFunc(x.ordered, p.scans)
}
