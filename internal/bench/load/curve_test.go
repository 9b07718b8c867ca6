package load

import (
	"math"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// curved returns a load of two repetitions, each with one second of warm-up and ten seconds of measurement.
func curved(arrival v1alpha1.Arrival, c v1alpha1.LoadCurve) v1alpha1.Load {
	l := v1alpha1.Load{ClientsPerRegion: 200, WorkersPerRegion: 2, Arrival: arrival, Repetitions: 2, Curve: &c,
		Warmup: v1alpha1.DurationOf(time.Second), Duration: v1alpha1.DurationOf(10 * time.Second), RequestTimeout: v1alpha1.DurationOf(time.Second)}
	if arrival != v1alpha1.ArrivalClosed {
		l.RatePerSecond, l.ClientsPerRegion = 1000, 100
	}
	return l
}

// playCurve runs the load of a region, with two workers of two shards each, against a database that takes 10 ms. It
// returns the workers' merged report and the times at which transactions were sent.
func playCurve(t *testing.T, l v1alpha1.Load) (*result.Report, []time.Duration) {
	t.Helper()
	topology := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1, Links: make([][]geo.Link, 1)}
	var all []*Machine
	var sent []time.Duration
	for index := range 2 {
		machines, err := Machines(WorkerConfig{Workload: plain{}, Topology: topology, Index: index, Workers: 2, Load: l, Seed: 7, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range machines {
			w := &world{answer: taking(10 * time.Millisecond)}
			w.run(t, m)
			sent = append(sent, w.sent...)
		}
		all = append(all, machines...)
	}
	r, err := ReportOf(all)
	if err != nil {
		t.Fatal(err)
	}
	return r, sent
}

func percent(n int32) *int32 { return &n }

// TestLoadFollowsItsCurve checks that the number of transactions sent in each part of the windows, by all workers
// together, follows the curve. The realised shares and the timeline must agree.
func TestLoadFollowsItsCurve(t *testing.T) {
	gaussian := func(peak, deviation float64) (parts []float64) { // by the error function
		for i := range 10 {
			at := func(x float64) float64 { return math.Erf((x - peak) / deviation / math.Sqrt2) }
			parts = append(parts, deviation*math.Sqrt(math.Pi/2)*(at(float64(i+1)/10)-at(float64(i)/10))*10)
		}
		return parts
	}
	for name, c := range map[string]struct {
		curve v1alpha1.LoadCurve
		want  []float64 // expected load in each part
	}{
		"uniform":        {v1alpha1.LoadCurve{Shape: v1alpha1.LoadUniform}, []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"Dike's":         {v1alpha1.LoadCurve{Shape: v1alpha1.LoadGaussian}, gaussian(0.5, 0.15)},
		"early and flat": {v1alpha1.LoadCurve{Shape: v1alpha1.LoadGaussian, PeakAtPercent: percent(20), DeviationPercent: percent(40)}, gaussian(0.2, 0.4)},
		"steps":          {v1alpha1.LoadCurve{Shape: v1alpha1.LoadSteps, StepsPercent: []int32{20, 100, 0, 50}}, []float64{0.2, 1, 0, 0.5}},
		"thirds":         {v1alpha1.LoadCurve{Shape: v1alpha1.LoadSteps, StepsPercent: []int32{100, 0, 30}}, []float64{1, 0, 0.3}},
	} {
		for _, arrival := range []v1alpha1.Arrival{v1alpha1.ArrivalClosed, v1alpha1.ArrivalConstant, v1alpha1.ArrivalPoisson} {
			t.Run(name+" "+string(arrival), func(t *testing.T) {
				l := curved(arrival, c.curve)
				r, sent := playCurve(t, l)
				perPart := make([]float64, len(c.want))
				warmup := 0.0
				for _, at := range sent {
					at %= 13 * time.Second // a repetition and its drain take 13 s
					if at < time.Second {
						warmup++
					} else if at < 11*time.Second {
						perPart[place(at-time.Second, 10*time.Second, len(perPart))]++
					}
				}
				// A second of the full load has 1000 arrivals, or 200 clients that send every 10 ms.
				whole, sigma := 1000.0, 0.0
				if arrival == v1alpha1.ArrivalClosed {
					whole = 20_000
				} else if arrival == v1alpha1.ArrivalPoisson {
					sigma = 4
				}
				total := 0.0
				for i, w := range c.want {
					want := 2 * w * whole * 10 / float64(len(perPart))
					total += w
					// A removed client still sends for up to 10 ms, and the number of clients is an integer.
					if off := math.Abs(perPart[i] - want); off > 0.005*whole+0.01*want+sigma*math.Sqrt(want) {
						t.Errorf("%.0f sent in part %d, want %.0f", perPart[i], i+1, want)
					}
				}
				curve := NewCurve(&l)
				level := curve.levels[0]
				if arrival == v1alpha1.ArrivalClosed {
					level = float64(curve.clients(0, 200)) / 200
				}
				// A closed loop starts its clients one by one.
				if want := 2 * whole * level; math.Abs(warmup-want) > 0.3*want+sigma*math.Sqrt(want)+1 {
					t.Errorf("%.0f sent in the warm-ups, want the %.0f of the window's beginning", warmup, want)
				}
				var offered, seconds int64
				for _, s := range r.Timeline {
					offered += s.Offered
				}
				for i, s := range Shares(&l) {
					got := r.Shares[i]
					seconds = got.Of
					realised, configured := float64(got.Hits)/float64(got.Of), float64(s.ConfiguredPPM)/1e6
					if math.Abs(configured-c.want[i]/total) > 0.003 {
						t.Errorf("%s: configured %.4f, want %.4f", s.Name, configured, c.want[i]/total)
					}
					if math.Abs(realised-configured) > 0.0005+sigma*math.Sqrt(configured/float64(got.Of)) {
						t.Errorf("%s: realised %.4f, configured %.4f of %d %s", s.Name, realised, configured, got.Of, s.Of)
					}
				}
				if offered != seconds {
					t.Errorf("the timeline has a load of %d, the shares are of %d", offered, seconds)
				}
				if done, _ := sum(r, txn.Committed); done.Count == 0 {
					t.Error("nothing was committed")
				}
			})
		}
	}
}

// TestStepsOfClients checks that clients that a step removes finish their transactions and send no further
// transactions. Clients that a step adds must send immediately, or start with a think time if they have think times.
func TestStepsOfClients(t *testing.T) {
	l := curved(v1alpha1.ArrivalClosed, v1alpha1.LoadCurve{Shape: v1alpha1.LoadSteps, StepsPercent: []int32{100, 0, 100}})
	l.Duration, l.Repetitions = v1alpha1.DurationOf(3*time.Second), 1
	_, sent := playCurve(t, l)
	first := 0
	for _, at := range sent {
		switch {
		case at >= 2*time.Second && at < 3*time.Second:
			t.Fatalf("a transaction was sent at %v, where the load is 0", at)
		case at == 3*time.Second:
			first++
		}
	}
	if first != 200 {
		t.Errorf("%d clients begin with their step, want 200", first)
	}
	l.ThinkTime = v1alpha1.DurationOf(100 * time.Millisecond)
	_, sent = playCurve(t, l)
	thinking, first := 0, 0
	for _, at := range sent {
		if at >= 2*time.Second && at < 3*time.Second {
			thinking++
		}
		if at == 3*time.Second {
			first++
		}
	}
	if thinking > 0 || first > 0 {
		t.Errorf("%d thinking clients sent where the load is 0, %d at once when it was back", thinking, first)
	}
}
