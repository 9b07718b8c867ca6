package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/result"
)

// faults returns the faults of a timeline for a result. unfinished is the number of transactions that the remaining
// nodes never finished.
func faults(t *fault.Timeline, unfinished int) []result.Fault {
	var out []result.Fault
	if t == nil {
		return nil
	}
	for _, l := range t.Lives {
		f := result.Fault{
			Name: l.Fault.Name, Kind: l.Fault.Kind, AtMicroseconds: l.Fault.At.Microseconds(), DurationMicroseconds: l.Fault.Duration.Microseconds(),
			FromMicroseconds: instant(l.Injecting), InjectedMicroseconds: instant(l.Injected),
			RecoveringMicroseconds: instant(l.Recovering), ToMicroseconds: instant(l.Recovered),
			ToleranceMicroseconds: l.Tolerance().Microseconds(),
			Lasting:               l.Lasting && l.Injecting != nil, Problem: l.Problem, Injector: l.Injector,
		}
		topology := t.Plan.Topology
		for _, n := range l.Targets.From {
			f.Targets = append(f.Targets, topology.NodeName(n))
		}
		if b := l.Fault.Between(); b != nil {
			for _, link := range fault.Links(b, topology) {
				f.Targets = append(f.Targets, topology.Regions[link.From]+" -> "+topology.Regions[link.To])
			}
		}
		if f.Lasting && l.Fault.Kills() {
			f.Lost = slices.Clone(f.Targets)
			f.Message = "what they held in memory is lost: they do not come back"
			if unfinished > 0 {
				f.Message += fmt.Sprintf("; %d transactions were never finished", unfinished)
			}
		}
		// A kill without lasting loss means that its targets were restarted.
		if !f.Lasting && l.Fault.Kills() && l.Injecting != nil {
			f.Restarted = slices.Clone(f.Targets)
			if l.Replaced {
				f.Replaced = slices.Clone(f.Targets)
			}
		}
		if l.State != fault.Done && f.Problem == "" {
			f.Problem = fmt.Sprintf("it was in state %s when the run ended", l.State)
		}
		out = append(out, f)
	}
	return out
}

func instant(d *time.Duration) *int64 {
	if d == nil {
		return nil
	}
	us := d.Microseconds()
	return &us
}

// LeftOut returns, for each node, the reason why its data is not inspected; empty if it is inspected. Once a fault has
// removed nodes permanently, some remaining nodes may wait for them forever.
func LeftOut(t *geo.Topology, lost []geo.NodeID, pending func(geo.NodeID) int) []string {
	// Without losses, pending transactions are a defect of the database, so every node is inspected.
	if len(lost) == 0 {
		return nil
	}
	out := make([]string, t.Nodes())
	for i := range out {
		n := geo.NodeID(i)
		if slices.Contains(lost, n) {
			out[i] = "was lost"
		} else if p := pending(n); p > 0 {
			out[i] = fmt.Sprintf("waits with %d transactions for nodes that were lost", p)
		}
	}
	return out
}

// fastLinks converts the times at which links were too fast to the form of a result.
func fastLinks(in []fault.FastLink) []result.FastLink {
	var out []result.FastLink
	for _, f := range in {
		out = append(out, result.FastLink{From: f.Node, To: f.Far, DeclaredMicroseconds: f.Declared.Microseconds(), MedianMicroseconds: f.Median.Microseconds(),
			FromMicroseconds: f.From.Microseconds(), ToMicroseconds: f.To.Microseconds()})
	}
	return out
}

// deviations converts the unplanned actions on nodes and links to the form of a result.
func deviations(in []fault.Deviation) []result.Deviation {
	var out []result.Deviation
	for _, d := range in {
		r := result.Deviation{Name: d.Name, What: d.What, FromMicroseconds: d.From.Microseconds(), ToMicroseconds: d.To.Microseconds()}
		if d.Life != nil {
			r.Fault = d.Life.Fault.Name
		}
		out = append(out, r)
	}
	return out
}
