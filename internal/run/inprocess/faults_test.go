package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/run/node"
)

// withFault returns a run of 12 s over two regions, with a fault from 4 s to 7 s. If the fault is a kill, it happens at
// 4 s and has no duration.
func withFault(engine, kind, spec string, seed int) string {
	duration := "duration: 3s, "
	if strings.HasSuffix(kind, "Kill") {
		duration = ""
	}
	text := manifestOf("smallbank-two-regions", twoRegions, engine, "{clientsPerRegion: 40, thinkTime: 100ms, warmup: 1s, duration: 12s, requestTimeout: 2s}", seed)
	text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", mayBeUnanswered, 1)
	return text + fmt.Sprintf("  faults: [{name: f, at: 4s, %s%s: %s}]\n", duration, kind, spec)
}

// With every engine, each fault has an effect while it lasts and no effect afterwards, and the data stays correct.
func TestSimulatedFaults(t *testing.T) {
	const second = "{regions: [ap-northeast-1]}"
	for _, tc := range []struct {
		kind, spec string
		least      int64 // bounds of R, in parts per million
		most       int64
	}{
		{"networkDelay", "{between: {}, delay: 100ms}", 0, 900_000},
		{"networkLoss", "{between: {}, lossPPM: 50000}", 0, 999_000},
		{"networkBandwidth", "{between: {}, bandwidthMbps: 1}", 0, 1_000_000},
		{"networkPartition", "{from: {regions: [ap-northeast-1]}}", 0, 850_000},
		{"nodeShutdown", "{target: {regions: [ap-northeast-1]}}", 0, 900_000},
		{"cpuStress", "{target: " + second + ", workers: 200, loadPercent: 100}", 0, 999_000},
		{"memoryStress", "{target: " + second + ", size: 1Gi}", 900_000, 1_000_000},
		{"ioDelay", "{target: {}, delay: 100ms, percent: 100}", 0, 800_000},
		{"ioError", "{target: {regions: [ap-northeast-1]}}", 0, 900_000},
		{"diskReadLoad", "{target: {}, megabytesPerSecond: 200}", 900_000, 1_000_000},
		{"diskWriteLoad", "{target: {}}", 900_000, 1_000_000},
		{"clockSkew", "{target: " + second + ", offset: 300ms}", -1_000_000, 1_000_000},
	} {
		for _, engine := range engines.Names() {
			t.Run(tc.kind+"/"+engine, func(t *testing.T) {
				t.Parallel()
				d := simulate(t, withFault("{name: "+engine+"}", tc.kind, tc.spec, 1))
				if d.Verdict != v1alpha1.VerdictPassed || len(d.Checks) == 0 {
					t.Fatalf("verdict %s: %+v", d.Verdict, d.Reasons)
				}
				f := d.Faults[0]
				a := f.Availability
				if f.Lasting || a == nil || f.InjectedMicroseconds == nil || *f.InjectedMicroseconds != 4_000_000 || *f.ToMicroseconds < 7_000_000 {
					t.Fatalf("%+v, availability %+v", f, a)
				}
				if a.RPPM < tc.least || a.RPPM > tc.most {
					t.Errorf("R is %d ppm, not between %d and %d: %+v", a.RPPM, tc.least, tc.most, a)
				}
				if a.RecoverMicroseconds == nil {
					t.Errorf("it does not recover: %+v", a)
				}
				for _, tick := range d.Timeline {
					if marked := len(tick.Faults) > 0; marked != (tick.Second >= 4 && tick.Second <= 7) {
						t.Errorf("second %d is marked: %t", tick.Second, marked)
					}
				}
			})
		}
	}
}

// A killed node loses its state. The other nodes continue if the protocol permits this, and the remaining copies pass
// the audit.
func TestSimulatedKill(t *testing.T) {
	text := withFault("{name: calvin, parameters: {ordering: consensus}}", "podKill", "{target: {role: leader}}", 1)
	text = strings.Replace(text, "regions: [{name: us-west-2}, {name: ap-northeast-1}]", "regions: [{name: us-east-1}, {name: us-west-2}, {name: eu-west-1}]", 1)
	text = strings.Replace(text, "smallbank-two-regions", "aws", 1)
	d := simulate(t, text)
	f := d.Faults[0]
	if d.Verdict != v1alpha1.VerdictPassed || !f.Lasting || f.ToMicroseconds != nil || len(f.Lost) != 1 || f.Availability == nil {
		t.Fatalf("%s %+v: %+v", d.Verdict, d.Reasons, f)
	}
	// An election takes 1 to 2 s. Then two of the three regions continue.
	if a := f.Availability; a.OutageMicroseconds < 500_000 || a.OutageMicroseconds > 3_000_000 || a.Failed == 0 || a.FaultPerSecond == 0 {
		t.Errorf("%+v", a)
	}
	left := 0
	for _, c := range d.Checks {
		if strings.Contains(c.Message, "copies are left out: node "+f.Lost[0]+" was lost") {
			left++
		}
	}
	if left == 0 {
		t.Errorf("no check tells of the copy that is not complete: %+v", d.Checks)
	}
}

// After a kill without a journal, the container restarts with an empty node. If the engine replaces lost nodes, the run
// recovers and all nodes have complete copies. Otherwise the node stays lost.
func TestSimulatedReplacement(t *testing.T) {
	for _, e := range replacing(t) {
		for _, regions := range []int{2, 3} {
			if regions == 2 && strings.Contains(e.needs, "homeLogs: Regions") {
				continue // the plan would reject such a run
			}
			text := withFault(e.engine(), "containerKill", "{target: {role: "+e.leads+", count: 1}}", 1)
			if regions == 3 {
				text = strings.Replace(text, "regions: [{name: us-west-2}, {name: ap-northeast-1}]", "regions: [{name: us-east-1}, {name: us-west-2}, {name: eu-west-1}]", 1)
				text = strings.Replace(text, "smallbank-two-regions", "aws", 1)
			}
			d := simulate(t, text)
			f := d.Faults[0]
			if replaced := regions == 3; f.Lasting == replaced || (len(f.Lost) == 0) != replaced {
				t.Fatalf("%s in %d regions: %+v", e.name, regions, f)
			} else if !replaced {
				continue
			}
			if a := f.Availability; d.Verdict != v1alpha1.VerdictPassed || a == nil || a.RecoverMicroseconds == nil || a.Failed == 0 {
				t.Errorf("%s: %s %+v: %+v", e.name, d.Verdict, d.Reasons, f.Availability)
			}
			if len(f.Replaced) != 1 || f.ToMicroseconds == nil || *f.ToMicroseconds-*f.RecoveringMicroseconds < 100_000 {
				t.Errorf("%s: replaced %v, whole again within a round trip: %+v", e.name, f.Replaced, f)
			}
			t.Logf("%s: %+v, %d us until all copies are there", e.name, *f.Availability, *f.ToMicroseconds-*f.RecoveringMicroseconds)
			if strings.Contains(fmt.Sprint(d.Checks), "left out") {
				t.Errorf("%s: copies are left out: %+v", e.name, d.Checks)
			}
		}
	}
}

// A node that the manifest kills permanently is not replaced, even if the engine could replace it.
func TestSimulatedLoss(t *testing.T) {
	text := withFault("{name: sdur}", "podKill", "{target: {regions: [us-west-2], count: 1}, lasting: true}", 1)
	text = strings.Replace(text, "regions: [{name: us-west-2}, {name: ap-northeast-1}]", "regions: [{name: us-east-1}, {name: us-west-2}, {name: eu-west-1}]", 1)
	d := simulate(t, strings.Replace(text, "smallbank-two-regions", "aws", 1))
	if f := d.Faults[0]; !f.Lasting || !slices.Equal(f.Lost, []string{"us-west-2/0/0"}) || len(f.Replaced) > 0 {
		t.Errorf("%+v", f)
	}
}

// If there is only one log, the loss of its region stops the database. The run reports the loss and states that no rows
// could be audited. It reports no wrong answer.
func TestSimulatedLossOfTheOnlyLog(t *testing.T) {
	d := simulate(t, withFault("{name: calvin}", "podKill", "{target: {role: leader}}", 1))
	f := d.Faults[0]
	if a := f.Availability; a == nil || a.TPPM == nil || *a.TPPM != 0 || a.RecoverMicroseconds != nil || a.OutageMicroseconds < 7_000_000 {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(f.Message, "transactions were never finished") {
		t.Errorf("message %q", f.Message)
	}
	if d.Verdict != v1alpha1.VerdictInvalid || d.Reasons[0].Reason != result.ReasonNotAudited ||
		!strings.Contains(d.Reasons[0].Message, "no copy is complete") {
		t.Errorf("%s %+v", d.Verdict, d.Reasons)
	}
}

// The results of runs with faults are reproducible, even if the targets of faults are random.
func TestSimulatedFaultsTwiceGiveTheSameBytes(t *testing.T) {
	write := func(seed int) []byte {
		var b bytes.Buffer
		text := withFault("{name: slog}", "nodeShutdown", "{target: {count: 1}}", seed) +
			"  # and another\n"
		text = strings.Replace(text, "faults: [", "faults: [{name: loss, at: 3s, duration: 8s, networkLoss: {between: {}, lossPPM: 20000}}, ", 1)
		if err := simulate(t, text).Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	one := write(1)
	if again := write(1); !bytes.Equal(one, again) {
		t.Error("the same seed gave two different documents")
	}
	if other := write(2); bytes.Equal(one, other) {
		t.Error("another seed gave the same document")
	}
}

// The history of a run with faults is recorded and checked like the history of any other run.
func TestSimulatedFaultsWithHistory(t *testing.T) {
	for _, engine := range serializable() {
		text := withFault(strict(engine), "networkPartition", "{from: {regions: [ap-northeast-1]}}", 1)
		text = strings.Replace(text, "verify: [Invariants]", "verify: [Invariants, StrictSerializable]", 1)
		d := simulate(t, text)
		if d.Verdict != v1alpha1.VerdictPassed || !strings.Contains(fmt.Sprint(d.Checks), "serializable") {
			t.Errorf("%s: %s %+v %+v", engine, d.Verdict, d.Reasons, d.Checks)
		}
	}
}

// ofBusyMachine reports whether an overloaded machine alone can cause the given reason.
func ofBusyMachine(reason string) bool {
	return reason == result.ReasonDriverBound || reason == result.ReasonNetworkNotVerified || reason == result.ReasonFaultMistimed
}

// geobench run detects every disturbance of a node that is not in its plan, even a very short one.
func TestUndeclaredDisturbance(t *testing.T) {
	p := planOf(t, manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 1, warmup: 1s, duration: 1h}", 1))
	nodes, err := node.StartLocal(t.Context(), *p.Deployment(time.Now(), "local"), node.LocalConfig{Engine: p.Engine, Procedures: catalog.Procedures(), ParseWorkload: catalog.Parse})
	if err != nil {
		t.Fatal(err)
	}
	defer nodes.Close() //nolint:errcheck // a test
	faster := geo.Link{Delay: time.Millisecond}
	disturb := func(d *admin.Disturbance) {
		t.Helper()
		for _, a := range []*admin.Agenda{admin.Now(d), {}} {
			if err := nodes.Node(1).Disturb(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
	}
	disturb(&admin.Disturbance{SlowPercent: 7}) // long before the window
	start := time.Now().Add(-time.Second)       // the warm-up of 1 s is just over
	if d, _ := deviations(p, nodes, nil, start); len(d) != 0 {
		t.Fatalf("%+v", d)
	}
	disturb(&admin.Disturbance{Links: []admin.DisturbedLink{{To: "us-west-2", Link: faster, Back: faster}}})
	d, _ := deviations(p, nodes, nil, start)
	if len(d) != 1 || d[0].Name != "ap-northeast-1/0/0" || d[0].What != "link ap-northeast-1 -> us-west-2 delay 1ms" || d[0].From < 0 || d[0].To < d[0].From {
		t.Errorf("%+v", d)
	}
	// The log of the node shows this disturbance, and the measured round trips show its effect.
	if err := nodes.Node(1).Disturb(t.Context(), admin.Now(&admin.Disturbance{Links: []admin.DisturbedLink{{To: "us-west-2", Link: faster, Back: faster}}})); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(20 * time.Second); ; <-tick.C {
		if _, fast := deviations(p, nodes, nil, start); len(fast) == 2 {
			if f := fast[0]; f.Node != "us-west-2/0/0" || f.Far != "ap-northeast-1/0/0" || f.Declared != 100*time.Millisecond || f.Median < 50*time.Millisecond || f.Median >= 94*time.Millisecond {
				t.Errorf("%+v", fast)
			}
			return
		}
		if time.Now().After(limit) {
			t.Fatal("the link is not found to be too fast")
		}
	}
}

// In real time, a partition stops the isolated region, a clock skew is applied and reverted, and a killed node is lost.
// Afterwards the data is correct.
func TestRunFaults(t *testing.T) {
	load := "{clientsPerRegion: 20, thinkTime: 50ms, warmup: 1s, duration: 9s, requestTimeout: 2s}"
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", load, 1)
	text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", mayBeUnanswered, 1) + `  faults:
    - {name: cut, at: 2s, duration: 1s, networkPartition: {from: {regions: [ap-northeast-1]}}}
    - {name: skew, at: 5s, duration: 500ms, clockSkew: {target: {}, offset: 100ms}}
    - {name: kill, at: 7s, podKill: {target: {regions: [ap-northeast-1]}}}
`
	d, err := Run(t.Context(), planOf(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range d.Reasons {
		if !ofBusyMachine(r.Reason) {
			t.Errorf("%+v", r)
		}
	}
	cut, skew, kill := d.Faults[0], d.Faults[1], d.Faults[2]
	if a := cut.Availability; a == nil || cut.ToMicroseconds == nil || *cut.ToMicroseconds < 3_000_000 {
		t.Errorf("%+v %+v", cut, a)
	}
	// Compare the numbers of commits only with each other, because their absolute values depend on the machine.
	second := func(i int) int64 { return d.Timeline[i].Regions[1] }
	if before, during := max(second(0), second(1)), min(second(2), second(3)); during*4 > before*3 {
		t.Errorf("the region that was cut off committed %d in a second of it, and %d in one before", during, before)
	}
	if skew.Problem != "" || skew.ToMicroseconds == nil || len(skew.Targets) != 2 {
		t.Errorf("%+v", skew)
	}
	if d.Process.CPUMilliseconds <= 0 || d.Process.PeakMemoryBytes <= 0 {
		t.Errorf("process %+v", d.Process)
	}
	if a := kill.Availability; !kill.Lasting || len(kill.Lost) != 1 || a == nil || a.Failed == 0 || a.FaultPerSecond == 0 {
		t.Errorf("%+v %+v", kill, a)
	}
}

// sumOf returns the sum of all series of a metric.
func sumOf(t *testing.T, r *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// Killed nodes with journals restart and continue, and the journals are truncated during the run. No acknowledged
// transaction is lost, transactions in flight finish exactly once, and the history is strictly serializable.
func TestRunRestarts(t *testing.T) {
	t.Parallel()
	for _, engine := range engines.Names() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			load := "{clientsPerRegion: 20, thinkTime: 20ms, warmup: 1s, duration: 8s, requestTimeout: 2s}"
			text := manifestOf("smallbank-two-regions", twoRegions, strict(engine), load, 1)
			if engine == "detock" { // provoke deadlocks, for which a goroutine outside the loop searches
				text = strings.Replace(text, "{name: detock}", `{name: detock, parameters: {resolverCore: own, opportunistic: "false"}}`, 1)
				text = strings.Replace(text, "customers: 10000, multiHomePercent: 25", "customers: 100, multiHomePercent: 80", 1)
			}
			text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", mayBeUnanswered, 1) + `  faults:
    - {name: down, at: 2s, duration: 1s, nodeShutdown: {target: {regions: [us-west-2]}}}
    - {name: kill, at: 5s, containerKill: {target: {}}}
`
			text = strings.Replace(text, "verify: [Invariants]", "verify: [Invariants, Convergence, StrictSerializable]", 1)
			text = strings.Replace(text, "  engine: ", "  durability: Journal\n  engine: ", 1)
			registry, cuts := prometheus.NewRegistry(), 0.
			d, err := Observed(t.Context(), planOf(t, text), nil, Observer{Registry: registry, cutJournal: 16 << 10, Last: func(context.Context) {
				cuts = sumOf(t, registry, "geobench_node_journal_cuts_total")
			}})
			if err != nil {
				t.Fatal(err)
			}
			if cuts < 2 {
				t.Errorf("journals were cut short %v times", cuts)
			}
			for _, r := range d.Reasons {
				if !ofBusyMachine(r.Reason) {
					t.Errorf("%+v", r)
				}
			}
			if len(d.Checks) < 3 {
				t.Errorf("checks %+v", d.Checks)
			}
			for _, f := range d.Faults {
				if a := f.Availability; f.Lasting || len(f.Restarted) == 0 || f.ToMicroseconds == nil || a == nil || a.Failed == 0 {
					t.Fatalf("%+v %+v", f, a)
				}
			}
			last := d.Timeline[len(d.Timeline)-1]
			for i, committed := range last.Regions { // the number of commits depends on the load of the machine
				if committed == 0 {
					t.Errorf("the clients of %s committed nothing in the last second", d.Regions[i].Name)
				}
			}
		})
	}
}
