package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// topology returns two regions, eu and us, 100 ms apart, with two partitions of two replicas each: nodes 0 to 7.
func topology() *geo.Topology {
	near, far := geo.Link{Delay: 200 * time.Microsecond}, geo.Link{Delay: 50 * time.Millisecond, LossPPM: 100_000, BandwidthMbps: 100}
	return &geo.Topology{Regions: []string{"eu", "us"}, Partitions: 2, Replicas: 2, Links: [][]geo.Link{{near, far}, {far, near}}}
}

// timeline returns the plan of faults in the syntax of a manifest.
func timeline(t *testing.T, text string, seed uint64) *Plan {
	t.Helper()
	var faults []v1alpha1.Fault
	if err := yaml.Unmarshal([]byte(text), &faults); err != nil {
		t.Fatal(err)
	}
	return NewPlan(faults, topology(), seed)
}

// script is an injector that records its calls. It fails, or reports unfinished steps, for a given number of times.
type script struct {
	calls  []string
	errs   map[string]int // by method
	unset  map[string]int
	roles  func(geo.NodeID) []string
	lasts  bool
	empty  bool // whether the process that follows a kill has no state
	active *Conditions
}

func (s *script) note(method string, l *Life) error {
	s.calls = append(s.calls, l.Fault.Name+" "+method)
	if s.errs[method] > 0 {
		s.errs[method]--
		return errors.New("no " + method)
	}
	return nil
}

func (s *script) Roles(context.Context) (Roles, error) {
	return func(n geo.NodeID) ([]string, error) {
		if s.roles == nil {
			return nil, nil
		}
		return s.roles(n), nil
	}, nil
}

func (s *script) Setup(_ context.Context, l *Life) error {
	l.Lasting, l.Replaced = s.lasts, s.empty
	return s.note("setup", l)
}

func (s *script) Inject(_ context.Context, l *Life, c *Conditions) error {
	s.active = c
	return s.note("inject", l)
}

func (s *script) Propagated(_ context.Context, l *Life, _ *Conditions) (bool, error) {
	err := s.note("propagated", l)
	s.unset["propagated"]--
	return s.unset["propagated"] < 0, err
}

func (s *script) Recover(_ context.Context, l *Life, c *Conditions) error {
	s.active = c
	return s.note("recover", l)
}

func (s *script) Recovered(_ context.Context, l *Life, _ *Conditions) (bool, error) {
	err := s.note("recovered", l)
	s.unset["recovered"]--
	return s.unset["recovered"] < 0, err
}

func (s *script) Cleanup(_ context.Context, l *Life) error { return s.note("cleanup", l) }

// play advances a timeline until it is over, but at most until the given time, and returns the injector's calls.
func play(t *testing.T, tl *Timeline, s *script, until time.Duration) string {
	t.Helper()
	if s.errs == nil {
		s.errs = map[string]int{}
	}
	if s.unset == nil {
		s.unset = map[string]int{}
	}
	for now := time.Duration(0); now != Forever && now <= until; {
		next, err := tl.Step(context.Background(), now, s, false)
		if err != nil {
			t.Fatal(err)
		}
		if next <= now {
			t.Fatalf("at %v the next step is at %v", now, next)
		}
		now = next
	}
	return strings.Join(s.calls, ", ")
}

const delay = "[{name: slow, at: 5s, duration: 10s, networkDelay: {between: {from: [eu]}, delay: 10ms}}]"

func TestLife(t *testing.T) {
	const end = "slow recover, slow recovered, slow cleanup"
	for name, tc := range map[string]struct {
		script                script
		calls, times, problem string
	}{
		"as planned": {script{}, "slow setup, slow inject, slow propagated, " + end, "5s 5s 15s 15s", ""},
		"slowly": {script{unset: map[string]int{"propagated": 2, "recovered": 1}},
			"slow setup, slow inject, slow propagated, slow propagated, slow propagated, slow recover, slow recovered, slow recovered, slow cleanup", "5s 7s 15s 16s", ""},
		"with failures": {script{errs: map[string]int{"setup": 1, "inject": 1, "recover": 1, "cleanup": 1}},
			"slow setup, slow setup, slow inject, slow inject, slow propagated, slow recover, slow recover, slow recovered, slow cleanup, slow cleanup", "6s 7s 15s 16s", ""},
		"what cannot be set up has no effect": {script{errs: map[string]int{"setup": 99}},
			strings.Repeat("slow setup, ", 4) + "slow cleanup", "- - - -", "Setup: no setup"},
		"what cannot be injected is taken away": {script{errs: map[string]int{"inject": 99}},
			"slow setup, " + strings.Repeat("slow inject, ", 4) + end, "5s - 8s 8s", "Inject: no inject"},
		"so is what does not spread": {script{unset: map[string]int{"propagated": 99}},
			"slow setup, slow inject, " + strings.Repeat("slow propagated, ", 4) + end, "5s - 8s 8s", "WaitPropagated: not done after 3s"},
		"recovery is never given up": {script{errs: map[string]int{"recover": 6}},
			"slow setup, slow inject, slow propagated, " + strings.Repeat("slow recover, ", 6) + end, "5s 5s 15s 21s", "Recover takes long: no recover"},
		"a lasting fault is not taken away": {script{lasts: true}, "slow setup, slow inject, slow propagated, slow cleanup", "5s 5s - -", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tl := NewTimeline(timeline(t, delay, 1), time.Second, 3*time.Second)
			if got := play(t, tl, &tc.script, time.Hour); got != tc.calls {
				t.Errorf("calls\n%s, want\n%s", got, tc.calls)
			}
			l := tl.Lives[0]
			times := ""
			for _, at := range []*time.Duration{l.Injecting, l.Injected, l.Recovering, l.Recovered} {
				if at == nil {
					times += " -"
				} else {
					times += " " + at.String()
				}
			}
			if times[1:] != tc.times || l.Problem != tc.problem || !tl.Over() {
				t.Errorf("times %s, want %s; problem %q, want %q; state %s", times[1:], tc.times, l.Problem, tc.problem, l.State)
			}
			if l.Wanted() != tc.script.lasts {
				t.Errorf("the fault is wanted: %t", l.Wanted())
			}
		})
	}
}

// TestLossesComeOneByOne checks that kills with loss of state are applied one after another, whatever their planned
// times. Each kill waits until the processes that earlier kills stopped have been replaced, and removes no node in the
// meantime. A kill that waits too long is abandoned and removes no node.
func TestLossesComeOneByOne(t *testing.T) {
	const kills = "[{name: a, at: 5s, containerKill: {target: {regions: [eu]}}}, {name: b, at: 6s, containerKill: {target: {regions: [us]}}}, {name: c, at: 6s, containerKill: {target: {regions: [eu]}}}]"
	one := func(n string) string {
		return n + " inject, " + n + " propagated, " + n + " recover, "
	}
	for name, tc := range map[string]struct {
		slow       int
		calls, why string
	}{
		"each is over at once": {0, "a setup, " + one("a") + "a recovered, a cleanup, b setup, " + one("b") + "b recovered, b cleanup, c setup, " + one("c") + "c recovered, c cleanup", ""},
		"the first takes long": {2, "a setup, " + one("a") + "a recovered, b setup, c setup, a recovered, a cleanup, " + one("b") + "b recovered, b cleanup, " + one("c") + "c recovered, c cleanup", ""},
		"too long": {int(MendingPatience/time.Second) + 9, "a setup, " + one("a") + "a recovered, b setup, c setup, a recovered, b cleanup, c cleanup, a recovered, a cleanup",
			"Armed: nodes that were lost before are not replaced yet"},
	} {
		t.Run(name, func(t *testing.T) {
			tl := NewTimeline(timeline(t, kills, 1), time.Second, 3*time.Second)
			s := &script{empty: true, unset: map[string]int{"recovered": tc.slow}}
			calls := slices.Compact(strings.Split(play(t, tl, s, time.Hour), ", ")) // the number of polls does not matter
			if got := strings.Join(calls, ", "); got != tc.calls {
				t.Errorf("calls\n%s, want\n%s", got, tc.calls)
			}
			for _, l := range tl.Lives[1:] {
				if l.Problem != tc.why || (l.Injecting == nil) != (tc.why != "") {
					t.Errorf("%s: problem %q, injecting %v", l.Fault.Name, l.Problem, l.Injecting)
				}
			}
		})
	}
}

// TestTurnsAreWrittenFirst checks that the new state of a fault is stored before another fault takes a step, because
// that step applies the conditions of both.
func TestTurnsAreWrittenFirst(t *testing.T) {
	tl := NewTimeline(timeline(t, "[{name: a, at: 1s, duration: 1s, cpuStress: {target: {}}}, {name: b, at: 1s, duration: 1s, clockSkew: {target: {}, offset: 1s}}]", 1), time.Second, time.Minute)
	tl.Lives[0].State, tl.Lives[1].State = Inject, Armed
	s := &script{}
	for _, want := range []string{"[] Inject Inject", "[a inject b inject] WaitPropagated WaitPropagated"} {
		if _, err := tl.Step(t.Context(), time.Second, s, true); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.calls, " ", tl.Lives[0].State, " ", tl.Lives[1].State); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestIllegalTransitions(t *testing.T) {
	states := []State{Waiting, Setup, Armed, Inject, WaitPropagated, Active, Recover, WaitRecovered, Cleanup, Done}
	legal := 0
	for _, from := range states {
		for _, to := range states {
			l := &Life{Fault: &Fault{Name: "f"}, State: from}
			err := l.To(to, time.Second)
			if ok := slices.Contains(following[from], to); ok != (err == nil) || ok && l.State != to || !ok && l.State != from {
				t.Errorf("from %s to %s: %v, now %s", from, to, err, l.State)
			}
			if err == nil {
				legal++
			}
		}
	}
	if legal != 15 {
		t.Errorf("%d transitions are legal, the diagram has 15", legal)
	}
}

// TestAbortInAnyState checks that aborting a timeline in any state removes all faults that have started, even if
// another process continues the timeline. It also checks that no further faults start.
func TestAbortInAnyState(t *testing.T) {
	seen := map[State]bool{}
	for steps := range 13 {
		tl := NewTimeline(timeline(t, delay, 1), time.Second, 10*time.Second)
		s := &script{errs: map[string]int{}, unset: map[string]int{}}
		now := time.Duration(0)
		for range steps {
			next, err := tl.Step(context.Background(), now, s, true)
			if err != nil {
				t.Fatal(err)
			}
			now = max(now, min(next, time.Hour))
		}
		state := tl.Lives[0].State
		seen[state] = true
		other := NewTimeline(tl.Plan, time.Second, 10*time.Second)
		*other.Lives[0] = *tl.Lives[0]
		if err := other.Abort(now); err != nil {
			t.Fatalf("in %s: %v", state, err)
		}
		before := len(s.calls)
		for !other.Over() {
			if _, err := other.Step(context.Background(), now, s, true); err != nil {
				t.Fatal(err)
			}
		}
		touched := slices.Contains(s.calls, "slow inject") || state == Inject
		if touched != slices.Contains(s.calls, "slow recover") && state != Waiting {
			t.Errorf("aborted in %s: %v", state, s.calls)
		}
		if slices.Contains(s.calls[before:], "slow inject") || other.Conditions().Links[0][1].Delay != 50*time.Millisecond {
			t.Errorf("aborted in %s, and then %v", state, s.calls[before:])
		}
	}
	if len(seen) != 10 {
		t.Errorf("aborted in %d states, there are 10: %v", len(seen), seen)
	}
}

// TestMerging checks that the effects of overlapping faults on a link are combined and can be removed in any order.
func TestMerging(t *testing.T) {
	tl := NewTimeline(timeline(t, `
- {name: slow, at: 1s, duration: 10s, networkDelay: {between: {from: [eu], to: [us], oneWay: true}, delay: 30ms, jitter: 3ms}}
- {name: wobble, at: 2s, duration: 4s, networkDelay: {between: {}, delay: 10ms, jitter: 4ms}}
- {name: loss, at: 3s, duration: 4s, networkLoss: {between: {from: [eu]}, lossPPM: 500000}}
- {name: thin, at: 3s, duration: 5s, networkBandwidth: {between: {from: [eu]}, bandwidthMbps: 10}}
- {name: wide, at: 3s, duration: 5s, networkBandwidth: {between: {from: [eu]}, bandwidthMbps: 1000}}
- {name: gone, at: 12s, duration: 1s, networkLoss: {between: {from: [eu], oneWay: true}, lossPPM: 1000000}}
`, 1), time.Second, time.Second)
	s := &script{errs: map[string]int{}, unset: map[string]int{}}
	at := func(now time.Duration) *Conditions {
		if _, err := tl.Step(context.Background(), now, s, false); err != nil {
			t.Fatal(err)
		}
		return tl.Conditions()
	}
	declared := topology().Links
	for _, tc := range []struct {
		at   time.Duration
		want geo.Link // from eu to us
	}{
		{0, declared[0][1]},
		{1 * time.Second, geo.Link{Delay: 80 * time.Millisecond, Jitter: 3 * time.Millisecond, LossPPM: 100_000, BandwidthMbps: 100}},
		{2 * time.Second, geo.Link{Delay: 90 * time.Millisecond, Jitter: 5 * time.Millisecond, LossPPM: 100_000, BandwidthMbps: 100}},
		{3 * time.Second, geo.Link{Delay: 90 * time.Millisecond, Jitter: 5 * time.Millisecond, LossPPM: 550_000, BandwidthMbps: 10}},
		{6 * time.Second, geo.Link{Delay: 80 * time.Millisecond, Jitter: 3 * time.Millisecond, LossPPM: 550_000, BandwidthMbps: 10}},
		{11 * time.Second, declared[0][1]},
		{12 * time.Second, declared[0][1]},
		{14 * time.Second, declared[0][1]},
	} {
		c := at(tc.at)
		if c.Links[0][1] != tc.want {
			t.Errorf("at %v: eu to us %+v, want %+v", tc.at, c.Links[0][1], tc.want)
		}
		if c.Links[0][0] != declared[0][0] {
			t.Errorf("at %v: inside eu %+v", tc.at, c.Links[0][0])
		}
		if gone := tc.at == 12*time.Second; c.Cut(0, 4) != gone || c.Cut(3, 7) != gone || c.Cut(4, 0) || c.Cut(0, 1) || c.Cuts() != gone {
			t.Errorf("at %v: cuts %v", tc.at, c.cuts)
		}
	}
	if !tl.Over() {
		t.Error("not over")
	}
}

func TestNodeConditions(t *testing.T) {
	for text, want := range map[string]Node{
		"cpuStress: {target: {}, workers: 2, loadPercent: 75}":     {SlowPercent: 150},
		"memoryStress: {target: {}, size: 1Gi}":                    {SlowPercent: 100},
		"diskReadLoad: {target: {}, megabytesPerSecond: 100}":      {SlowPercent: 5},
		"diskWriteLoad: {target: {}}":                              {SlowPercent: 25},
		"ioDelay: {target: {}, delay: 5ms, percent: 50}":           {Hold: 5 * time.Millisecond, HoldPercent: 50},
		"ioError: {target: {}, errno: 5, percent: 100}":            {Down: true},
		"nodeShutdown: {target: {}}":                               {Down: true},
		"clockSkew: {target: {}, offset: -200ms}":                  {ClockOffset: -200 * time.Millisecond},
		"clockSkew: {target: {regions: [us]}, offset: 1s}":         {},
		"networkPartition: {from: {regions: [eu]}, oneWay: false}": {},
	} {
		p := timeline(t, "[{name: f, at: 0s, duration: 1s, "+text+"}]", 1)
		targets, err := p.Resolve(p.Faults[0], nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.Conditions([]*Life{{Fault: p.Faults[0], Targets: targets}}).Nodes[0]; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	leads := func(n geo.NodeID) []string {
		if n%4 == 1 {
			return []string{"leader"}
		}
		return nil
	}
	for text, want := range map[string]string{
		"podKill: {target: {}}":                                                           "[0 1 2 3 4 5 6 7] []",
		"podKill: {target: {regions: [us]}}":                                              "[4 5 6 7] []",
		"podKill: {target: {partitions: [1]}}":                                            "[2 3 6 7] []",
		"podKill: {target: {regions: [eu], partitions: [0]}}":                             "[0 1] []",
		"podKill: {target: {role: leader}}":                                               "[1 5] []",
		"podKill: {target: {role: leader, regions: [us]}}":                                "[5] []",
		"podKill: {target: {role: leader, count: 3}}":                                     "[1 5] []",
		"podKill: {target: {role: none}}":                                                 "podKill.target.role: none of 8 nodes has the role none now",
		"podKill: {target: {regions: [mars]}}":                                            "podKill.target: no node of the database is in these regions and partitions",
		"podKill: {target: {regions: [us], count: 5}}":                                    "podKill.target.count: 5 is more than the 4 nodes",
		"networkPartition: {from: {regions: [eu]}}":                                       "[0 1 2 3] [4 5 6 7]",
		"networkPartition: {from: {role: leader}}":                                        "[1 5] [0 2 3 4 6 7]",
		"networkPartition: {from: {regions: [eu]}, to: {partitions: [0], regions: [us]}}": "[0 1 2 3] [4 5]",
		"networkPartition: {from: {}}":                                                    "networkPartition.from: from is every node of the database, which leaves no node",
		"networkPartition: {from: {regions: [eu]}, to: {}}":                               "networkPartition.to: node eu/0/0 is on both sides",
	} {
		p := timeline(t, "[{name: f, at: 0s, duration: 1s, "+text+"}]", 1)
		targets, err := p.Resolve(p.Faults[0], func(n geo.NodeID) ([]string, error) { return leads(n), nil })
		got := fmt.Sprint(targets.From, targets.To)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestChance checks that count and percent choose the same nodes for the same seed and fault name. It also checks that
// every node is chosen with some seed.
func TestChance(t *testing.T) {
	for _, tc := range []struct {
		text string
		n    int
	}{{"count: 3", 3}, {"percent: 50", 4}, {"percent: 1", 1}, {"percent: 51", 5}, {"percent: 100", 8}} {
		hits := map[geo.NodeID]int{}
		for seed := range uint64(200) {
			choose := func(name string) []geo.NodeID {
				p := timeline(t, "[{name: "+name+", at: 0s, podKill: {target: {"+tc.text+"}}}]", seed)
				targets, err := p.Resolve(p.Faults[0], nil)
				if err != nil || len(targets.From) != tc.n || !slices.IsSorted(targets.From) {
					t.Fatalf("%s, seed %d: %v, %v", tc.text, seed, targets, err)
				}
				return targets.From
			}
			once := choose("a")
			if !slices.Equal(once, choose("a")) {
				t.Fatalf("%s, seed %d: another choice the second time", tc.text, seed)
			}
			for _, n := range once {
				hits[n]++
			}
		}
		for n := range geo.NodeID(8) {
			if share := float64(hits[n]) / 200 / (float64(tc.n) / 8); share < 0.6 || share > 1.5 {
				t.Errorf("%s: node %d was chosen %d times of 200", tc.text, n, hits[n])
			}
		}
	}
}

func TestLinks(t *testing.T) {
	three := &geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 1, Replicas: 1}
	for text, want := range map[string]string{
		"{}":                                    "ab ac ba bc ca cb",
		"{from: [a]}":                           "ab ac ba ca",
		"{from: [a], oneWay: true}":             "ab ac",
		"{to: [a], oneWay: true}":               "ba ca",
		"{from: [a], to: [b]}":                  "ab ba",
		"{from: [a, b], to: [b], oneWay: true}": "ab bb",
		"{from: [a], to: [a]}":                  "aa",
	} {
		var b v1alpha1.RegionPair
		if err := yaml.Unmarshal([]byte(text), &b); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, l := range Links(&b, three) {
			got += " " + three.Regions[l.From] + three.Regions[l.To]
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
