package sunstorm

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	logOrder = invariant.New("sunstorm.log-order",
		"an entry is shipped only after it is durable, and only appended entries are sent or durable")
	logGrows = invariant.New("sunstorm.log-grows",
		"the last, sent, durable and shipped positions of a log never decrease")
	copyGrows = invariant.New("sunstorm.copy-grows",
		"a copy's applied position in another region's log never decreases and never exceeds the received position")
	rowsOfOpen = invariant.New("sunstorm.rows-of-open", "a prepared transaction that holds rows has not ended")
	sameLog    = invariant.New("sunstorm.same-log",
		"copies with the same applied position in a log have the same entry there")
	samePrepared = invariant.New("sunstorm.same-prepared",
		"copies with the same applied position in a log have the same number of prepared transactions")
)

// Check implements protocol.Checked.
func (r *Replica) Check(c *invariant.Checker) {
	w := &r.wal
	c.Grows(logGrows, "last", w.last)
	c.Grows(logGrows, "sent", w.sent)
	c.Grows(logGrows, "durable", w.durable)
	c.Grows(logGrows, "shipped", w.shipped)
	c.That(logOrder, w.shipped <= w.durable && w.durable <= w.last && w.sent <= w.last, "%d shipped, %d durable, %d sent, %d last", w.shipped, w.durable, w.sent, w.last)
	for home := range r.copies {
		k := &r.copies[home]
		c.Grows(copyGrows, fmt.Sprintf("region %d", home), k.applied)
		if k.applied > 0 {
			// newest is 0 after a copy of the rows was installed: the copy does not name the transaction of its last entry.
			if k.newest > 0 {
				c.Agree(sameLog, place{home, r.partition, k.applied}, k.newest)
			}
			c.Agree(samePrepared, place{home, r.partition, k.applied}, len(k.tentative))
		}
		// Entries that wait for copyLag have arrived but are not applied, so applied may be smaller than next-1.
		c.That(copyGrows, k.applied < max(1, k.next), "of region %d's log %d is applied, and %d is to come next", home, k.applied, k.next)
	}
	for _, p := range r.writer.prepared {
		c.That(rowsOfOpen, r.writer.open[p.id] == p, "%v is prepared and has ended", p.id)
	}
}

// place identifies an entry by its position in the log of a home's writer.
type place struct {
	Home, Partition int
	LSN             uint64
}
