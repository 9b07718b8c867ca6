package workload

import "github.com/geobench/geobench/internal/base/txn"

// Committed counts a generator's committed transactions by type, as their clients know them. Workloads in which all
// transactions of a type have the same effect on the data use it for their ledgers.
type Committed struct {
	counts   []Interval // by type, from the outcomes passed to Done and Late
	underway []int      // by client, the type of its transaction in flight plus 1; 0 for none
	unknown  map[txn.ID]int
}

// NewCommitted returns a Committed for the given number of types and clients.
func NewCommitted(types, clients int) *Committed {
	return &Committed{counts: make([]Interval, types), underway: make([]int, clients), unknown: map[txn.ID]int{}}
}

// Begin records that the client has a transaction of type kind in flight.
func (c *Committed) Begin(client, kind int) { c.underway[client] = kind + 1 }

// Done implements Generator.Done. It also returns the type of the client's transaction.
func (c *Committed) Done(client int, o txn.Outcome) (kind int) {
	kind = c.underway[client] - 1
	c.underway[client] = 0
	switch count := &c.counts[kind]; o.Status {
	case txn.Committed:
		count.Low++
		count.High++
	case txn.Unknown:
		count.High++
		// A transaction that is not remembered here keeps the interval wider than necessary, but correct.
		if len(c.unknown) < MaxUnknown {
			c.unknown[o.ID] = kind
		}
	}
	return kind
}

// Late implements Generator.Late.
func (c *Committed) Late(o txn.Outcome) {
	kind, ok := c.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	// A second report about the same transaction must not count again.
	delete(c.unknown, o.ID)
	if o.Status == txn.Committed {
		c.counts[kind].Low++
	} else {
		c.counts[kind].High--
	}
}

// Times returns effect times the number of committed transactions of these types. Transactions in flight count as
// unknown.
func (c *Committed) Times(effect int64, kinds ...int) (sum Interval) {
	for _, kind := range kinds {
		sum.Low += effect * c.counts[kind].Low
		sum.High += effect * c.counts[kind].High
		// A transaction in flight may or may not have committed, so it raises only the upper bound.
		for _, u := range c.underway {
			if u == kind+1 {
				sum.High += effect
			}
		}
	}
	return sum
}
