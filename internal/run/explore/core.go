package explore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// core is the second phase of a scenario. Some regions are lost permanently, and the remaining regions must answer
// within the time that the engine promises. In contrast, the first phase shows only that every transaction is answered
// eventually, possibly minutes after the last fault.
type core struct {
	// breaks is the time of the loss. begins and ends are the times at which clients start and stop sending in the second
	// phase. begins is 0 if there is no second phase.
	breaks, begins, ends time.Duration
	faults               []fault       // the losses of regions
	links                [][]geo.Link  // the links from breaks on, without packet loss and jitter
	regions              []geo.Region  // the remaining regions
	answers              time.Duration // latency bound that the protocol promises; 0 if it promises none
}

const (
	// coreCalm is the pause after the first phase, in addition to twice its length, before regions are lost.
	coreCalm = 5 * time.Second
	// coreLength is the time during which clients send transactions in the second phase. corePause is the minimum pause
	// between two transactions of a client, which keeps the load light.
	coreLength = 3 * time.Second
	corePause  = 200 * time.Millisecond
	// coreSettles is the minimum time between the loss and the first transaction of the second phase.
	coreSettles = 10 * time.Second
)

// makeCore schedules the permanent loss of one or more regions, at most the number that the database tolerates. Regions
// that were lost in the first phase count towards this number.
func (w *world) makeCore(e *protocol.Engine, r *rand.Rand) {
	s := e.Tolerance(w.topology, w.params)
	lost := w.lost()
	may := slices.DeleteFunc(slices.Clone(s.Regions), func(a geo.Region) bool { return slices.Contains(lost, a) })
	if most := min(s.Most-len(lost), len(may)); most > 0 {
		r.Shuffle(len(may), func(i, j int) { may[i], may[j] = may[j], may[i] })
		may = may[:1+r.IntN(most)]
	} else {
		may = nil
	}
	if len(may)+len(lost) == 0 {
		return
	}
	c := &w.core
	// After a heal, a link may need as much time as the cut lasted to deliver the messages that it held back. Wait for
	// twice the time, so that these messages are not lost with a region.
	c.breaks = 2*max(w.calm, w.load.until) + coreCalm
	for _, a := range may {
		c.faults = append(c.faults, fault{at: c.breaks, kind: lose, a: a})
	}
	c.answers = s.Answers
	c.begins = c.breaks + max(s.Settles, coreSettles)
	c.ends = c.begins + coreLength
	for a := range w.topology.Regions {
		if region := geo.Region(a); !slices.Contains(lost, region) && !slices.Contains(may, region) {
			c.regions = append(c.regions, region)
		}
		row := slices.Clone(w.topology.Links[a])
		for b := range row {
			// With packet loss or jitter, no bound on the latency would hold.
			row[b].LossPPM, row[b].Jitter = 0, 0
		}
		c.links = append(c.links, row)
	}
}

func (c *core) describe(b *strings.Builder, t *geo.Topology) {
	if c.begins == 0 {
		return
	}
	fmt.Fprintf(b, "%v: links lose nothing any more\n", c.breaks)
	for _, f := range c.faults {
		fmt.Fprintf(b, "%v: %s\n", f.at, f.describe(t))
	}
	fmt.Fprintf(b, "%v: clients of the %d regions that are left send again", c.begins, len(c.regions))
	if c.answers > 0 {
		fmt.Fprintf(b, ", and are answered within %v", c.answers)
	}
	b.WriteByte('\n')
}

// beginCore lets the clients of the remaining regions send again. Transactions that are still unanswered must now also
// be answered within the bound, which counts from the start of the second load.
func (e *execution) beginCore() {
	for _, region := range e.core.regions {
		cl := e.clients[region]
		cl.last, cl.asked = e.core.ends, make([]time.Duration, e.load.clients)
		for i := range e.load.clients {
			if cl.waits[i] {
				cl.asked[i] = e.sim.Now()
			} else if cl.script == nil {
				cl.env.After(upTo(cl.rng, corePause), protocol.Timer{Arg: uint64(i)})
			}
		}
	}
}

// judgeCore reports regions in which a transaction of the second phase took longer than the bound.
func (e *execution) judgeCore(res *Result) {
	for _, region := range e.core.regions {
		cl := e.clients[region]
		res.Slowest = max(res.Slowest, cl.slowest)
		if e.core.answers > 0 && cl.slowest > e.core.answers {
			res.problem(Late, "core: a transaction of %s took %v although its database, with the regions that are left, answers within %v",
				e.topology.Regions[region], cl.slowest, e.core.answers)
		}
	}
}
