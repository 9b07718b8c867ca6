package result

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestGrowingQueueHasNoObservedTail simulates arrivals at twice the service rate. Later transactions take longer and
// have less time until their window closes. Half of the transactions are in flight at the end, so only lower bounds of
// percentiles are known. If the same number was in flight when the window opened, the estimate holds.
func TestGrowingQueueHasNoObservedTail(t *testing.T) {
	var served, waiting, steady, young []int64
	for i := range int64(100) {
		// Transaction i is due in the first half, at 50 ms times i, and is served 100 ms after its predecessor.
		served = append(served, (i+1)*50_000)
		waiting = append(waiting, (i+1)*50_000-25_000) // due in the second half, in flight since then
		steady = append(steady, 5_000_000)
		young = append(young, (i+1)*50_000-25_000)
	}
	for name, c := range map[string]struct {
		latency   tally
		carriedIn int64
		warmup    int64
		grows     bool
	}{
		"twice the rate that is served":   {tallied(served, waiting, nil), 0, 0, true},
		"with transactions of the warmup": {tallied(served, waiting, nil), 30, 1_000_000, true},
		"in a steady state":               {tallied(steady, young, nil), 100, 1_000_000, false},
		"a cold start":                    {tallied(steady, young, nil), 0, 0, false},
	} {
		f := figures{Counts: Counts{Committed: 100}, Unanswered: Unanswered{Due: 200, Unfinished: 100}, carriedIn: c.carriedIn, latency: c.latency}
		if got := f.grows(10_000_000, c.warmup); got != c.grows {
			t.Errorf("%s: grows is %t", name, got)
		}
		f.latency.growing = c.grows
		l := f.latency.latency()
		for what, q := range map[string]v1alpha1.Quantile{"p50": l.P50, "p99": l.P99, "max": l.Max, "mean": l.Mean} {
			if q.IsBound() != c.grows && what != "max" {
				t.Errorf("%s: %s is %s", name, what, FormatQuantile(q))
			}
		}
		if c.grows && l.P50.Least() > 5_000_000 { // the true median
			t.Errorf("%s: the bound of p50 is %s", name, FormatQuantile(l.P50))
		}
	}
}

// TestOverloaded checks when an Invalid run counts as overloaded. All of its reasons must describe how the database
// served the load, and at least one of them must show the overload. A slow load generator, a node without CPU time or a
// failed check is not an overload.
func TestOverloaded(t *testing.T) {
	d := &Document{Regions: []Region{{Name: "busy"}, {Name: "stalled"}}}
	for i := range d.Regions {
		d.Regions[i].Committed, d.Regions[i].Dropped = 500, 500
	}
	busy := Reason{ReasonDriverBound, d.Regions[0].neverSent() + ", since all of its 10 clients were busy"}
	consequences := []Reason{{ReasonUnanswered, "all 10 clients in stalled had been waiting"}, {ReasonObjectiveMissed, "latencyP99"},
		{ReasonObjectiveUndecided, "latencyP50"}, {ReasonTooFewSamples, "latencyP99"}}
	with := func(r ...Reason) []Reason { return append(r, consequences...) }
	for name, c := range map[string]struct {
		reasons []Reason
		want    bool
	}{
		"busy clients beside a stalled region": {with(busy), true},
		"busy clients alone":                   {[]Reason{busy}, true},
		"transactions that do not end":         {with(Reason{ReasonNotQuiet, "the database was not quiet"}), true},
		"both":                                 {with(Reason{ReasonNotQuiet, "the database was not quiet"}, busy), true},
		"nothing committed":                    {[]Reason{{ReasonNoTransactions, "no transaction"}}, true},
		"slow load generator":                  {with(Reason{ReasonDriverBound, "driver-bound: 2% of sends were late"}, busy), false},
		"node without CPU":                     {with(Reason{ReasonNodeStarved, "node a/0/0"}, busy), false},
		"wrong answers":                        {with(Reason{ReasonCheckFailed, "money"}, Reason{ReasonNotQuiet, "the database was not quiet"}), false},
		"nothing committed on a starved node":  {[]Reason{{ReasonNoTransactions, "no transaction"}, {ReasonNodeStarved, "node a/0/0"}}, false},
		"consequences alone":                   {consequences, false},
		"no reason, it passed":                 {nil, false},
	} {
		d.Reasons = c.reasons
		if got := d.Overloaded(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
