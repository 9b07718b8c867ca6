package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/txn"
)

// Load is what the clients of a region do: each submits a transaction, waits for its outcome, thinks, and goes on.
type Load struct {
	Clients int
	// Think is the mean of the time between an outcome and the next transaction, drawn uniformly from 0 to twice it.
	Think time.Duration
	// Next makes the operations of a transaction.
	Next func(r *rand.Rand) string
	// From and Until bound the latencies that are recorded; nothing is submitted after Until.
	From, Until time.Duration
}

// Clients is a running load.
type Clients struct {
	Load
	// Latencies of the transactions committed or aborted between From and Until.
	Latencies []time.Duration
	// Outcomes counts by status, Reasons by reason.
	Outcomes map[txn.Status]int
	Reasons  map[string]int

	env    protocol.ClientEnv
	rng    *rand.Rand
	stream uint32
	sent   uint64
	open   map[txn.ID]call
}

type call struct {
	client int
	at     time.Duration
}

// Add adds the load to a region of the simulation.
func Add(s *sim.Sim, region geo.Region, seed uint64, l Load) *Clients {
	c := &Clients{
		Load:     l,
		Outcomes: map[txn.Status]int{},
		Reasons:  map[string]int{},
		rng:      rand.New(rand.NewPCG(seed, uint64(region)+1000)),
		stream:   uint32(region) + 1,
		open:     map[txn.ID]call{},
	}
	s.AddClient(region, func(env protocol.ClientEnv) protocol.Client {
		c.env = env
		return c
	})
	return c
}

// Start implements protocol.Client. Clients start spread over the think time, or over 10 ms.
func (c *Clients) Start() {
	for i := range c.Clients {
		c.env.After(time.Duration(c.rng.Int64N(int64(max(2*c.Think, 10*time.Millisecond)))), protocol.Timer{Arg: uint64(i)})
	}
}

// Fire implements protocol.Client: a client has thought.
func (c *Clients) Fire(t protocol.Timer) {
	now := c.env.Now()
	if now >= c.Until {
		return
	}
	c.sent++
	id := txn.MakeID(c.stream, c.sent)
	c.open[id] = call{int(t.Arg), now}
	c.env.Submit(Txn(id, c.Next(c.rng)))
}

// Complete implements protocol.Client.
func (c *Clients) Complete(o txn.Outcome) {
	call, ok := c.open[o.ID]
	if !ok {
		panic(fmt.Sprintf("simtest: transaction %v is answered, but it is not under way", o.ID))
	}
	delete(c.open, o.ID)
	c.Outcomes[o.Status]++
	if o.Reason != "" {
		c.Reasons[o.Reason]++
	}
	now := c.env.Now()
	if call.at >= c.From && now < c.Until && o.Status <= txn.Aborted {
		c.Latencies = append(c.Latencies, now-call.at)
	}
	t := protocol.Timer{Arg: uint64(call.client)}
	if c.Think == 0 && o.Status <= txn.Aborted {
		c.Fire(t)
		return
	}
	pause := c.Think
	if o.Status > txn.Aborted {
		pause = max(pause, 10*time.Millisecond)
	}
	c.env.After(time.Duration(c.rng.Int64N(int64(2*pause))), t)
}

// Sent returns the number of transactions submitted, Open those without an outcome.
func (c *Clients) Sent() int { return int(c.sent) }

// Open returns the number of transactions without an outcome.
func (c *Clients) Open() int { return len(c.open) }

// Percentile returns the p-th percentile of the latencies, p from 0 to 100.
func (c *Clients) Percentile(p int) time.Duration {
	if len(c.Latencies) == 0 {
		return 0
	}
	sorted := slices.Clone(c.Latencies)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
