package deterministic

import "slices"

// Vertex is a transaction in the waits-for graph of a partition. All its parts here have arrived, so it will not wait
// here for further transactions.
type Vertex struct {
	Place
	// Participants is the number of partitions that the transaction touches.
	Participants int
	// After holds the transactions directly ahead of this one in the queues. For a writer, these are the readers ahead of
	// it or, if there are none, the writer. For a reader, it is the last writer. The transaction also waits for
	// everything that these wait for, which may not be known yet: some of their parts may be missing.
	After []Place
}

// Steps returns the number of transactions and requests that Graph and Reorder have visited.
func (x *Executor) Steps() int64 { return x.steps }

// arrival is a transaction with all its parts here. If e.at differs from at, the execution was reused and the
// transaction has finished.
type arrival struct {
	e  *execution
	at Place
}

// completed records a transaction once all its parts here have arrived. In a copy with a single partition, no cycle of
// waits is possible while no transaction with parts is queued.
func (x *Executor) completed(e *execution) {
	switch {
	case !x.c.Reorderable || !e.complete():
	case x.partitions == 1 && x.parted == 0:
		e.sound = true
	default:
		x.untold = append(x.untold, arrival{e, e.at})
	}
}

// Waiting reports whether Graph has changes to return.
func (x *Executor) Waiting() bool { return len(x.untold) > 0 || len(x.over) > 0 }

// Graph returns the changes in this partition's waits-for graph since the last call. vertices holds transactions in the
// order in which their last parts arrived. over holds the places of finished transactions that a Vertex has named.
// Transactions that Reorder has given their turn are omitted: no transaction waits for them permanently. The graph is
// maintained only if Reorderable is set.
func (x *Executor) Graph() (vertices []Vertex, over []Place) {
	for _, a := range x.untold {
		if e := a.e; e.at == a.at && e.t != nil && !e.reordered {
			e.named = true
			vertices = append(vertices, Vertex{Place: e.at, Participants: e.participants(), After: x.after(e)})
		}
	}
	x.steps += int64(len(x.untold))
	clear(x.untold)
	x.untold = x.untold[:0]
	over, x.over = x.over, nil
	return vertices, over
}

// after returns the transactions directly ahead of e: see Vertex.After.
func (x *Executor) after(e *execution) []Place {
	if cap(x.places)-len(x.places) < 8 {
		x.places = make([]Place, 0, 1024)
	}
	from := len(x.places)
	add := func(q *request) {
		// Neither kind can be in a deadlock any more, so an edge to it would only enlarge the graph.
		if o := q.owner; !o.reordered && !o.sound {
			o.named = true
			x.places = append(x.places, o.at)
		}
		x.steps++
	}
	for q := e.requests; q != nil; q = q.sibling {
		switch {
		case q.granted:
		case !q.write:
			add(q.writer)
		// Readers between a reader and its writer do not block it, so the edge goes to the writer.
		case q.prev.write:
			add(q.prev)
		default:
			for p := q.prev; p != nil && !p.write; p = p.prev {
				add(p)
			}
		}
	}
	if to := len(x.places); to > from {
		return x.places[from:to:to]
	}
	return nil
}

// Reorder gives the transactions of a deadlock their turn in the given order. They must be a complete strongly
// connected component of the copy's waits-for graph that can no longer grow. Every partition must reorder it in the
// same way.
//
// In each queue the members become contiguous: after the requests that some of them wait for, and before the requests
// that wait for some of them. No request is both, or it would belong to the component. The members' previous reads are
// void: all participants read again.
func (x *Executor) Reorder(members []Place) {
	x.passes++
	var component []*execution
	for _, at := range members {
		e := x.running[at]
		if e == nil || e.t == nil || e.reordered {
			continue // none of its keys is in this partition
		}
		e.member, e.vertex = true, int32(len(component))
		component = append(component, e)
	}
	for _, e := range component {
		// Locks may be revoked below, so local reads no longer count until all locks are granted again.
		e.reordered, e.holding = true, false
		e.awaitReads()
		e.take(e.early)
	}
	for _, e := range component {
		for i := range e.slots {
			if !e.slots[i].local {
				continue
			}
			// Members share queues; each queue is reordered only once.
			if l := x.locks.locks[e.t.Accesses[i].Key]; l != nil && l.pass != x.passes {
				l.pass = x.passes
				x.steps += l.reorder()
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

// reorder makes the component's requests contiguous, in the component's order. It returns the number of requests
// visited.
func (l *lock) reorder() int64 {
	var before, members, behind []*request
	var reads, writes bool // by members or requests queued after them
	for q := l.head; q != nil; q = q.next {
		switch {
		case q.owner.member:
			members = append(members, q)
		// The request conflicts with a member ahead of it, or with a request that does, so it stays after the members.
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
	l.head, l.tail = all[0], all[len(all)-1]
	l.head.prev, l.tail.next = nil, nil
	for i, q := range all[1:] {
		all[i].next, q.prev = q, all[i]
	}
	return int64(len(all))
}

// regrant grants and revokes locks after the queue has changed.
func (l *lock) regrant(granted func(*execution)) {
	shared := true // all requests so far are readers
	var writer *request
	for q := l.head; q != nil; q = q.next {
		if q.writer = nil; q.write {
			writer = q
		} else {
			q.writer = writer
		}
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
