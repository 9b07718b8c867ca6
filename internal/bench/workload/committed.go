package workload

import "github.com/geobench/geobench/internal/base/txn"

// Committed counts the committed transactions of a generator by type, as far as their clients know. It is for ledgers
// of workloads in which each type always has the same effect on the data.
type Committed struct {
	counts   []Interval // by type, of the outcomes passed to Done
	underway []int      // the type plus 1 of each client's transaction, 0 for none
	unknown  map[txn.ID]int
}

// NewCommitted returns a Committed for the given number of types and clients.
func NewCommitted(types, clients int) *Committed {
	return &Committed{counts: make([]Interval, types), underway: make([]int, clients), unknown: map[txn.ID]int{}}
}

// Begin notes that a client has a transaction of a type under way.
func (c *Committed) Begin(client, kind int) { c.underway[client] = kind + 1 }

// Done is Generator.Done. It returns the type of the client's transaction.
func (c *Committed) Done(client int, o txn.Outcome) (kind int) {
	kind = c.underway[client] - 1
	c.underway[client] = 0
	switch count := &c.counts[kind]; o.Status {
	case txn.Committed:
		count.Low++
		count.High++
	case txn.Unknown:
		count.High++
		if len(c.unknown) < MaxUnknown {
			c.unknown[o.ID] = kind
		}
	}
	return kind
}

// Late is Generator.Late.
func (c *Committed) Late(o txn.Outcome) {
	kind, ok := c.unknown[o.ID]
	if !ok || o.Status == txn.Unknown {
		return
	}
	delete(c.unknown, o.ID)
	if o.Status == txn.Committed {
		c.counts[kind].Low++
	} else {
		c.counts[kind].High--
	}
}

// Times returns how many transactions of these types were committed, times what each of them does. Those under way
// count as unknown.
func (c *Committed) Times(effect int64, kinds ...int) (sum Interval) {
	for _, kind := range kinds {
		sum.Low += effect * c.counts[kind].Low
		sum.High += effect * c.counts[kind].High
		for _, u := range c.underway {
			if u == kind+1 {
				sum.High += effect
			}
		}
	}
	return sum
}
