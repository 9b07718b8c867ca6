package explore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// wide holds the additional draws of a scenario of Config.Wide.
type wide struct {
	// attempts bounds how often a client sends a transaction that conflicts abort; 0 and 1 mean once.
	attempts int
	// shrink is protocol.Config.Shrink.
	shrink uint8
	// padding is the number of unused rows, each of paddingBytes, so that state transfers have several pieces.
	padding, paddingBytes int
	// again adds a second run after the first is judged: it loads the rows again and reuses the transaction ids.
	again bool
	// plain has clients call procedures that are not traced. Traced procedures write a stamp in place of a deleted row,
	// so that replicas delete no row. No history is judged then.
	plain bool
}

const (
	// maxAttempts bounds the attempts of a client.
	maxAttempts = 5
	// shrinkBits is the most by which amounts are shrunk: 64 MB to a byte.
	shrinkBits = 26
	// mostPadding bounds the bytes of unused rows on a node that holds all of them.
	mostPadding = 1 << 20
	// betweenRuns is the idle time of a database between two runs: drivers take longer to load rows and to start workers.
	betweenRuns = time.Second
	// paddingFrom is the number of the first of them.
	paddingFrom = 1 << 20
)

// makeWide draws the additional parameters of a wide scenario from the seed alone.
func (w *world) makeWide(r *rand.Rand) {
	w.wide = wide{}
	if r.IntN(2) == 0 {
		w.wide.attempts = 2 + r.IntN(maxAttempts-1)
	}
	if r.IntN(2) == 0 {
		w.wide.shrink = uint8(1 + r.IntN(shrinkBits))
	}
	if r.IntN(4) == 0 {
		w.wide.paddingBytes = 1 << (4 + r.IntN(13))
		w.wide.padding = 1 + r.IntN(mostPadding/w.wide.paddingBytes)
		w.wide.padding = min(w.wide.padding, 1<<10)
	}
	w.load.pairs = r.IntN(3) == 0
	w.wide.again = r.IntN(4) == 0
	if !w.load.bank && r.IntN(4) == 0 {
		w.load.rows = 20 + r.IntN(200)
	}
	w.wide.plain = r.IntN(8) == 0
}

// describe writes the draws that are not the default.
func (x *wide) describe(b *strings.Builder) {
	if x.attempts > 1 {
		fmt.Fprintf(b, "up to %d attempts\n", x.attempts)
	}
	if x.shrink > 0 {
		fmt.Fprintf(b, "amounts are 2^%d times smaller\n", x.shrink)
	}
	if x.padding > 0 {
		fmt.Fprintf(b, "%d more rows of %d bytes, which nobody uses\n", x.padding, x.paddingBytes)
	}
	if x.plain {
		b.WriteString("procedures are not traced: rows are deleted, and no history is judged\n")
	}
	if x.again {
		b.WriteString("a second run follows, with the same ids\n")
	}
}

// fill loads the unused rows.
func (x *wide) fill(layout geo.Layout, s *sim.Sim) {
	value := make([]byte, x.paddingBytes)
	for row := range uint64(x.padding) {
		k := simload.Key(paddingFrom + row)
		for _, m := range layout.Group(layout.Shard(k)).Members {
			s.Store(m).Load(k, value)
		}
	}
}

// wideParam draws a value from the whole range of an engine's parameter with a uniform logarithm. In an eighth of the
// cases it returns the least value, and in a quarter the default.
func wideParam(p protocol.Parameter, r *rand.Rand) string {
	switch n := r.IntN(8); {
	case len(p.OneOf) > 0:
		return p.OneOf[r.IntN(len(p.OneOf))]
	case n < 2:
		return p.Default
	case p.Integer:
		if n == 2 {
			return fmt.Sprint(p.MinInt)
		}
		return fmt.Sprint(p.MinInt + int64(math.Pow(float64(p.MaxInt-p.MinInt)+1, r.Float64())) - 1)
	case n == 2:
		return p.Min.String()
	}
	return logUniform(r, max(p.Min, leastLag), max(p.Max, leastLag)).String()
}

// patience returns the time after the last fault and the last transaction within which everything must complete. It is
// longer if parameters are long, since recovery may wait for several in turn.
func (w *world) patience(e *protocol.Engine) time.Duration {
	all := patience
	if !w.isWide {
		return all
	}
	for _, p := range e.Parameters {
		if !p.Integer && len(p.OneOf) == 0 {
			all += longParameter * w.params.Duration(p.Name)
		}
	}
	return all
}

// longParameter is the number of times that each duration among the parameters extends the patience.
const longParameter = 50

// nextPairs writes in two groups, or scans both.
func (l *load) nextPairs(r *rand.Rand) string {
	a := r.IntN(groupsOf)
	b := (a + 1 + r.IntN(groupsOf-1)) % groupsOf
	x, y := r.IntN(groupRows), r.IntN(groupRows)
	switch r.IntN(5) {
	case 0, 1:
		return fmt.Sprintf("l%d.0-%d l%d.0-%d", min(a, b), groupRows, max(a, b), groupRows)
	case 2:
		return fmt.Sprintf("p%d.%d=%d p%d.%d=%d", a, x, r.IntN(100), b, y, r.IntN(100))
	case 3:
		return fmt.Sprintf("l%d.0-%d q%d.%d p%d.%d=1", a, groupRows, a, x, b, y)
	default:
		return fmt.Sprintf("g%d.%d+1 g%d.%d-1", a, x, b, y)
	}
}

// retry has a client send a transaction again that was aborted for the sake of others, as clients do, under another id.
func (c *clients) retry(i int, o txn.Outcome) {
	t := c.tries[i]
	if c.script != nil || o.Status != txn.Aborted || o.Cause != txn.CauseConflict || int(t.Attempt)+1 >= c.wide.attempts {
		c.tries[i] = nil
		return
	}
	t.Attempt++
}

// mayRunAgain reports whether a second run can follow: every transaction has its answer and all nodes are alive, as in
// a database that several runs use.
func (e *execution) mayRunAgain(res *Result) bool {
	if !e.wide.again || e.calls != nil || !res.Passed() || !e.complete() || e.core.begins > 0 || e.injector != nil {
		return false
	}
	for n := range geo.NodeID(e.topology.Nodes()) {
		if e.sim.Node(n).Dead {
			return false
		}
	}
	return true
}

// runAgain loads the rows again, as drivers do between runs when all replicas are quiescent. It then lets the clients
// send transactions with the same ids once more. There are no faults in that time.
func (e *execution) runAgain(c Config, res *Result) {
	e.sim.Run(e.sim.Now() + betweenRuns)
	for n := range geo.NodeID(e.topology.Nodes()) {
		e.sim.Store(n).Reset(0)
	}
	e.load.fill(e.layout, e.sim)
	e.wide.fill(e.layout, e.sim)
	e.taps.History = history.History{KeyName: e.taps.History.KeyName}
	for _, name := range e.topology.Regions {
		e.taps.History.Region(name)
	}
	until := e.load.until
	defer func() { e.load.until = until }()
	e.load.until += e.sim.Now()
	e.second = true
	for _, cl := range e.clients {
		clear(cl.sent)
		cl.outcomes = [txn.Unknown + 1]int{}
		cl.Start()
	}
	e.run(c, res)
	e.judge(c, res)
}
