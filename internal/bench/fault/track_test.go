package fault

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

const (
	second      = time.Second
	millisecond = time.Millisecond
)

// TestAhead checks that faults are set up ahead of their planned time, and then wait in state Armed. Times that the
// driver sets must be kept.
func TestAhead(t *testing.T) {
	tl := NewTimeline(timeline(t, delay, 1), time.Second, 3*time.Second)
	tl.Ahead = func(*Life) time.Duration { return 8 * second }
	tl.Early = func(*Life) time.Duration { return 500 * millisecond }
	s := &script{errs: map[string]int{"setup": 2}, unset: map[string]int{}}
	l := tl.Lives[0]
	var seen []string
	for now := -10 * second; now != Forever; {
		next, err := tl.Step(context.Background(), now, s, false)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%v %s", now, l.State))
		if l.State == WaitPropagated || l.State == Active && l.Injecting != nil && *l.Injecting == 5*second {
			true1, true2 := 5*second+40*millisecond, 5*second+60*millisecond
			l.Injecting, l.Injected = &true1, &true2
		}
		now = next
	}
	want := "-10s Waiting, -3s Setup, -2s Setup, -1s Armed, 4.5s Active, 15s Done"
	if got := strings.Join(seen, ", "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if *l.Injecting != 5*second+40*millisecond || *l.Injected != 5*second+60*millisecond || *l.Recovering != 15*second {
		t.Errorf("%v %v %v", *l.Injecting, *l.Injected, *l.Recovering)
	}
}

func TestTolerance(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"cpuStress: {target: {}}":                  250 * millisecond,
		"cpuStress: {target: {}}, tolerance: 40ms": 40 * millisecond,
	} {
		l := NewTimeline(timeline(t, "[{name: f, at: 1s, duration: 1s, "+text+"}]", 1), 0, 0).Lives[0]
		if got := l.Tolerance(); got != want {
			t.Errorf("%s: %v", text, got)
		}
		if l.Injector = "ChaosMesh"; l.Fault.Spec.Tolerance == nil && l.Tolerance() != 2*second {
			t.Errorf("Chaos Mesh has %v", l.Tolerance())
		}
	}
}

// track returns a timeline with planned faults, and the track of node 0. log lists the node's actions: "from-to slow
// percent" or "from-to cut".
func track(t *testing.T, faults string, log ...string) (*Timeline, *Track[*admin.Disturbance]) {
	t.Helper()
	tl := NewTimeline(timeline(t, faults, 1), 0, 0)
	tl.Begin = -7 * second
	for _, l := range tl.Lives {
		l.State, l.Injector = Armed, "BuiltIn"
		var err error
		if l.Targets, err = tl.Plan.Resolve(l.Fault, nil); err != nil {
			t.Fatal(err)
		}
		if l.Fault.Kills() { // the node was away for a second, as planned
			from, to := l.Fault.At, l.Fault.At+second
			l.State, l.Injecting, l.Recovered = Done, &from, &to
		}
	}
	const zero = -100 * second // the node's clock started before the run
	l := &admin.Log{}
	for _, text := range log {
		var from, to int
		var what string
		var percent int64
		if _, err := fmt.Sscanf(text, "%d-%d %s %d", &from, &to, &what, &percent); err != nil && what == "" {
			t.Fatalf("%s: %v", text, err)
		}
		d := admin.Disturbance{SlowPercent: percent}
		if what == "cut" {
			d = admin.Disturbance{Cut: []int{4, 5, 6, 7}}
		}
		e := admin.LogEntry{From: time.Duration(from)*millisecond - zero, Disturbance: d}
		if to != 0 {
			end := time.Duration(to)*millisecond - zero
			e.To = &end
		}
		l.Entries = append(l.Entries, e)
	}
	return tl, tl.NodeTrack(0, l, zero, 5*millisecond, func(l *Life) bool { return !l.Fault.Kills() })
}

const (
	slowFault  = "{name: slow, at: 10s, duration: 5s, cpuStress: {target: {}, workers: 1, loadPercent: 50}}"
	extraFault = "{name: extra, at: 12s, duration: 2s, cpuStress: {target: {}, workers: 1, loadPercent: 20}}"
	cutFault   = "{name: cut, at: 20s, duration: 2s, networkPartition: {from: {regions: [eu]}}, tolerance: 1s}"
	killFault  = "{name: kill, at: 30s, containerKill: {target: {regions: [eu]}}}"
)

func TestDeviations(t *testing.T) {
	for name, tc := range map[string]struct {
		faults string
		log    []string
		want   string
	}{
		"nothing planned, nothing done":    {"[]", nil, ""},
		"nothing planned":                  {"[]", []string{"5000-5010 cut"}, "[5s 5.01s cut off from node us/0/0 and 3 more]"},
		"as planned":                       {"[" + slowFault + "]", []string{"10003-15002 slow 50"}, ""},
		"a little late":                    {"[" + slowFault + "]", []string{"10200-15240 slow 50"}, ""},
		"late":                             {"[" + slowFault + "]", []string{"10400-15000 slow 50"}, "[10.255s 10.4s undisturbed: slow]"},
		"too long":                         {"[" + slowFault + "]", []string{"10000-15400 slow 50"}, "[15.255s 15.4s slower by 50%: slow]"},
		"too early":                        {"[" + slowFault + "]", []string{"9000-15000 slow 50"}, "[9s 9.745s slower by 50%: slow]"},
		"too short":                        {"[" + slowFault + "]", []string{"10000-13000 slow 50"}, "[13s 14.745s undisturbed: slow]"},
		"never":                            {"[" + slowFault + "]", nil, "[10.255s 14.745s undisturbed: slow]"},
		"at another time":                  {"[" + slowFault + "]", []string{"1000-3000 slow 50", "10000-15000 slow 50"}, "[1s 3s slower by 50%]"},
		"something else":                   {"[" + slowFault + "]", []string{"10000-15000 slow 51"}, "[10s 15s slower by 51%]"},
		"interrupted":                      {"[" + slowFault + "]", []string{"10000-12000 slow 50", "12010-15000 slow 50"}, "[12s 12.01s undisturbed]"},
		"something else meanwhile":         {"[" + slowFault + "]", []string{"10000-12000 slow 50", "12000-12001 cut", "12001-15000 slow 50"}, "[12s 12.001s cut off from node us/0/0 and 3 more]"},
		"two that overlap":                 {"[" + slowFault + ", " + extraFault + "]", []string{"10000-12000 slow 50", "12000-14000 slow 70", "14000-15000 slow 50"}, ""},
		"the second is late":               {"[" + slowFault + ", " + extraFault + "]", []string{"10000-13000 slow 50", "13000-14000 slow 70", "14000-15000 slow 50"}, "[12.255s 13s slower by 50%: extra]"},
		"a tolerance of its own":           {"[" + cutFault + "]", []string{"20900-22950 cut"}, ""},
		"before the window":                {"[]", []string{"-5000--1 cut"}, ""},
		"into the window":                  {"[]", []string{"-5000-1 cut"}, "[0s 1ms cut off from node us/0/0 and 3 more]"},
		"after the window":                 {"[]", []string{"60000-61000 cut"}, ""},
		"for good":                         {"[]", []string{"59000-0 cut"}, "[59s 1m0s cut off from node us/0/0 and 3 more]"},
		"what goes on over a restart":      {"[" + killFault + "]", []string{"29700-30900 cut"}, "[29.7s 29.75s cut off from node us/0/0 and 3 more]"},
		"a fault over a restart":           {"[{name: long, at: 25s, duration: 10s, cpuStress: {target: {}, workers: 1, loadPercent: 50}}, " + killFault + "]", []string{"25000-30000 slow 50", "31000-35000 slow 50"}, ""},
		"a fault of others is not its own": {"[{name: f, at: 10s, duration: 5s, cpuStress: {target: {regions: [us]}}}]", []string{"10000-15000 slow 100"}, "[10s 15s slower by 100%]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, tr := track(t, tc.faults, tc.log...)
			var got []string
			for _, d := range tr.Deviations([]Interval{{0, 60 * second}}) {
				text := fmt.Sprintf("[%v %v %s", d.From, d.To, d.What)
				if d.Life != nil {
					text += ": " + d.Life.Fault.Name
				}
				got = append(got, text+"]")
			}
			if strings.Join(got, "; ") != tc.want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "; "), tc.want)
			}
		})
	}
}

// TestEdges checks that the actual times of a fault are matched to its own edges. Edges of other faults, in this run or
// an earlier run, must not match.
func TestEdges(t *testing.T) {
	both := "[" + slowFault + ", " + extraFault + "]"
	twice := "[" + slowFault + ", " + strings.NewReplacer("slow", "again", "10s", "20s").Replace(slowFault) + "]"
	short := "[" + strings.Replace(slowFault, "5s", "100ms", 1) + "]"
	flaps := "[" + strings.Replace(slowFault, "5s", "100ms", 1) + ", " + strings.NewReplacer("slow", "again", "10s", "10200ms", "5s", "100ms").Replace(slowFault) + "]"
	for name, tc := range map[string]struct {
		faults string
		log    []string
		want   string
	}{
		"as planned":                             {both, []string{"10003-12004 slow 50", "12004-14005 slow 70", "14005-15006 slow 50"}, "slow 10.003s 15.006s, extra 12.004s 14.005s"},
		"the first is late":                      {both, []string{"11500-12004 slow 50", "12004-14005 slow 70", "14005-15006 slow 50"}, "slow 11.5s 15.006s, extra 12.004s 14.005s"},
		"much too late":                          {both, []string{"30000-31000 slow 50"}, "slow never 31s, extra never never"},
		"never":                                  {both, nil, "slow never never, extra never never"},
		"a run before did the same":              {twice, []string{"-300000--295000 slow 50"}, "slow never never, again never never"},
		"a run before did the same, so did this": {twice, []string{"-300000--295000 slow 50", "10003-15003 slow 50", "20003-25003 slow 50"}, "slow 10.003s 15.003s, again 20.003s 25.003s"},
		"only the first of two that are equal":   {twice, []string{"10003-15003 slow 50"}, "slow 10.003s 15.003s, again never never"},
		"only the second of two that are equal":  {twice, []string{"20003-25003 slow 50"}, "slow never never, again 20.003s 25.003s"},
		"late by more than it lasts":             {short, []string{"10200-10300 slow 50"}, "slow 10.2s 10.3s"},
		"only the first of two that are near":    {flaps, []string{"10003-10103 slow 50"}, "slow 10.003s 10.103s, again never never"},
		"only the second of two that are near":   {flaps, []string{"10203-10303 slow 50"}, "slow never never, again 10.203s 10.303s"},
		"two that are near":                      {flaps, []string{"10003-10103 slow 50", "10203-10303 slow 50"}, "slow 10.003s 10.103s, again 10.203s 10.303s"},
	} {
		tl, tr := track(t, tc.faults, tc.log...)
		var got []string
		for _, l := range tl.Lives {
			begin, end, b, e := tr.Edges(l)
			if !b || !e {
				t.Errorf("%s: %s makes no difference", name, l.Fault.Name)
			}
			text := func(d *time.Duration) string {
				if d == nil {
					return "never"
				}
				return d.String()
			}
			got = append(got, l.Fault.Name+" "+text(begin)+" "+text(end))
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, ", "), tc.want)
		}
	}
	tl, tr := track(t, "[{name: f, at: 10s, duration: 5s, cpuStress: {target: {regions: [us]}}}]")
	if _, _, b, e := tr.Edges(tl.Lives[0]); b || e {
		t.Error("a fault of other nodes makes a difference here")
	}
}

// TestAgenda checks that an agenda states the node's plan in the time of the node's own clock, and includes the lost
// nodes.
func TestAgenda(t *testing.T) {
	tl, _ := track(t, "["+slowFault+", "+extraFault+"]")
	all := func(*Life) bool { return true }
	a := Agenda(tl.NodePlan(0, all), -100*second, nil, 0)
	var got []string
	for _, s := range a.Steps {
		got = append(got, fmt.Sprintf("%v %d%%", s.At, s.SlowPercent))
	}
	if want := "1m50s 50%, 1m52s 70%, 1m54s 50%, 1m55s 0%"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", got, want)
	}
	a = Agenda(tl.NodePlan(0, all), -100*second, []Departure{{0, 0}, {5, 11 * second}, {4, 14 * second}, {3, 20 * second}}, 0)
	got = nil
	for _, s := range a.Steps {
		got = append(got, fmt.Sprintf("%v %d%% %v", s.At, s.SlowPercent, s.Lost))
	}
	if want := "1m50s 50% [], 1m51s 50% [5], 1m52s 70% [5], 1m54s 50% [4 5], 1m55s 0% [4 5], 2m0s 0% [3 4 5]"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	a = Agenda(tl.NodePlan(0, all), 14500*millisecond, []Departure{{5, 0}}, 0) // the node's clock started during the run
	if d, next, ok := a.At(0); d.SlowPercent != 0 || len(d.Lost) != 1 || !ok || next != 1 {
		t.Errorf("%+v, %v, %t", d, next, ok)
	}
	for i, s := range a.Steps {
		if i > 0 && s.At <= a.Steps[i-1].At {
			t.Errorf("step %d is %+v", i, s)
		}
	}
	if d, _, ok := a.At(second); ok || d.SlowPercent != 0 {
		t.Errorf("in the end %+v", d)
	}
	// A fault that was given up is no longer in the agenda.
	now := 11 * second
	tl.Lives[0].Problem, tl.Lives[0].Recovering, tl.Lives[0].State = "no", &now, Recover
	if p := tl.NodePlan(0, all); len(p) != 4 || p[1].At != now || p[1].State.SlowPercent != 0 || p[2].State.SlowPercent != 20 {
		t.Errorf("%+v", p)
	}
}

// TestDeparted checks that a node counts as departed from the planned time of its kill on, and permanently once it is
// killed. If the kill was given up beforehand, the node does not count as departed.
func TestDeparted(t *testing.T) {
	tl, _ := track(t, "[{name: kill, at: 30s, podKill: {target: {regions: [us], partitions: [0]}}}]")
	l := tl.Lives[0]
	l.Lasting, l.Targets.From, l.Injector = true, []geo.NodeID{4}, "Kubernetes"
	for _, tc := range []struct {
		state     State
		injecting time.Duration // 0 for not yet
		now       time.Duration
		want      int
	}{{Armed, 0, 29 * second, 0}, {Armed, 0, 30 * second, 1}, {Inject, 30 * second, 29 * second, 1}, {Done, 31 * second, time.Hour, 1}, {Cleanup, 0, time.Hour, 0}} {
		l.State, l.Injecting = tc.state, nil
		if tc.injecting > 0 {
			l.Injecting = &tc.injecting
		}
		if got := tl.Departed(tc.now); len(got) != tc.want {
			t.Errorf("%+v: %v are gone", tc, got)
		}
	}
}

func TestLosses(t *testing.T) {
	tl, _ := track(t, "[{name: kill, at: 30s, podKill: {target: {regions: [us], partitions: [0]}}}]")
	tl.Lives[0].Lasting = true
	log := &admin.Log{Entries: []admin.LogEntry{
		{From: 10 * second, Disturbance: admin.Disturbance{Lost: []int{6}}},
		{From: 30 * second, Disturbance: admin.Disturbance{Lost: []int{4, 5, 6}}},
	}}
	d := tl.Losses(0, log, 0)
	if len(d) != 1 || d[0].What != "node us/1/0 given up" || d[0].From != 10*second {
		t.Errorf("%+v", d)
	}
	log.Entries[0] = admin.LogEntry{From: 20 * second, Disturbance: admin.Disturbance{Lost: []int{4}}}
	if d := tl.Losses(0, log, 0); len(d) != 2 { // node 4 was lost too early, and node 6 should not be lost at all
		t.Errorf("%+v", d)
	}
}

func TestWhat(t *testing.T) {
	topology := topology()
	for want, d := range map[string]*admin.Disturbance{
		"undisturbed":                     {},
		"slower by 50%, clock set by -1s": {SlowPercent: 50, ClockOffset: -second},
		"cut off from node us/0/0":        {Cut: []int{4}},
		"link eu -> us delay 1ms":         {Links: []admin.DisturbedLink{{To: "us", Link: geo.Link{Delay: millisecond}, Back: geo.Link{Delay: millisecond}}}},
		"link eu -> us delay 1ms, link us -> eu delay 0s +- 2ms, loss 5 ppm, 7 Mbit/s": {Links: []admin.DisturbedLink{{To: "us", Link: geo.Link{Delay: millisecond},
			Back: geo.Link{Jitter: 2 * millisecond, LossPPM: 5, BandwidthMbps: 7}}}},
	} {
		if got := What(d, topology, 0); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
