package sdur

import (
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// Verdict is a group's decision on a transaction.
type Verdict uint8

// The verdicts. Every verdict except Commit is an abort.
const (
	// Commit: the transaction has passed certification.
	Commit Verdict = iota + 1
	// Conflict: a concurrent transaction that was delivered earlier has written a row that this transaction has read. If
	// this transaction is global, reads and writes of the rows that it writes are conflicts, too.
	Conflict
	// FalsePositive: a Bloom filter reported a conflict that the footprints do not confirm.
	FalsePositive
	// TooOld: the filters of some transactions after the snapshot are no longer kept.
	TooOld
	// Prevented: another group demanded this group's vote before this group had delivered the transaction.
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

// footprint describes a transaction's part in a group, as far as certification needs it. It identifies rows by their
// hashes. Ranges, and the written keys that may lie in a range, are stored in full.
//
//codec:part
type footprint struct {
	reads   []uint64 `codec:"fixed"`
	writes  []uint64 `codec:"fixed"`
	ranges  []txn.Range
	ordered []txn.Key
}

func footprintOf(u *Update) footprint {
	f := footprint{reads: u.Reads, ranges: u.Ranges}
	for i := range f.ranges { // They outlive the log entry, so they must not alias its buffer.
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

// eachRead and eachWrite call add with every hash in the filter of the read set or the write set.
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

// scans reports whether key k lies in a range that the transaction has scanned.
func (f *footprint) scans(k txn.Key) bool {
	return slices.ContainsFunc(f.ranges, func(r txn.Range) bool { return r.Contains(k) })
}

// writesIn reports whether the transaction writes a row in range r.
func (f *footprint) writesIn(r *txn.Range) bool { return slices.ContainsFunc(f.ordered, r.Contains) }

// window stores the footprints and filters of the last transactions that completed in a group. kept is the maximum
// number of these transactions.
type window struct {
	kept          int
	footprints    []footprint // by transaction number modulo kept
	reads, writes filters
}

func newWindow(kept, size int) window {
	return window{kept: kept, reads: newFilters(size, kept), writes: newFilters(size, kept)}
}

// add adds the footprint of transaction n, the successor of the last added transaction.
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

// remove removes the footprint and the filters of transaction n.
func (h *window) remove(n uint64) {
	f := h.at(n)
	f.eachRead(func(hash uint64) { h.reads.remove(n, hash) })
	f.eachWrite(func(hash uint64) { h.writes.remove(n, hash) })
	*f = footprint{}
}

func (h *window) at(n uint64) *footprint { return &h.footprints[n%uint64(h.kept)] }

// unfinished keeps the filters of the pending transactions. Each pending transaction has an index from 1, which is
// reused after the transaction has completed.
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

// certification is the certification of transaction x in group g.
type certification struct {
	g     *group
	x     *delivery
	found Verdict
}

// certify certifies x against all concurrent transactions. Concurrent transactions, including pending ones, were
// delivered before x and are not in its snapshot. The reads of x must not intersect their writes. If x is global, other
// groups may deliver it in another order, so the writes of x must not intersect their reads or writes either.
//
// A transaction that has passed here and was aborted by another group counts until the log contains its outcome. All
// members therefore decide alike, regardless of when they learn of the abort.
func (g *group) certify(x *delivery) Verdict {
	c := certification{g: g, x: x, found: Commit}
	// A local transaction without reads conflicts with nothing: the log orders its writes.
	if x.global() || len(x.reads)+len(x.ranges) > 0 {
		// A leader completes transactions before the log contains their outcomes. The sum is nevertheless equal at all
		// members, so they all decide alike.
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
	// Within one group, the log orders writes. Only another group's log can order a global transaction differently.
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

// row checks for concurrent transactions that write the row with hash h, or that read it if reads is set.
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

// scan checks for concurrent transactions that write rows of range r. The filter finds transactions that write in the
// range's group of rows; their keys decide whether they write in the range.
func (c *certification) scan(r *txn.Range) {
	c.each(markOf(r.From), false, func(f *footprint) Verdict {
		if f.writesIn(r) {
			return Conflict
		}
		return Commit
	})
}

// orderedWrite checks for concurrent transactions that have scanned a range with key k.
func (c *certification) orderedWrite(k txn.Key) {
	c.each(markOf(k), true, func(f *footprint) Verdict {
		if f.scans(k) {
			return Conflict
		}
		return Commit
	})
}

// each calls ask for the concurrent transactions whose filters contain hash h, until it finds a conflict.
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
		// The pending transaction at index i will complete as number completed+1+i. A member that is ahead may already have
		// included it in the snapshot.
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

// leapable reports whether a local transaction that is being delivered may leap over the pending transaction at index
// at.
//
// It may if the pending transaction is a global transaction that cannot have reached its threshold yet, or follows such
// a transaction. All members then know that the global transaction is pending, regardless of the votes that they have
// received.
func (g *group) leapable(x *delivery, at int) bool { return at >= g.firstLeapable(x) }

func (g *group) firstLeapable(x *delivery) int {
	first := len(g.pending)
	for i := len(g.pending) - 1; i >= 0; i-- {
		if p := g.pending[i]; p.global() {
			// From this delivery on, a member that knows the votes may already have completed p, so leaping over it would
			// differ between members.
			if x.number > p.number+g.r.threshold {
				break
			}
			first = i
		}
	}
	return first
}

// place returns the index in pending at which to insert x, which has passed certification. A global transaction goes to
// the end. A local transaction goes to the lowest index where it conflicts with none of the transactions that it leaps
// over. Certification has already checked that none of these transactions writes a row that x has read. place checks
// that none of them reads or writes a row that x writes.
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

// meets reports whether x writes a row that p reads or writes, according to the filters; false if p is aborted.
func (g *group) meets(x, p *delivery) bool {
	// All members know this abort from the log; its reads and writes no longer conflict.
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
