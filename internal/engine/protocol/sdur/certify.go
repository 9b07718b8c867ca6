package sdur

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Verdict is what a group makes of a transaction.
type Verdict uint8

// The verdicts. All but Commit are abortions.
const (
	// Commit: the transaction has passed.
	Commit Verdict = iota + 1
	// Conflict: a concurrent transaction that was delivered before has written what this one has read, or, of a global
	// transaction, has read or written what this one writes.
	Conflict
	// FalsePositive: a Bloom filter says so, although it is not the case.
	FalsePositive
	// TooOld: the transaction's snapshot is older than the filters that are kept.
	TooOld
	// Prevented: another group has waited in vain for this one's vote, which had not delivered the transaction.
	Prevented
)

// Reasons of outcomes, beside a procedure's own.
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

// footprint is what certification needs to know of a transaction in a group. Rows are known by their hashes; ranges,
// and the keys of rows that may lie in a range, as they are.
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

// add adds transaction n, the next one.
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

// remove makes transaction n one that has read and written nothing.
func (h *window) remove(n uint64) {
	f := h.at(n)
	f.eachRead(func(hash uint64) { h.reads.remove(n, hash) })
	f.eachWrite(func(hash uint64) { h.writes.remove(n, hash) })
	*f = footprint{}
}

func (h *window) at(n uint64) *footprint { return &h.footprints[n%uint64(h.kept)] }

// unfinished is the filters of the pending transactions, each in a place of its own, from 1, that is free again when
// it has completed.
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

// certification is one transaction's.
type certification struct {
	g     *group
	x     *delivery
	found Verdict
}

// certify certifies a transaction against all that were delivered before it and are not in its snapshot, the pending
// ones included: what it has read must not meet what they write. A transaction that passed here and is aborted by
// another group counts like the others until the log says so, so that all members decide alike whenever they hear of
// that. A global transaction may be delivered elsewhere in another order, so that what it writes must not meet what
// they read or write, either.
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

// row looks for those who write a row, or who read it.
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

// scan looks for those who write rows of a range. The filter knows who writes in the range's group at all, and the keys
// of these say the rest.
func (c *certification) scan(r *txn.Range) {
	c.each(markOf(r.From), false, func(f *footprint) Verdict {
		if f.writesIn(r) {
			return Conflict
		}
		return Commit
	})
}

// orderedWrite looks for those who have scanned a row.
func (c *certification) orderedWrite(k txn.Key) {
	c.each(markOf(k), true, func(f *footprint) Verdict {
		if f.scans(k) {
			return Conflict
		}
		return Commit
	})
}

// each asks about the concurrent transactions whose filters have a hash, until one is in conflict.
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

// leapable reports whether a local transaction that is being delivered may leap over what stands at a place of the
// pending ones: a global one whose threshold cannot be reached yet, or what stands behind such a one. All members
// know that it is pending, whatever votes have reached them.
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

// place returns where among the pending transactions one is put that has passed: at the end, or, if it is local, at
// the leftmost place from which it meets nothing of those that it leaps over. What it has read is not written by any
// of them, as certification has found; what it writes must not be read or written by them.
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

// meets reports whether a transaction writes what another one reads or writes, as far as the filters know.
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
