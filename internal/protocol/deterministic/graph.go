package deterministic

import "slices"

// Vertex is a transaction in the waits-for graph of one partition, all of whose parts here have arrived: it will wait
// for no others here than those that it waits for now.
type Vertex struct {
	Place
	// Participants is the number of partitions that the transaction touches.
	Participants int
	// Stable says that all transactions right ahead of it are vertices, too. The others, some of whose parts here are
	// missing, may come to wait for anybody.
	Stable bool
	// After are the vertices right ahead of it in some queue. It also waits for those that these wait for.
	After []uint32
}

// link appends e to the list of the running transactions.
func (x *Executor) link(e *execution) {
	if !x.c.Reorderable {
		return
	}
	e.linked, e.older = true, x.last
	if x.last == nil {
		x.first = e
	} else {
		x.last.newer = e
	}
	x.last = e
}

func (x *Executor) unlink(e *execution) {
	if !e.linked {
		return
	}
	if e.older == nil {
		x.first = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		x.last = e.older
	} else {
		e.newer.older = e.older
	}
}

// Waiting reports whether any transaction waits for something here. Only Reorderable executors know.
func (x *Executor) Waiting() bool { return x.first != nil }

// Graph returns the waits-for graph of this partition in the order of the transactions' arrival. Those that Reorder has
// given their turn are left out: nobody waits for them for ever.
func (x *Executor) Graph() []Vertex {
	x.passes++
	n := 0
	for e := x.first; e != nil; e = e.newer {
		if e.complete() && !e.reordered {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	graph := make([]Vertex, 0, n)
	for e := x.first; e != nil; e = e.newer {
		if e.complete() && !e.reordered {
			e.vertex = int32(len(graph))
			graph = append(graph, Vertex{Place: e.at, Participants: e.participants(), Stable: true})
		}
	}
	for e := x.first; e != nil; e = e.newer {
		if !e.complete() || e.reordered {
			continue
		}
		for i := range e.slots {
			if e.slots[i].local {
				if l := x.locks.locks[e.t.Accesses[i].Key]; l != nil && l.pass != x.passes {
					l.pass = x.passes
					x.addEdges(graph, l)
				}
			}
		}
	}
	x.edges = nil
	return graph
}

// edge returns room for one edge: most vertices have no more.
func (x *Executor) edge() []uint32 {
	if len(x.edges) == 0 {
		x.edges = make([]uint32, 1024)
	}
	room := x.edges[:0:1]
	x.edges = x.edges[1:]
	return room
}

// addEdges adds what a queue says: a writer is after the readers ahead of it or, if there are none, the writer, and a
// reader is after the last writer.
func (x *Executor) addEdges(graph []Vertex, l *lock) {
	const nobody, incomplete = -1, -2
	writer := int32(nobody)
	readers, unstable := x.readers[:0], false // since that writer; whether one of them is incomplete
	for q := l.head; q != nil; q = q.next {
		if q.owner.reordered {
			continue
		}
		if !q.owner.complete() {
			if q.write {
				writer, readers, unstable = incomplete, readers[:0], false
			} else {
				unstable = true
			}
			continue
		}
		v := &graph[q.owner.vertex]
		if !q.write || len(readers) == 0 && !unstable {
			if writer >= 0 {
				if v.After == nil {
					v.After = x.edge()
				}
				v.After = append(v.After, uint32(writer))
			}
			v.Stable = v.Stable && writer != incomplete
		}
		if q.write {
			v.After = append(v.After, readers...)
			v.Stable = v.Stable && !unstable
			writer, readers, unstable = q.owner.vertex, readers[:0], false
		} else {
			readers = append(readers, uint32(q.owner.vertex))
		}
	}
	x.readers = readers[:0]
}

// Reorder gives the transactions of a deadlock their turn in the order given. They must be a whole strongly connected
// component of the copy's waits-for graph to which nothing can be added, and everybody must reorder it alike.
//
// In each queue they come together, behind the requests that some of them wait for, and ahead of those that wait for some
// of them: a request cannot be both, or it would belong to the component. What they have read so far is void: they
// read again, here and elsewhere.
func (x *Executor) Reorder(members []Place) {
	x.passes++
	var component []*execution
	for _, at := range members {
		e := x.running[at]
		if e == nil || e.t == nil || e.reordered {
			continue // none of its keys is here
		}
		e.member, e.vertex = true, int32(len(component))
		component = append(component, e)
	}
	for _, e := range component {
		e.reordered, e.holding = true, false
		e.awaitReads()
		e.take(e.early)
	}
	for _, e := range component {
		for i := range e.slots {
			if !e.slots[i].local {
				continue
			}
			if l := x.locks.locks[e.t.Accesses[i].Key]; l != nil && l.pass != x.passes {
				l.pass = x.passes
				l.reorder()
				l.regrant(x.granted)
			}
		}
	}
	for _, e := range component {
		e.member = false
		if e.waitLocks == 0 && !e.queued {
			e.queued = true
			x.ready.Push(e)
		}
	}
	x.drain()
}

// reorder brings the members of the component together, in its order.
func (l *lock) reorder() {
	var before, members, behind []*request
	var reads, writes bool // by members or those behind them
	for q := l.head; q != nil; q = q.next {
		switch {
		case q.owner.member:
			members = append(members, q)
		case writes || q.write && reads:
			behind = append(behind, q)
		default:
			before = append(before, q)
			continue
		}
		reads, writes = reads || !q.write, writes || q.write
	}
	slices.SortStableFunc(members, func(a, b *request) int { return int(a.owner.vertex - b.owner.vertex) })
	all := append(append(before, members...), behind...)
	for i, q := range all[1:] {
		all[i].next = q
	}
	l.head, l.tail = all[0], all[len(all)-1]
	l.tail.next = nil
}

// regrant grants and takes back locks after the queue has changed.
func (l *lock) regrant(granted func(*execution)) {
	shared := true // with all before
	for q := l.head; q != nil; q = q.next {
		can := q == l.head || shared && !q.write
		shared = shared && !q.write
		switch {
		case can && !q.granted:
			q.granted = true
			granted(q.owner)
		case !can && q.granted:
			q.granted = false
			q.owner.waitLocks++
		}
	}
}
