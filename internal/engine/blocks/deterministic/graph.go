package deterministic

import "slices"

// Vertex is a transaction in the waits-for graph of a partition. All its parts for this partition have arrived, so it
// will not wait for further transactions here.
//
//codec:part
type Vertex struct {
	Place
	// Participants is the number of partitions that the transaction accesses.
	Participants int `codec:"max=math.MaxUint16"`
	// After holds the transactions directly ahead of this transaction in the queues. For a writer, these are the readers
	// back to the nearest writer or, if there are none, the nearest writer. For a reader, it is the nearest writer. The
	// transaction also waits for everything that the transactions in After wait for. These waits may not be known yet,
	// because parts of the transactions in After may be missing.
	After []Place
}

// Steps returns the number of transactions and requests that Graph and Reorder have visited.
func (x *Executor) Steps() int64 { return x.steps }

// arrival is a transaction whose parts have all arrived here. If e.at differs from at, the transaction has finished and
// the execution is in use for another transaction.
type arrival struct {
	e  *execution
	at Place
}

// completed records a transaction once all its parts for this partition have arrived. With a single partition and no
// unfinished transaction with parts, a cycle is impossible, so the transaction is sound.
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

// Graph returns the changes in this partition's waits-for graph after its last call. vertices are transactions, in the
// order in which their last parts arrived. over holds the places of finished transactions that a Vertex has named.
// Graph omits transactions that Reorder has already ordered, because no transaction waits for them permanently. The
// graph is maintained only if Reorderable is set.
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
		// A reordered or sound transaction cannot be in a deadlock, so an edge to it would only enlarge the graph.
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
		// If the request directly ahead is a writer, no readers are in between.
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

// Reorder orders the transactions of a deadlock in the given order. The members must be a complete strongly connected
// component of the copy's waits-for graph that can no longer grow. Every partition must reorder the component in the
// same way.
//
// In each queue, the members become contiguous: after the requests that some member waits for, and before the requests
// that wait for some member. No other request belongs to both kinds, or it would be in the component. The members'
// earlier reads are void, and all participants read again.
func (x *Executor) Reorder(members []Place) {
	x.passes++
	var component []*execution
	for _, at := range members {
		e := x.running[at]
		if e == nil || e.t == nil || e.reordered {
			continue // the transaction has no keys in this partition
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
			// Members share queues, but each queue must be reordered only once.
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

// reorder makes the component's requests contiguous, in the component's order. It returns the number of requests that
// it has visited.
func (l *lock) reorder() int64 {
	var before, members, behind []*request
	var reads, writes bool // modes of the members and of the requests in behind so far
	for q := l.head; q != nil; q = q.next {
		switch {
		case q.owner.member:
			members = append(members, q)
		// The request conflicts with a member ahead of it, or with another request that does, so it stays behind the members.
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

// regrant grants and revokes locks after reorder has changed the queue.
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
