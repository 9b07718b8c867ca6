package deterministic

import (
	"slices"

	"github.com/geobench/geobench/internal/base/invariant"
	"github.com/geobench/geobench/internal/base/txn"
)

var (
	oneWriter = invariant.New("deterministic.one-writer",
		"a row's lock is held by one writer or by any number of readers")
	firstGranted = invariant.New("deterministic.first-granted",
		"the first request in a row's queue holds the lock, and no waiting request precedes a holder")
	executedUp = invariant.New("deterministic.executed-grows",
		"the number of transactions that an executor has executed never decreases")
)

// Check checks the invariants of the locks. If the queues of several rows violate an invariant, it reports the lowest
// row.
func (x *Executor) Check(c *invariant.Checker) {
	c.Grows(executedUp, "transactions", uint64(x.Executed))
	var least txn.Key
	var broken *invariant.Invariant
	for key, l := range x.locks.locks {
		if i := l.broken(); i != nil && (broken == nil || key < least) {
			least, broken = key, i
		}
	}
	if broken != nil {
		c.That(broken, false, "%v", least)
	}
}

// broken returns the invariant that a queue violates, or nil.
func (l *lock) broken() *invariant.Invariant {
	// A queue is deleted when its last request is released, so an empty queue is a violation, too.
	if l.head == nil || !l.head.granted {
		return firstGranted
	}
	writers, holders := 0, 0
	before := true
	for q := l.head; q != nil; q = q.next {
		if q.granted && !before {
			return firstGranted
		}
		if before = q.granted; q.granted {
			holders++
			if q.write {
				writers++
			}
		}
	}
	if writers > 0 && holders > 1 {
		return oneWriter
	}
	return nil
}

// CheckOrder checks that the requests for each row are in log order, as invariant i of an engine with a single order.
// Reads without a position may be in between.
func (x *Executor) CheckOrder(c *invariant.Checker, i *invariant.Invariant) {
	for _, key := range x.lockedKeys() {
		var last Place
		for q := x.locks.locks[key].head; q != nil; q = q.next {
			if at := q.owner.at; at != (Place{}) {
				c.That(i, last == Place{} || last.Less(at), "%v was asked for by %v before %v", key, last, at)
				last = at
			}
		}
	}
}

// CheckPairs checks pairs of transactions that arrive in parts, as invariant i of an engine. It ignores all other
// transactions. If two such transactions are adjacent in several queues, they must have the same order in all these
// queues, in all copies.
func (x *Executor) CheckPairs(c *invariant.Checker, i *invariant.Invariant) {
	for _, key := range x.lockedKeys() {
		var last *execution
		for q := x.locks.locks[key].head; q != nil; q = q.next {
			// A single log orders each single-home transaction, so only the order of transactions with parts can differ.
			if !q.owner.parted {
				continue
			}
			if last != nil {
				pair := [2]Place{last.at, q.owner.at}
				// The pair is the key of the comparison, so it must not depend on the order that the copies have to agree on.
				if pair[1].Less(pair[0]) {
					pair[0], pair[1] = pair[1], pair[0]
				}
				c.Agree(i, pair, last.at)
			}
			last = q.owner
		}
	}
}

// CheckCircles checks that no transactions wait for each other's locks in a cycle, as invariant i of an engine.
func (x *Executor) CheckCircles(c *invariant.Checker, i *invariant.Invariant) {
	// Topological sort: remove the transactions that wait for no other transaction, then the transactions that wait
	// only for removed transactions, and so on. Each remaining transaction is in a cycle or waits for a transaction
	// in a cycle.
	waits, behind := map[*execution]int{}, map[*execution][]*execution{}
	var free []*execution
	for _, l := range x.locks.locks {
		for q := l.head; q != nil; q = q.next {
			if _, known := waits[q.owner]; !known {
				waits[q.owner] = 0
			}
			waitsFor := func(p *request) {
				waits[q.owner]++
				behind[p.owner] = append(behind[p.owner], q.owner)
			}
			switch {
			case q.granted:
			case !q.write:
				waitsFor(q.writer)
			default: // a writer waits for all requests ahead of it, back to the nearest writer
				for p := q.prev; p != nil; p = p.prev {
					if waitsFor(p); p.write {
						break
					}
				}
			}
		}
	}
	for e, n := range waits {
		if n == 0 {
			free = append(free, e)
		}
	}
	for len(free) > 0 {
		e := free[len(free)-1]
		free = free[:len(free)-1]
		delete(waits, e)
		for _, b := range behind[e] {
			if waits[b]--; waits[b] == 0 {
				free = append(free, b)
			}
		}
	}
	var left []Place
	for e := range waits {
		left = append(left, e.at)
	}
	if len(left) > 0 {
		slices.SortFunc(left, Place.Compare)
		c.That(i, false, "%d transactions wait in a circle or behind one, the first of them %v", len(left), left[0])
	}
}

// lockedKeys returns the keys with requests, sorted.
func (x *Executor) lockedKeys() (keys []txn.Key) {
	for key := range x.locks.locks {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
