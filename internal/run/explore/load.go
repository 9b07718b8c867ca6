package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/smallbank"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// load describes the clients of each region.
type load struct {
	bank bool // SmallBank; otherwise key-value transactions
	// groups is set if key-value transactions also use rows in groups, and rows whose keys they find by reading other
	// rows.
	groups bool
	// appends is set if some key-value transactions insert a row after the last row of a group that is initially empty.
	// This exposes write skew in engines that validate only the rows which a scan returned.
	appends bool
	// pairs is set if most transactions on groups write to two groups or scan two groups.
	pairs bool
	// readers is set if the clients of every second region only read, one row or customer at a time.
	readers bool
	// rows is the number of rows or, for SmallBank, of customers.
	rows    int
	clients int // per region
	think   time.Duration
	until   time.Duration // time at which clients stop sending
	// run is a workload of runs; nil for the explorer's own transactions.
	run workload.Workload
	// every is the mean time between two arrivals in a region in an open loop; 0 for a closed loop.
	every time.Duration
}

// maxSent is the maximum number of transactions that a client sends. It keeps the history short even on a fast network.
const maxSent = 60

// slowness is the factor by which slow scenarios prolong the time during which clients send.
const slowness = 10

func newLoad(r *rand.Rand, scale time.Duration) load {
	l := load{bank: r.IntN(2) == 0, clients: 1 + r.IntN(10), until: 300*time.Millisecond + upTo(r, 20*scale)}
	if l.rows = 3 + r.IntN(10); l.bank {
		l.rows = 2 + r.IntN(5)
	}
	l.think = []time.Duration{0, l.until / 100, l.until / 30}[r.IntN(3)]
	return l
}

func (l *load) String() string {
	if l.every > 0 {
		return fmt.Sprintf("a transaction every %v per region, up to %d at a time, of %s", l.every, l.clients, l.what())
	}
	return fmt.Sprintf("%d clients per region, which think for %v, run %s", l.clients, l.think, l.what())
}

// what describes the kind of transactions, for the description of a scenario.
func (l *load) what() string {
	if l.run != nil {
		return "the workload " + l.run.Name()
	}
	if l.bank {
		return fmt.Sprintf("SmallBank on %d customers", l.rows)
	}
	what := fmt.Sprintf("key-value transactions on %d rows", l.rows)
	if l.groups {
		what += " and on groups"
	}
	if l.appends {
		what += ", some of which grow"
	}
	return what
}

// clientOf returns the number, within its region, of the client that sent a transaction.
func (l *load) clientOf(id txn.ID) uint32 {
	// Invert the numbering in Fire: the low 40 bits of the ID are sent*clients + client + 1.
	return uint32((uint64(id)&(1<<40-1) - 1) % uint64(l.clients))
}

// bankProcedures are SmallBank's procedures and their traced forms. bankNumbers maps their names to their numbers. The
// key-value procedures use the same numbers, so a scenario registers only one of the two sets.
var (
	bankProcedures = txn.NewRegistry(history.TraceAll(smallbank.Procedures()...)...)
	bankNumbers    = func() map[string]txn.ProcID {
		m := map[string]txn.ProcID{}
		for _, p := range smallbank.Procedures() {
			m[p.Name] = p.ID
		}
		return m
	}()
)

func (l *load) procedures() *txn.Registry {
	if l.run != nil {
		return runProcedures()
	}
	if l.bank {
		return bankProcedures
	}
	return simload.Traced
}

// keyName returns the function that formats keys for explanations; nil selects the default.
func (l *load) keyName() func(txn.Key) string {
	if l.run != nil {
		return l.run.KeyName
	}
	if l.bank {
		return smallbank.KeyName
	}
	return nil
}

// fill loads the rows into the stores of all nodes.
func (l *load) fill(layout geo.Layout, s *sim.Sim) {
	t := layout.Topology
	if l.run != nil {
		for n := range geo.NodeID(t.Nodes()) {
			if err := workload.Fill(l.run, &layout, n, s.Store(n).Load); err != nil {
				panic(fmt.Sprintf("explore: %v", err))
			}
		}
		return
	}
	if !l.bank {
		simload.FillLayout(layout, uint64(l.rows), 100, s.Store)
		if l.groups {
			simload.FillGroups(layout, groupsOf, groupRows/2, s.Store)
		}
		return
	}
	one := &geo.Topology{Regions: t.Regions[:1], Partitions: 1, Replicas: 1}
	bank, err := smallbank.New(v1alpha1.SmallBank{Customers: int64(l.rows), Mix: v1alpha1.SmallBankMix{Balance: 100}}, 1, one)
	if err != nil {
		panic(fmt.Sprintf("explore: %v", err))
	}
	bank.Rows(geo.Cell{}, func(k txn.Key, value []byte) {
		for _, n := range layout.Group(layout.Shard(k)).Members {
			s.Store(n).Load(k, value)
		}
	})
}

// next returns a random transaction.
func (l *load) next(r *rand.Rand, id txn.ID) *txn.Transaction {
	t := &txn.Transaction{ID: id, Proc: 1}
	reads := l.readers && id.Stream()%2 == 0
	switch {
	case l.bank && reads:
		t.Proc, t.Args = bankNumbers["balance"], slices.Repeat(bankArgs(uint64(r.IntN(l.rows))), 2)
	case l.bank:
		t.Proc, t.Args = l.nextBank(r)
	case reads:
		t.Args = fmt.Appendf(nil, "r%d", r.IntN(l.rows))
	default:
		t.Args = []byte(l.nextRows(r))
	}
	return t
}

// nextBank returns the procedure and the arguments of a random SmallBank transaction. Most procedures are equally
// likely.
func (l *load) nextBank(r *rand.Rand) (txn.ProcID, []byte) {
	a, b := uint64(r.IntN(l.rows)), uint64(r.IntN(l.rows))
	two := bankArgs(a, b)
	amount := func() []byte { return bankArgs(a, b, uint64(1+r.IntN(100))) }
	switch r.IntN(12) {
	case 0:
		return bankNumbers["lookup"], lookupArgs(a)
	case 1, 2, 3:
		return bankNumbers["balance"], two
	case 4, 5:
		return bankNumbers["writeCheck"], amount()
	case 6, 7:
		return bankNumbers["depositChecking"], amount()
	case 8, 9:
		return bankNumbers["transactSavings"], amount()
	}
	// A customer cannot amalgamate accounts with itself.
	if a == b {
		return bankNumbers["balance"], two
	}
	return bankNumbers["amalgamate"], two
}

// groupsOf is the number of groups that have rows at the start. groupRows is the number of rows in each of them.
const (
	groupsOf  = 4
	groupRows = 6
	// appended is the number of additional groups, which are empty at the start.
	appended = 2
)

// nextGroups returns a random call of simload's procedure on groups. The call inserts, deletes or changes rows, or
// scans a part of a group, or reads the first or last row of a group. It may combine several of these, and some calls
// use rows whose keys depend on earlier reads.
func (l *load) nextGroups(r *rand.Rand) string {
	if l.pairs && r.IntN(4) > 0 {
		return l.nextPairs(r)
	}
	a, b := r.IntN(groupsOf), r.IntN(groupsOf)
	x, y := r.IntN(groupRows), r.IntN(groupRows)
	row := r.IntN(l.rows)
	if l.appends && r.IntN(4) == 0 {
		return fmt.Sprintf("e%d+%d", groupsOf+r.IntN(appended), 1+r.IntN(3))
	}
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("l%d.%d-%d a%d+1", a, min(x, y), max(x, y)+1, row)
	case 1:
		return fmt.Sprintf("l%d.0-%d l%d.0-%d", a, groupRows, b, groupRows)
	case 2:
		return fmt.Sprintf("p%d.%d=%d q%d.%d", a, x, r.IntN(100), b, y)
	case 3:
		return fmt.Sprintf("g%d.%d+1 g%d.%d-1", a, x, b, y)
	case 4:
		return fmt.Sprintf("o%d p%d.%d=1", a, b, y)
	case 5:
		return fmt.Sprintf("t%d g%d.%d+1 a%d+1", a, a, x, row)
	case 6:
		return fmt.Sprintf("j%d+1", row)
	case 7:
		return fmt.Sprintf("j%d+1 l%d.0-%d", row, a, groupRows)
	case 8:
		return fmt.Sprintf("j%d-1 p%d.%d=1", row, a, x)
	default:
		return fmt.Sprintf("g%d.%d+1 l%d.0-%d x%d", a, x, b, groupRows, row)
	}
}

// nextRows returns a random call of simload's procedure: reads, transfers, blind writes, deletions, aborts or failures.
func (l *load) nextRows(r *rand.Rand) string {
	if l.groups && r.IntN(3) > 0 {
		return l.nextGroups(r)
	}
	p := r.Perm(l.rows)
	switch r.IntN(10) {
	case 0:
		return fmt.Sprintf("r%d r%d r%d", p[0], p[1], p[2])
	case 1:
		return fmt.Sprintf("r%d", p[0])
	case 2:
		return fmt.Sprintf("r%d w%d=%d", p[0], p[1], r.IntN(100))
	case 3:
		return fmt.Sprintf("d%d a%d+1", p[0], p[1])
	case 4:
		return fmt.Sprintf("r%d r%d a%d+1", p[0], p[1], p[2])
	case 5:
		return fmt.Sprintf("s%d-%d a%d+5 r%d", p[0], r.IntN(200), p[1], p[2])
	case 6:
		return fmt.Sprintf("a%d+1 x%d", p[0], p[1])
	case 7:
		return fmt.Sprintf("a%d+1", p[0])
	default:
		return fmt.Sprintf("a%d-1 a%d+1", p[0], p[1])
	}
}

// clients are the clients of one region. Each client sends a transaction, waits for the answer, pauses, and repeats. A
// client with a script sends the transactions of the script at the scripted times, or after the previous answer if that
// is later.
type clients struct {
	*execution
	region geo.Region
	env    protocol.ClientEnv
	rng    *rand.Rand
	stream uint32
	script [][]call // the remaining calls by client; nil if clients draw their transactions
	// generator generates the transactions of a workload of runs; nil if there is none.
	generator workload.Generator
	sent      []uint64 // number of transactions sent, by client
	waits     []bool   // by client, whether it waits for an answer
	// tries holds the last transaction of each client, in case the client retries it.
	tries []*txn.Transaction
	open  int
	// outcomes counts the answers by status.
	outcomes [txn.Unknown + 1]int
	// last is the time until which clients send in the second phase; 0 before that phase. asked holds, by client, the time
	// at which the client sent its current transaction of the second phase.
	last  time.Duration
	asked []time.Duration
	// slowest is the latency of the slowest transaction of the second phase.
	slowest time.Duration
}

// arrival is the timer argument of arrivals in an open loop. The argument of every other timer is the number of a
// client.
const arrival = 1 << 63

// Start implements protocol.Client. Clients start at random times within 10 ms.
func (c *clients) Start() {
	if c.load.every > 0 && c.script == nil {
		c.arrive()
		return
	}
	for i := range c.load.clients {
		c.pause(i, upTo(c.rng, 10*time.Millisecond))
	}
}

// pause schedules the next transaction of client i at its scripted time or, if there is no script, after the pause
// drawn.
func (c *clients) pause(i int, drawn time.Duration) {
	if c.script == nil {
		c.env.After(drawn, protocol.Timer{Arg: uint64(i)})
	} else if len(c.script[i]) > 0 {
		c.env.After(max(0, c.script[i][0].at-c.env.Now()), protocol.Timer{Arg: uint64(i)})
	}
}

// arrive schedules the next arrival of an open loop.
func (c *clients) arrive() {
	c.env.After(time.Duration(c.rng.ExpFloat64()*float64(c.load.every)), protocol.Timer{Arg: arrival})
}

// Fire implements protocol.Client. Either the pause of a client is over, or a transaction of an open loop arrives. The
// first client without an outstanding transaction sends the arriving one. If there is no such client, the arrival is
// dropped.
func (c *clients) Fire(t protocol.Timer) {
	i := t.Arg
	if i == arrival {
		if c.env.Now() >= c.load.until {
			return
		}
		// Schedule the next arrival first, because arrivals in an open loop do not depend on answers.
		c.arrive()
		free := slices.Index(c.waits, false)
		if free < 0 {
			return
		}
		i = uint64(free)
	}
	switch {
	case c.last > 0 && (c.script != nil || c.env.Now() < c.last):
		c.asked[i] = c.env.Now()
	// A script ends with its last call, so the limits on the time and the number of transactions do not apply.
	case c.script != nil:
	case c.last > 0, c.env.Now() >= c.load.until, c.sent[i] == maxSent:
		return
	}
	var x *txn.Transaction
	switch id := txn.MakeID(c.stream, c.sent[i]*uint64(c.load.clients)+i+1); {
	// Choose the number so that clientOf can recover the client. Adding 1 ensures that the number is not 0.
	case c.script == nil && c.generator != nil:
		x = &txn.Transaction{ID: id}
		c.generator.Next(int(i), c.env.Now(), x)
	// A retry has a new ID and a higher attempt number, like a retry of a real client.
	case c.script == nil && c.tries[i] != nil && c.tries[i].Attempt > 0:
		t := c.tries[i]
		x = &txn.Transaction{ID: id, Proc: t.Proc, Args: t.Args, Attempt: t.Attempt}
	case c.script == nil:
		x = c.load.next(c.rng, id)
	default:
		x = c.script[i][0].transaction()
		c.script[i] = c.script[i][1:]
	}
	if err := c.load.procedures().Prepare(x); err != nil {
		panic(fmt.Sprintf("explore: %v", err))
	}
	// Keep a copy for a retry, because x belongs to the database once it is submitted.
	c.tries[i] = &txn.Transaction{Proc: x.Proc, Args: x.Args, Attempt: x.Attempt}
	c.sent[i]++
	c.open++
	c.waits[i] = true
	c.submitted = append(c.submitted, call{at: c.env.Now(), region: c.region, id: x.ID, proc: x.Proc, args: x.Args, attempt: x.Attempt})
	c.env.Submit(x)
}

// Complete implements protocol.Client.
func (c *clients) Complete(o txn.Outcome) {
	i := c.load.clientOf(o.ID)
	c.open--
	c.waits[i] = false
	c.outcomes[o.Status]++
	c.answers[o.ID] = answer{c.env.Now(), o.Status}
	c.retry(int(i), o)
	if c.generator != nil && c.script == nil {
		c.generator.Done(int(i), o)
	}
	if c.last > 0 && c.asked[i] > 0 {
		c.slowest = max(c.slowest, c.env.Now()-c.asked[i])
	}
	pause := upTo(c.rng, 2*c.load.think)
	if c.last > 0 {
		pause += corePause
	}
	// Pause after a refused or unknown outcome. Without the pause, the clients of an unavailable database would send all
	// their transactions at once.
	if o.Status > txn.Aborted {
		pause += 10 * time.Millisecond
	}
	// In an open loop, arrivals schedule the next transaction, and answers do not. The second phase and scripts are always
	// closed loops.
	if c.load.every == 0 || c.script != nil || c.last > 0 {
		c.pause(int(i), pause)
	}
}
