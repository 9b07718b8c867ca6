package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/plan/plantest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
)

// manifestOf returns the manifests of a database over the given regions of a preset network profile, and of a run on
// this database.
func manifestOf(preset string, regions []string, engine string, load string, seed int) string {
	var names []string
	for _, r := range regions {
		names = append(names, "{name: "+r+"}")
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: %s
  regions: [%s]
  network: {profileRef: {name: %s}, emulation: BuiltIn}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: test}
spec:
  databaseRef: {name: db}
  seed: %d
  workload: {smallbank: {customers: 10000, multiHomePercent: 25}}
  load: %s
  objectives: [{metric: abortPPM, max: 0}]
  verify: [Invariants]
`, engine, strings.Join(names, ", "), preset, seed, load)
}

func planOf(t testing.TB, text string) *plan.Plan {
	t.Helper()
	p, err := plantest.Of(text, check.Simulator(nil))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mayBeUnanswered is an objective that permits unanswered transactions, for runs with failing nodes.
const mayBeUnanswered = "objectives: [{metric: unknownPPM, max: 1000000}]"

var twoRegions = []string{"us-west-2", "ap-northeast-1"}

func simulate(t *testing.T, text string) *result.Document {
	t.Helper()
	d, err := Simulate(t.Context(), planOf(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSimulatingTwiceGivesTheSameBytes(t *testing.T) {
	write := func(seed int) []byte {
		var b bytes.Buffer
		text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 50, warmup: 1s, duration: 4s, arrival: Poisson, ratePerSecond: 400}", seed)
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

// TestLawOnPresets compares simulated runs of SmallBank at low load with the latency model, on network profiles from
// the repository.
func TestLawOnPresets(t *testing.T) {
	presets := map[string][]string{
		"smallbank-two-regions": twoRegions,
		"sdur":                  {"us-east", "us-west", "eu"},
		"detock-eight-regions": {"us-east-1", "us-east-2", "eu-west-1", "eu-west-2",
			"ap-northeast-1", "ap-northeast-2", "ap-southeast-1", "ap-southeast-2"},
		"tiga-four-regions": {"us-east1", "europe-north1", "southamerica-east1", "asia-east2"},
	}
	for preset, regions := range presets {
		for _, ordering := range []string{"leader", "consensus", "epochs"} {
			t.Run(preset+"/"+ordering, func(t *testing.T) {
				t.Parallel()
				text := manifestOf(preset, regions, "{name: calvin, parameters: {ordering: "+ordering+"}}", "{clientsPerRegion: 2, warmup: 1s, duration: 6s}", 1)
				p := planOf(t, text)
				d, err := Simulate(t.Context(), p, nil)
				if err != nil {
					t.Fatal(err)
				}
				if d.Verdict != v1alpha1.VerdictPassed || !d.Simulated {
					t.Errorf("verdict %s, simulated %v: %v", d.Verdict, d.Simulated, d.Reasons)
				}
				for i, r := range d.Regions {
					law := p.Engine.Law(&p.Topology, p.Params, geo.Region(i), nil)
					p50 := time.Duration(r.LatencyMicroseconds.P50.Least()) * time.Microsecond
					if off := math.Abs(float64(p50-law)) / float64(law); off > 0.05 {
						t.Errorf("%s: p50 %v is %.1f%% off the law, %v", r.Name, p50, off*100, law)
					}
				}
			})
		}
	}
}

// TestRun runs a database in real time. It checks only properties that do not depend on the speed of the machine.
func TestRun(t *testing.T) {
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 5, warmup: 500ms, duration: 2s}", 1)
	var stages []string
	d, err := Run(t.Context(), planOf(t, text), func(p Progress) {
		if len(stages) == 0 || stages[len(stages)-1] != p.Stage {
			stages = append(stages, p.Stage)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if d.Simulated || d.Machine == nil || d.Process == nil || d.Emulation != "BuiltIn" {
		t.Errorf("simulated %v, machine %v, process %v, emulation %s", d.Simulated, d.Machine, d.Process, d.Emulation)
	}
	if d.Verdict == v1alpha1.VerdictFailed {
		t.Errorf("verdict Failed: %v, checks %v", d.Reasons, d.Checks)
	}
	// The latency model is a lower bound on any machine. A region whose round trip to the leader of the log takes 100 ms
	// cannot commit faster than that.
	if p50 := d.Regions[1].LatencyMicroseconds.P50.Least(); p50 < 100_000 {
		t.Errorf("p50 of %s is %d us, less than the round trip", d.Regions[1].Name, p50)
	}
	for _, l := range d.Links {
		if l.Samples > 0 && l.MeasuredRTTMicroseconds.P50 < l.DeclaredRTTMicroseconds {
			t.Errorf("link %s -> %s: measured %d us is less than the declared %d us", l.From, l.To, l.MeasuredRTTMicroseconds.P50, l.DeclaredRTTMicroseconds)
		}
	}
	if len(stages) < 4 {
		t.Errorf("the progress went through %v only", stages)
	}
	// With a few clients that send one transaction at a time, requests and answers are as large as in the simulator. Only
	// the frame headers are shorter.
	simulated := simulate(t, text).Summary.Wire
	for what, f := range map[string]func(*result.Wire) int64{
		"requests": func(w *result.Wire) int64 { return w.RequestBytesPerTransaction },
		"answers":  func(w *result.Wire) int64 { return w.AnswerBytesPerTransaction },
	} {
		if d.Summary.Wire == nil || f(d.Summary.Wire) > f(simulated) || f(d.Summary.Wire) < f(simulated)-16 {
			t.Errorf("%s: %+v, simulated %+v", what, d.Summary.Wire, simulated)
		}
	}
}

// verifyAll requests every verification.
func verifyAll(text string) string {
	return strings.Replace(text, "verify: [Invariants]", "verify: [Invariants, ReadCommitted, SnapshotIsolation, SessionSnapshotIsolation, "+
		"StrongSnapshotIsolation, Serializable, SessionSerializable, StrictSerializable, Convergence]", 1)
}

// serializable returns the names of the engines that promise serializability with default parameters.
func serializable() (names []string) {
	for _, e := range engines.All() {
		if p, _ := e.Resolve(nil); isolation.Implies(e.Promises(p), isolation.Serializable) {
			names = append(names, e.Name)
		}
	}
	return names
}

// strict returns spec.engine for an engine, with the parameters that it needs for strict serializability.
func strict(engine string) string {
	if engine == "sdur" { // by default, its read-only transactions use slightly old snapshots
		return "{name: sdur, parameters: {readOnly: certified}}"
	}
	return "{name: " + engine + "}"
}

// checkAll checks that every verification passed, and that each history contains at least least committed transactions.
func checkAll(t *testing.T, d *result.Document, least int) {
	t.Helper()
	var names []string
	for _, c := range d.Checks {
		names = append(names, c.Name)
		if !c.Passed {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
		var committed int
		if _, err := isolation.Parse(c.Name); err == nil {
			if _, err := fmt.Sscanf(c.Message, "%d committed transactions", &committed); err != nil || committed < least {
				t.Errorf("%s: the history is too short: %s", c.Name, c.Message)
			}
		}
	}
	if got := strings.Join(names, " "); got != "smallbank-total copies-agree convergence "+strings.Join(isolation.Names(), " ") {
		t.Errorf("the checks are %s", got)
	}
}

// Recording a history does not affect the run: with each engine, the transactions are the same as without a history. So
// are the times, apart from the effect of larger messages.
func TestSimulateRecordsHistories(t *testing.T) {
	for _, engine := range serializable() {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			load := "{clientsPerRegion: 20, warmup: 500ms, duration: 2s, repetitions: 2}"
			if engine == "primary" { // transactions in the primary's region take less than a millisecond
				load = "{clientsPerRegion: 20, thinkTime: 20ms, warmup: 500ms, duration: 2s, repetitions: 2}"
			}
			text := manifestOf("smallbank-two-regions", twoRegions, strict(engine), load, 1)
			d := simulate(t, verifyAll(text))
			checkAll(t, d, 400)
			plain := simulate(t, text)
			if a, b := d.Regions[0].LatencyMicroseconds.P50.Least(), plain.Regions[0].LatencyMicroseconds.P50.Least(); math.Abs(float64(a-b)) > 0.02*float64(b) {
				t.Errorf("p50 is %d us with a history and %d us without", a, b)
			}
		})
	}
}

// The history of a run in real time includes answers that arrive after the request timeout.
func TestRunRecordsHistories(t *testing.T) {
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 20, warmup: 500ms, duration: 2s, requestTimeout: 100ms}", 1)
	d, err := Run(t.Context(), planOf(t, verifyAll(text)), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkAll(t, d, 20)
	for _, r := range d.Reasons {
		if r.Reason == result.ReasonWorkerLost {
			t.Error(r.Message)
		}
	}
}

// After the last answer, the audit waits for messages that are still in flight to another region. They take half of 264
// ms. Until they arrive, some single-home transactions are missing in that region.
func TestSimulateAuditsAQuietDatabase(t *testing.T) {
	regions := []string{"eu-west-2", "ap-southeast-2"}
	text := manifestOf("detock-eight-regions", regions, "{name: slog}", "{clientsPerRegion: 20, warmup: 100ms, duration: 500ms}", 1)
	d := simulate(t, strings.Replace(text, "multiHomePercent: 25", "multiHomePercent: 0", 1))
	for _, c := range d.Checks {
		if !c.Passed {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 5, warmup: 10s, duration: 60s}", 1)
	_, err := Run(ctx, planOf(t, text), func(p Progress) {
		if p.Stage == "warmup" {
			cancel()
		}
	})
	if err == nil {
		t.Error("a run whose context ended gave a result")
	}
}
