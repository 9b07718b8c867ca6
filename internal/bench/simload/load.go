package simload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Load describes the clients of a region. Each client repeatedly submits a transaction, waits for its outcome, and
// thinks. It retries a transaction that is aborted by conflicts, up to maxAttempts attempts in all. The pause before a
// retry is random; its upper bound starts at firstPause and doubles up to longestPause.
type Load struct {
	Clients int
	// Think is the mean time between an outcome and the next transaction. Think times are uniform between 0 and twice the
	// mean.
	Think time.Duration
	// Next returns the operations of a transaction.
	Next func(r *rand.Rand) string
	// Stream distinguishes several loads in a region. It starts at 0.
	Stream uint32
	// From and Until bound the time in which latencies are recorded. After Until, clients submit nothing more once the
	// region has committed at least Least transactions. Least exists for engines that abort on conflicts, because such
	// engines commit few transactions while other clients run.
	From, Until time.Duration
	Least       int
}

const (
	maxAttempts  = 32
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// Clients is a running load.
type Clients struct {
	Load
	// Latencies are the latencies of transactions that were committed or aborted between From and Until. A latency
	// includes all attempts.
	Latencies []time.Duration
	// Outcomes counts transactions by status. Reasons counts attempts by reason.
	Outcomes map[txn.Status]int
	Reasons  map[string]int

	env    protocol.ClientEnv
	rng    *rand.Rand
	stream uint32
	ids    uint64
	sent   int
	open   map[txn.ID]call
	again  map[int]call // retries that wait for their backoff, by client
}

// call is a transaction in flight.
type call struct {
	client  int
	at      time.Duration // time of the first attempt
	ops     string
	attempt uint8
}

// Kinds of timers; Arg is the client's number.
const (
	timerThought uint8 = iota
	timerAgain
)

// World is a simulation, or a recorder around a simulation, to which clients can be added.
type World interface {
	AddClient(region geo.Region, newClient func(protocol.ClientEnv) protocol.Client)
}

// Add adds the clients of load l to a region of s.
func Add(s World, region geo.Region, seed uint64, l Load) *Clients {
	c := &Clients{
		Load:     l,
		Outcomes: map[txn.Status]int{},
		Reasons:  map[string]int{},
		rng:      rand.New(rand.NewPCG(seed, uint64(region)+1000+uint64(l.Stream)<<32)),
		stream:   uint32(region) + 1 + l.Stream<<8,
		open:     map[txn.ID]call{},
		again:    map[int]call{},
	}
	s.AddClient(region, func(env protocol.ClientEnv) protocol.Client {
		c.env = env
		return c
	})
	return c
}

// Start implements protocol.Client. It spreads the clients' first transactions over twice the think time, or over 10 ms
// if that is longer.
func (c *Clients) Start() {
	for i := range c.Clients {
		c.env.After(time.Duration(c.rng.Int64N(int64(max(2*c.Think, 10*time.Millisecond)))), protocol.Timer{Arg: uint64(i)})
	}
}

// Fire implements protocol.Client: a client's think time or backoff has ended.
func (c *Clients) Fire(t protocol.Timer) {
	client := int(t.Arg)
	if t.Kind == timerAgain {
		call := c.again[client]
		delete(c.again, client)
		call.attempt++
		c.submit(call)
		return
	}
	now := c.env.Now()
	// A region with fewer than Least commits continues after Until.
	if now >= c.Until && c.Outcomes[txn.Committed]+c.Open() >= c.Least {
		return
	}
	c.sent++
	c.submit(call{client: client, at: now, ops: c.Next(c.rng)})
}

func (c *Clients) submit(call call) {
	c.ids++
	// Each attempt needs a new ID: nodes may still process messages of the aborted attempt.
	id := txn.MakeID(c.stream, c.ids)
	c.open[id] = call
	t := Txn(id, call.ops)
	t.Attempt = call.attempt
	c.env.Submit(t)
}

// ClientOf returns the number of the client that sent a transaction in flight.
func (c *Clients) ClientOf(id txn.ID) uint32 { return uint32(c.open[id].client) }

// Complete implements protocol.Client.
func (c *Clients) Complete(o txn.Outcome) {
	call, ok := c.open[o.ID]
	if !ok {
		panic(fmt.Sprintf("simload: transaction %v is answered, but it is not under way", o.ID))
	}
	delete(c.open, o.ID)
	if o.Reason != "" {
		c.Reasons[o.Reason]++
	}
	// Any other abort is a decision of the procedure. A retry would usually abort again.
	if o.Status == txn.Aborted && o.Cause == txn.CauseConflict && call.attempt+1 < maxAttempts {
		c.again[call.client] = call
		// A random pause keeps conflicting clients from retrying at the same instant.
		longest := min(firstPause<<call.attempt, longestPause)
		c.env.After(time.Duration(c.rng.Int64N(int64(longest))), protocol.Timer{Kind: timerAgain, Arg: uint64(call.client)})
		return
	}
	c.Outcomes[o.Status]++
	now := c.env.Now()
	// Refused and Unknown follow Aborted in the order of statuses. The times of such transactions are not latencies.
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
		// Without a pause, a client of an unavailable node would spin without advancing virtual time.
		pause = max(pause, 10*time.Millisecond)
	}
	c.env.After(time.Duration(c.rng.Int64N(int64(2*pause))), t)
}

// Sent returns the number of submitted transactions.
func (c *Clients) Sent() int { return c.sent }

// Open returns the number of transactions without an outcome.
func (c *Clients) Open() int { return len(c.open) + len(c.again) }

// Percentile returns the p-th percentile of the latencies, p from 0 to 100.
func (c *Clients) Percentile(p int) time.Duration {
	if len(c.Latencies) == 0 {
		return 0
	}
	sorted := slices.Clone(c.Latencies)
	slices.Sort(sorted)
	return sorted[min(len(sorted)-1, len(sorted)*p/100)]
}
