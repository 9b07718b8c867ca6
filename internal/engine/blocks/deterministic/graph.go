package deterministic

import "slices"

// Vertex is a transaction in the waits-for graph of one partition. All its parts here have arrived, so it will wait
// here for no further transactions.
type Vertex struct {
	Place
	// Participants is the number of partitions that the transaction touches.
	Participants int
	// After holds the transactions directly ahead of this one in some queue. A writer is after the readers ahead of it or,
	// if there are none, the writer. A reader is after the last writer. The transaction also waits for all that these wait
	// for, which may not be known yet: some of their parts may be missing.
	After []Place
}

// Steps counts what Graph and Reorder have looked at: transactions and requests.
func (x *Executor) Steps() int64 { return x.steps }

// arrival is a transaction with all its parts here. If the execution has been reused for another transaction, this one
// has finished.
type arrival struct {
	e  *execution
	at Place
}

// completed records a transaction once all its parts here have arrived. While only one log has transactions in the
// queues of a copy's only partition, no cycle of waits is possible.
func (x *Executor) completed(e *execution) {
	switch {
	case !x.c.Reorderable || !e.complete():
	case x.partitions == 1 && x.parted == 0:
		e.sound = true
	default:
		x.untold = append(x.untold, arrival{e, e.at})
	}
}

// Waiting reports whether Graph has news.
func (x *Executor) Waiting() bool { return len(x.untold) > 0 || len(x.over) > 0 }

// Graph returns the changes in the waits-for graph of this partition since the last call. vertices holds transactions
// in the order in which their last parts arrived. over holds the places of finished transactions that any part of a
// Vertex has named before. Transactions that Reorder has given their turn are omitted: no transaction waits for them
// permanently. The graph is kept only if Reorderable is set.
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

// after returns those right ahead of e.
func (x *Executor) after(e *execution) []Place {
	if cap(x.places)-len(x.places) < 8 {
		x.places = make([]Place, 0, 1024)
	}
	from := len(x.places)
	add := func(q *request) {
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

// Reorder gives the transactions of a deadlock their turn in the order given. They must be a whole strongly connected
// component of the copy's waits-for graph that can no longer grow. Every partition must reorder it in the same way.
//
// In each queue the members are contiguous: after the requests that some of them wait for, and ahead of those that wait
// for some of them. A request cannot be both, or it would belong to the component. The members' reads so far are void:
// they read again, here and elsewhere.
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

// reorder brings the members of the component together, in its order. It returns the number of requests that it has
// looked at.
func (l *lock) reorder() int64 {
	var before, members, behind []*request
	var reads, writes bool // by members or requests queued after them
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
	l.head, l.tail = all[0], all[len(all)-1]
	l.head.prev, l.tail.next = nil, nil
	for i, q := range all[1:] {
		all[i].next, q.prev = q, all[i]
	}
	return int64(len(all))
}

// regrant grants and takes back locks after the queue has changed.
func (l *lock) regrant(granted func(*execution)) {
	shared := true // with all before
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
