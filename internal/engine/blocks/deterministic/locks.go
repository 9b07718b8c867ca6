package deterministic

import "github.com/geobench/geobench/internal/base/txn"

// lockTable is the deterministic lock manager (Thomson 2012, section 3.4). Transactions request all their local locks
// in log order, and locks are granted in the order of the requests. With a single log, a deadlock is therefore
// impossible. It is possible only if several logs disagree on the order of the requests. Conflicting transactions have
// the same order in every copy.
type lockTable struct {
	locks    map[txn.Key]*lock
	free     *lock
	freeReqs *request
}

// lock is a key's queue of requests. The requests that hold the lock are at its head: either one writer or any number
// of readers.
type lock struct {
	head, tail *request
	next       *lock  // in the free list
	pass       uint32 // number of the last call of Executor.Reorder that has reordered this queue
}

type request struct {
	owner      *execution
	write      bool
	granted    bool
	prev, next *request // in the queue
	writer     *request // for a reader that is not granted: the nearest writer ahead of it
	sibling    *request // the next request of the same owner
}

func newLockTable() lockTable { return lockTable{locks: map[txn.Key]*lock{}} }

// locked reports whether any transaction holds or waits for the lock of key.
func (t *lockTable) locked(key txn.Key) bool {
	_, ok := t.locks[key]
	return ok
}

// empty reports whether no transaction holds or waits for a lock.
func (t *lockTable) empty() bool { return len(t.locks) == 0 }

// acquire appends a request of owner to key's queue, and reports whether it is granted.
func (t *lockTable) acquire(owner *execution, key txn.Key, write bool) bool {
	l := t.locks[key]
	if l == nil {
		if l = t.free; l != nil {
			t.free, l.next = l.next, nil
		} else {
			l = &lock{}
		}
		t.locks[key] = l
	}
	q := t.freeReqs
	if q != nil {
		t.freeReqs = q.next
	} else {
		q = &request{}
	}
	*q = request{owner: owner, write: write, sibling: owner.requests}
	owner.requests = q
	if l.head == nil {
		l.head, l.tail, q.granted = q, q, true
		return true
	}
	// A reader gets the lock immediately if all requests ahead of it are readers that have the lock.
	q.granted = !write && l.tail.granted && !l.tail.write
	if !write && !q.granted {
		q.writer = l.tail.nearestWriter()
	}
	q.prev = l.tail
	l.tail.next, l.tail = q, q
	return q.granted
}

// nearestWriter returns q if q writes. Otherwise it returns the writer that q waits for.
func (q *request) nearestWriter() *request {
	if q.write {
		return q
	}
	return q.writer
}

// release removes owner's request from key's queue. It calls granted for each request that gets the lock as a result,
// in queue order.
func (t *lockTable) release(owner *execution, key txn.Key, granted func(*execution)) {
	l := t.locks[key]
	q := l.head
	for q.owner != owner {
		q = q.next
	}
	if q.prev == nil {
		l.head = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.tail = q.prev
	} else {
		q.next.prev = q.prev
	}
	*q = request{next: t.freeReqs}
	t.freeReqs = q
	if l.head == nil {
		delete(t.locks, key)
		l.next, t.free = t.free, l
		return
	}
	for q := l.head; q != nil; q = q.next {
		// A writer waits for all requests ahead of it, and all requests after the writer wait for it.
		if q.write && q != l.head {
			return
		}
		if !q.granted {
			q.granted = true
			granted(q.owner)
		}
		if q.write {
			return
		}
	}
}
