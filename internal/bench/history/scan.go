package history

import (
	"cmp"
	"slices"
	"sort"
)

// scans holds the checker's state for transactions that scanned ranges.
//
// A scan implies that each row of its range that its transaction has not used was absent, in the initial version. The
// writer of the row's first version therefore follows the scan (Adya's predicate-anti-dependency); otherwise the scan
// would have found the row. A range may be wide and contain few rows, for example all orders since the oldest open
// order. Adding these dependencies one by one would be too expensive. Instead, the rows are the leaves of a binary tree
// in which links lead down to the writers of the first versions. For the gap between two rows that it found, a scan
// needs edges to at most two nodes per level.
type scans struct {
	list []scan
	// keys lists, in order, the rows that committed transactions used and that some scan covers. rank[k] is the index of
	// key k in keys, plus one.
	keys []uint32
	rank []uint32
	// all is used for scans that report deleted rows, and kept for scans that do not. kept omits the rows that a
	// transaction is known to have deleted. A scan that did not find such a row may precede its first version or
	// follow its deletion.
	all, kept rows
	// predicate has a bit per operation. The bit is set for a read of a deleted row that a scan found. It is also set for
	// a write of a row that an earlier scan of the same transaction did not find.
	predicate []uint64
	touches   []touch // of the current transaction
}

// scan is a scan by a transaction. It covers the rows in keys[from:to].
type scan struct {
	operation, txn, from, to uint32
}

// touch is an operation on the row keys[place].
type touch struct {
	place, operation uint32
}

// rows holds two counts for each index of keys, over all rows before it. The first counts rows with a version other
// than the initial version, and the second counts rows known to have been loaded. The rows of the first count are the
// leaves of the tree.
type rows struct {
	written, loaded []uint32
	tree
}

func (r *rows) count(written, loaded bool) {
	add := func(to []uint32, is bool) []uint32 {
		n := to[len(to)-1]
		if is {
			n++
		}
		return append(to, n)
	}
	r.written, r.loaded = add(r.written, written), add(r.loaded, loaded)
}

// findScans prepares the state for the dependencies of scans.
func (c *checker) findScans() {
	p := &scans{rank: make([]uint32, len(c.h.keys)), predicate: make([]uint64, (len(c.h.ops)+63)/64)}
	p.all = rows{written: []uint32{0}, loaded: []uint32{0}}
	p.kept = rows{written: []uint32{0}, loaded: []uint32{0}}
	anyKept := false
	for i := range uint32(c.n) {
		if c.committed[i] {
			for k, o := range c.h.opsOf(i) {
				if o.scan() {
					p.list = append(p.list, scan{operation: c.h.txns[i].ops + uint32(k), txn: i})
					anyKept = anyKept || o.gone()
				}
			}
		}
	}
	c.scans = p
	p.keys = c.covered()
	for at, k := range p.keys {
		p.rank[k] = uint32(at) + 1
		written, loaded, deleted := false, false, false
		for _, operation := range c.order[c.from[k]:c.from[k+1]] {
			o := &c.h.ops[operation]
			// A read of another version proves that a transaction wrote the row, even if it reported nothing.
			written = written || o.write() || o.known() && o.version != Initial
			deleted = deleted || o.write() && o.gone()
			loaded = loaded || c.loaded(operation)
		}
		p.all.count(written, loaded)
		kept := anyKept && !deleted
		p.kept.count(written && kept, loaded && kept)
	}
	place := func(bound uint32) uint32 {
		return uint32(sort.Search(len(p.keys), func(i int) bool { return c.h.keys[p.keys[i]] >= c.h.bounds[bound] }))
	}
	for i := range p.list {
		s := &p.list[i]
		o := &c.h.ops[s.operation]
		s.from, s.to = place(o.key), place(uint32(o.version))
	}
	c.judgeScans()
}

// loaded reports whether an operation proves that its row existed before the first transaction.
func (c *checker) loaded(operation uint32) bool {
	o := &c.h.ops[operation]
	return o.read() && o.known() && o.version == Initial && !o.gone()
}

// covered returns, in order, the rows that committed transactions used and that some scan covers.
func (c *checker) covered() (keys []uint32) {
	// union holds disjoint ranges in order.
	union := make([][2]string, 0, len(c.scans.list))
	for _, s := range c.scans.list {
		o := &c.h.ops[s.operation]
		union = append(union, [2]string{string(c.h.bounds[o.key]), string(c.h.bounds[o.version])})
	}
	slices.SortFunc(union, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	n := 0
	for _, r := range union {
		// Overlapping ranges are merged, so that a single binary search finds the range of a key.
		if n > 0 && r[0] <= union[n-1][1] {
			union[n-1][1] = max(union[n-1][1], r[1])
		} else {
			union[n] = r
			n++
		}
	}
	for k := range uint32(len(c.h.keys)) {
		key := string(c.h.keys[k])
		if at := sort.Search(n, func(i int) bool { return union[i][0] > key }); at > 0 && key < union[at-1][1] && c.from[k] < c.from[k+1] {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b uint32) int { return cmp.Compare(c.h.keys[a], c.h.keys[b]) })
	return keys
}

// rowsOf returns the rows whose absence from a scan is evidence; nil if there are none. For a scan that does not report
// deleted rows, it returns nil if any outcome is unknown. A transaction with an unknown outcome may have deleted any
// row.
func (c *checker) rowsOf(s *scan) *rows {
	switch {
	case !c.h.ops[s.operation].gone():
		return &c.scans.all
	case c.v.Stats.Unknown > 0:
		return nil
	}
	return &c.scans.kept
}

// eachScan visits the rows of every scan's range. It calls unmet with each range [from, to) of rows that the
// transaction neither used before the scan nor writes. It calls touched with the transaction's operations on each
// remaining row; met is set if the transaction used the row before the scan.
func (c *checker) eachScan(unmet func(s *scan, from, to uint32), touched func(s *scan, on []touch, met bool)) {
	p := c.scans
	for at := range p.list {
		s := &p.list[at]
		if at == 0 || p.list[at-1].txn != s.txn {
			c.touch(s.txn)
		}
		search := func(place uint32) int {
			return sort.Search(len(p.touches), func(i int) bool { return p.touches[i].place >= place })
		}
		next := s.from
		for on := p.touches[search(s.from):search(s.to)]; len(on) > 0; {
			n := 1
			for n < len(on) && on[n].place == on[0].place {
				n++
			}
			// The operations on a row are in order, so the first operation decides whether the transaction used the row before
			// the scan.
			met := on[0].operation < s.operation
			if met || slices.ContainsFunc(on[:n], func(t touch) bool { return c.h.ops[t.operation].write() }) {
				if next < on[0].place {
					unmet(s, next, on[0].place)
				}
				next = on[0].place + 1
				touched(s, on[:n], met)
			}
			on = on[n:]
		}
		if next < s.to {
			unmet(s, next, s.to)
		}
	}
}

// touch lists the operations of transaction i on rows that scans cover, ordered by row and then by position.
func (c *checker) touch(i uint32) {
	p := c.scans
	p.touches = p.touches[:0]
	for k, o := range c.h.opsOf(i) {
		if !o.scan() && p.rank[o.key] != 0 {
			p.touches = append(p.touches, touch{p.rank[o.key] - 1, c.h.txns[i].ops + uint32(k)})
		}
	}
	slices.SortFunc(p.touches, func(a, b touch) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.operation, b.operation))
	})
}

// judgeScans marks the operations that scans turn into predicate reads. It notes an anomaly if a scan did not find a
// loaded row. If the row was deleted later, the scan either finds it as a deleted row or provides no evidence about it.
func (c *checker) judgeScans() {
	p := c.scans
	mark := func(operation uint32) { p.predicate[operation/64] |= 1 << (operation % 64) }
	unmet := func(s *scan, from, to uint32) {
		r := c.rowsOf(s)
		if r == nil || r.loaded[from] == r.loaded[to] {
			return
		}
		// Report the first loaded row of the range.
		for r.loaded[from] == r.loaded[from+1] {
			from++
		}
		k := p.keys[from]
		e := evidence{a: s.txn, key: k}
		for at := c.from[k]; at < c.from[k+1]; at++ {
			if c.loaded(c.order[at]) {
				e.b = c.owner[at]
				break
			}
		}
		c.note(PredicateReadMiss, e)
	}
	c.eachScan(unmet, func(s *scan, on []touch, met bool) {
		if at := on[0].place; !met {
			unmet(s, at, at+1)
			// The row may not have existed yet or may already have been deleted, so the scan implies no dependency.
			if r := c.rowsOf(s); r == nil || r.written[at] == r.written[at+1] {
				c.v.Stats.Unresolved++
				return
			}
			mark(on[slices.IndexFunc(on, func(t touch) bool { return c.h.ops[t.operation].write() })].operation)
			return
		}
		for _, t := range on {
			if o := &c.h.ops[t.operation]; o.read() && o.gone() && t.operation < s.operation {
				mark(t.operation)
			}
		}
	})
}

// stands reports whether an operation counts as a predicate read: see scans.predicate.
func (p *scans) stands(operation uint32) bool {
	return p.predicate[operation/64]>>(operation%64)&1 != 0
}

// plant adds the trees to the graph, and edges from scans to the nodes of the trees. plantLeaves links the leaves
// later, together with the versions of their rows.
func (c *checker) plant() {
	p := c.scans
	for _, r := range [...]*rows{&p.all, &p.kept} {
		r.plant(c.g, r.written[len(p.keys)])
	}
	c.eachScan(func(s *scan, from, to uint32) {
		r := c.rowsOf(s)
		resolved := uint32(0)
		if r != nil {
			resolved = r.written[to] - r.written[from]
			r.cover(r.written[from], r.written[to], func(node uint32) { c.g.add(s.txn, node, PredicateRW) })
		}
		// Both passes visit all scans, but only the first may count.
		if !c.g.fill {
			c.v.Stats.Unresolved += int(p.all.written[to] - p.all.written[from] - resolved)
		}
	}, func(*scan, []touch, bool) {})
}

// plantLeaves links the leaves of the current row to the writers of its first version.
func (c *checker) plantLeaves(ch *chain) {
	at := c.scans.rank[ch.key]
	if at == 0 {
		return
	}
	for _, r := range [...]*rows{&c.scans.all, &c.scans.kept} {
		if r.written[at-1] == r.written[at] {
			continue
		}
		leaf := r.leaf(r.written[at-1])
		for _, s := range ch.versions[0].next {
			if s != 0 {
				c.g.add(leaf, ch.versions[s].writer, link)
			}
		}
		// Unordered versions directly after the initial version are all candidates for the first version.
		if ch.after != 0 && ch.tail == 0 {
			c.g.add(leaf, ch.after, link)
		}
	}
}

// tree is a binary tree whose nodes are nodes of the graph. Node 1 is the root, node x has the children 2x and 2x+1,
// and the last nodes are the leaves. If the number of leaves is not a power of two, some nodes have leaves from both
// ends of the order below them. The method cover does not use such nodes.
type tree struct {
	base, leaves uint32
}

func (t *tree) node(x uint32) uint32 { return t.base + x - 1 }

// leaf returns the graph node of leaf i.
func (t *tree) leaf(i uint32) uint32 { return t.node(t.leaves + i) }

// plant creates the nodes of the tree and the links from parents to children.
func (t *tree) plant(g *graph, leaves uint32) {
	*t = tree{leaves: leaves}
	for x := uint32(1); x < 2*leaves; x++ {
		if n := g.node(); x == 1 {
			t.base = n
		}
	}
	for x := uint32(1); x < leaves; x++ {
		g.add(t.node(x), t.node(2*x), link)
		g.add(t.node(x), t.node(2*x+1), link)
	}
}

// cover calls f with a minimal set of nodes that together have exactly the leaves [from, to) below them.
func (t *tree) cover(from, to uint32, f func(node uint32)) {
	for from, to = from+t.leaves, to+t.leaves; from < to; from, to = from/2, to/2 {
		if from&1 == 1 {
			f(t.node(from))
			from++
		}
		if to&1 == 1 {
			to--
			f(t.node(to))
		}
	}
}
