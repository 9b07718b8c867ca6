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

// wide contains the additional settings of a Config.Wide scenario.
type wide struct {
	// attempts is the maximum number of times that a client attempts a transaction that aborts because of a conflict. Both
	// 0 and 1 mean a single attempt.
	attempts int
	// shrink is the value of protocol.Config.Shrink.
	shrink uint8
	// padding is the number of additional rows, each of paddingBytes, which no transaction uses. They make state transfers
	// take several messages.
	padding, paddingBytes int
	// again adds a second run after the first one was checked. It loads the rows again and reuses the transaction IDs.
	again bool
	// plain makes clients call untraced procedures. A traced procedure writes a stamp instead of deleting a row, so only
	// untraced procedures really delete rows. The explorer cannot check a history of untraced procedures.
	plain bool
}

const (
	// maxAttempts is the maximum of wide.attempts.
	maxAttempts = 5
	// shrinkBits is the maximum of wide.shrink. It makes thresholds up to 2^26 times smaller, so 64 MB become one byte.
	shrinkBits = 26
	// mostPadding is the maximum size of all unused rows, in bytes, on a node that stores all of them.
	mostPadding = 1 << 20
	// betweenRuns is the idle time between two runs. Real drivers take longer to load rows and to start workers.
	betweenRuns = time.Second
	// paddingFrom is the number of the first unused row. All rows of the load have smaller numbers.
	paddingFrom = 1 << 20
)

// makeWide draws the additional settings of a wide scenario. They do not depend on the engine.
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
	// SmallBank keeps its small number of customers, so that its transactions conflict.
	if !w.load.bank && r.IntN(4) == 0 {
		w.load.rows = 20 + r.IntN(200)
	}
	w.wide.plain = r.IntN(8) == 0
}

// describe writes the settings that differ from their defaults.
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

// wideParam draws a value from the whole range of a parameter, with a log-uniform distribution. It returns the minimum
// with probability 1/8, and the default with probability 1/4.
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
		// The power is less than MaxInt - MinInt + 2, so the value can reach MaxInt but not exceed it.
		return fmt.Sprint(p.MinInt + int64(math.Pow(float64(p.MaxInt-p.MinInt)+2, r.Float64())) - 1)
	case n == 2:
		return p.Min.String()
	}
	// Both bounds must be positive, because 0 has no logarithm.
	return logUniform(r, max(p.Min, leastLag), max(p.Max, leastLag)).String()
}

// patience returns the time after the last fault and the last transaction within which everything must complete. In
// wide scenarios it grows with the duration parameters, because recovery may wait for several of these durations.
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

// longParameter is the multiple of a duration parameter that is added to the patience.
const longParameter = 50

// nextPairs returns a call of simload's procedure on two groups: it writes to both, scans both, or scans one and writes
// to the other.
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

// retry keeps the transaction of client i for another attempt, if a conflict aborted it and attempts are left. The
// client sends the retry with a new ID.
func (c *clients) retry(i int, o txn.Outcome) {
	t := c.tries[i]
	if c.script != nil || o.Status != txn.Aborted || o.Cause != txn.CauseConflict || int(t.Attempt)+1 >= c.wide.attempts {
		c.tries[i] = nil
		return
	}
	t.Attempt++
}

// mayRunAgain reports whether a second run can follow. The first run must have passed, every transaction must be
// answered, and all nodes must be running, as in a database that serves several runs.
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

// runAgain loads the rows again, as drivers do between runs when all replicas are quiescent. The clients then send
// transactions with the same IDs again, without faults.
func (e *execution) runAgain(c Config, res *Result) {
	e.sim.Run(e.sim.Now() + betweenRuns)
	for n := range geo.NodeID(e.topology.Nodes()) {
		e.sim.Store(n).Reset(0)
	}
	e.load.fill(e.layout, e.sim)
	e.wide.fill(e.layout, e.sim)
	// Start a new history, because the same IDs now denote other transactions.
	e.taps.History = history.History{KeyName: e.taps.History.KeyName}
	for _, name := range e.topology.Regions {
		e.taps.History.Region(name)
	}
	until := e.load.until
	// Restore the setting at the end, because Least.Trace and Least.WritePage run the scenario again.
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
