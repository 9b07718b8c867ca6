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

// core is the second phase of a scenario: the remaining regions must continue in time after regions are lost
// permanently. The first phase only shows that everything is answered once all faults are over, or after minutes.
type core struct {
	breaks, begins, ends time.Duration // begins is 0 for a scenario without a core
	faults               []fault       // the losses
	links                [][]geo.Link  // that lose nothing
	regions              []geo.Region  // that are left
	answers              time.Duration // the protocol's bound
}

const (
	// coreCalm is the additional calm between the first phase and the loss of regions, on top of the first phase's own.
	coreCalm = 5 * time.Second
	// coreLength is the time for which the clients of the core send. corePause is their minimum pause between two
	// transactions: a light load.
	coreLength = 3 * time.Second
	corePause  = 200 * time.Millisecond
	// coreSettles is the time after the loss at which clients start if the protocol promises nothing.
	coreSettles = 10 * time.Second
)

// makeCore schedules the permanent loss of up to as many regions as the database survives, counting the regions that
// are lost before.
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
	// A link that was cut delivers again after at most the duration of the cut: messages that it has held back are not
	// lost with a region.
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

// beginCore lets the clients of the core send again. Transactions that are still open by then must be answered in time,
// too.
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

// judgeCore looks for transactions of the second phase that took too long.
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
