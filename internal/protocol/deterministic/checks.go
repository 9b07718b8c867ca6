package deterministic

import (
	"github.com/geobench/geobench/internal/invariant"
	"github.com/geobench/geobench/internal/txn"
)

var (
	oneWriter    = invariant.New("deterministic.one-writer", "a row's lock is held by one writer or by readers")
	firstGranted = invariant.New("deterministic.first-granted", "who comes first in a row's queue holds its lock, and those that hold it come first")
	executedUp   = invariant.New("deterministic.executed-grows", "what an executor has executed never goes back")
)

// Check says what holds of the locks. Of several rows the least is told of.
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

// broken returns the invariant that does not hold of a queue; nil if all do.
func (l *lock) broken() *invariant.Invariant {
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
