package inprocess

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/engine/engines"
)

// replaced returns a run with faults over three regions, on a database that replaces lost nodes.
func replaced(engine, load string, faults ...string) string {
	text := manifestOf("aws", []string{"us-east-1", "us-west-2", "eu-west-1"}, engine, load, 1)
	text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", mayBeUnanswered, 1)
	text = strings.Replace(text, "verify: [Invariants]", "verify: [Invariants, Convergence, Isolation]", 1)
	return text + "  faults: [" + strings.Join(faults, ", ") + "]\n"
}

// replacer is an engine that can replace lost nodes in a database of three regions with one node each.
type replacer struct {
	name string
	// needs lists the parameters that the engine requires to replace nodes. quick lists parameters with which it detects a
	// lost node soon. leads is the role of the leading node.
	needs, quick, leads string
}

// engine returns spec.engine with the parameters in needs and in more.
func (r *replacer) engine(more ...string) string {
	parameters := slices.DeleteFunc(append(more, r.needs), func(p string) bool { return p == "" })
	return fmt.Sprintf("{name: %s, parameters: {%s}}", r.name, strings.Join(parameters, ", "))
}

// replacing returns all engines that can replace lost nodes in a database with one node per region. It excludes
// primary, whose writer would be the only node of its region.
func replacing(t *testing.T) []replacer {
	t.Helper()
	all := []replacer{
		{"calvin", "ordering: consensus, batchCopies: \"2\"", "", "leader"},
		{"coco", "", "heartbeat: 100ms", "coordinator"},
		{"detock", "homeLogs: Regions, batchCopies: \"2\"", "", "leader"},
		{"geogauss", "", "heartbeat: 100ms", "leader"},
		{"janus", "", "recovery: 500ms", "coordinator"},
		{"minerva", "", "heartbeat: 100ms", "coordinator"},
		{"oceanvista", "failureTimeout: 1s", "", "leader"},
		{"sdur", "", "election: 200ms", "leader"},
		{"slog", "homeLogs: Regions, batchCopies: \"2\"", "", "leader"},
		{"spanner", "", "clockBound: 100ms, election: 200ms", "leaseholder"},
	}
	var names []string
	topology := geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 1, Replicas: 1}
	for _, e := range engines.All() {
		given := map[string]string{}
		if i := slices.IndexFunc(all, func(r replacer) bool { return r.name == e.Name }); i >= 0 && all[i].needs != "" {
			for _, p := range strings.Split(all[i].needs, ", ") {
				name, value, _ := strings.Cut(p, ": ")
				given[name] = strings.Trim(value, `"`)
			}
		}
		if params, errs := e.Resolve(given); e.Replaces != nil && e.Name != "primary" && e.Name != "sunstorm" {
			names = append(names, e.Name)
			if len(errs) > 0 || !e.ReplacesAll(&topology, params) {
				t.Fatalf("%s does not replace all nodes: %v", e.Name, errs)
			}
		}
	}
	if !slices.EqualFunc(all, names, func(r replacer, name string) bool { return r.name == name }) {
		t.Fatalf("%v replace lost nodes", names)
	}
	return all
}

// kills returns n kills of containers, one region after another. The first kill is at the time first, and every is the
// time between two kills.
func kills(n int, first, every time.Duration) (faults []string) {
	for i := range n {
		region := []string{"us-east-1", "us-west-2", "eu-west-1"}[i%3]
		faults = append(faults, fmt.Sprintf("{name: kill-%d, at: %v, tolerance: 1m, containerKill: {target: {regions: [%s]}}}", i, first+time.Duration(i)*every, region))
	}
	return faults
}

// armed is the problem of a kill that is still waiting at the end of the run. This may happen on a busy machine,
// because a kill waits until the previous loss is replaced.
const armed = "it was in state Armed when the run ended"

// killsVariable is the environment variable that sets the number of consecutive kills.
const killsVariable = "GEOBENCH_KILLS"

// killsAsked returns the number of consecutive kills from the environment variable, or usual if it is not set.
func killsAsked(t *testing.T, usual int) int {
	t.Helper()
	text := os.Getenv(killsVariable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want how many kills, for example 20", killsVariable, text)
	}
	return n
}

// In real time, nodes without journals are killed one after another. Each of them loses its state and is replaced. No
// acknowledged transaction is lost, and every copy is complete at the end.
func TestRunReplacements(t *testing.T) {
	t.Parallel()
	n := killsAsked(t, 5)
	const first, every = 2 * time.Second, 2500 * time.Millisecond
	load := fmt.Sprintf("{clientsPerRegion: 10, thinkTime: 50ms, warmup: 1s, duration: %v, requestTimeout: 5s}", first+time.Duration(n)*every+2*time.Second)
	for _, e := range replacing(t) {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			text := replaced(e.engine(e.quick), load, kills(n, first, every)...)
			d, err := Run(t.Context(), planOf(t, text), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range d.Reasons {
				if !ofBusyMachine(r.Reason) && !strings.Contains(r.Message, armed) {
					t.Errorf("%+v", r)
				}
			}
			if len(d.Checks) < 3 || strings.Contains(fmt.Sprint(d.Checks), "left out") {
				t.Errorf("checks %+v", d.Checks)
			}
			longest, left := int64(0), 0
			for _, f := range d.Faults {
				if f.Problem == armed {
					left++
					continue
				}
				if f.Lasting || len(f.Replaced) != 1 || f.ToMicroseconds == nil || f.Problem != "" {
					t.Fatalf("%+v", f)
				}
				longest = max(longest, *f.ToMicroseconds-*f.RecoveringMicroseconds)
			}
			if left > n*3/4 {
				t.Errorf("%d kills were left", left)
			}
			t.Logf("%d kills; %d committed; at most %v to full strength", len(d.Faults)-left, d.Summary.Committed, time.Duration(longest)*time.Microsecond)
		})
	}
}

// If the writer is lost, an empty process replaces it and obtains the log from the storage nodes. If a storage node or
// a copy is lost, its replacement obtains the log from the writer. In simulations and in real time, no acknowledged
// transaction is lost and every copy is complete.
func TestWriterIsReplaced(t *testing.T) {
	t.Parallel()
	const fault = "{name: kill-%d, at: %ds, tolerance: 1m, containerKill: {target: {%s, count: 1}}}"
	targets := []string{"role: writer", "regions: [us-east-1]", "regions: [eu-west-1]"}
	n := killsAsked(t, 4)
	var faults []string
	for i := range n {
		faults = append(faults, fmt.Sprintf(fault, i, 2+2*i, targets[i%len(targets)]))
	}
	load := fmt.Sprintf("{clientsPerRegion: 5, thinkTime: 50ms, warmup: 1s, duration: %ds, requestTimeout: 5s}", 4+2*n)
	for engine, replicas := range map[string]int{"primary": 2, "sunstorm": 3} {
		t.Run(engine, func(t *testing.T) {
			text := replaced("{name: "+engine+"}", load, faults...)
			text = strings.Replace(text, "  regions: [{name", fmt.Sprintf("  replicasPerPartition: %d\n  regions: [{name", replicas), 1)
			for driver, d := range map[string]*result.Document{"simulate": simulate(t, text), "run": run(t, text)} {
				for _, r := range d.Reasons {
					if !ofBusyMachine(r.Reason) && !strings.Contains(r.Message, armed) {
						t.Errorf("%s: %+v", driver, r)
					}
				}
				left := 0
				for _, f := range d.Faults {
					if f.Problem == armed {
						left++
						continue
					}
					if f.Lasting || len(f.Replaced) != 1 || f.ToMicroseconds == nil || f.Problem != "" {
						t.Fatalf("%s: %+v", driver, f)
					}
					t.Logf("%s: %s, %d us until all copies are there", driver, f.Replaced, *f.ToMicroseconds-*f.RecoveringMicroseconds)
				}
				if left > n*3/4 {
					t.Errorf("%s: %d kills were left", driver, left)
				}
				if len(d.Checks) < 3 || strings.Contains(fmt.Sprint(d.Checks), "left out") || d.Summary.Committed == 0 {
					t.Errorf("%s: checks %+v, %+v", driver, d.Checks, d.Summary)
				}
			}
		})
	}
}

// If a fault would lose more nodes at once than the database tolerates, no node is lost, and the run reports the
// reason. This is also the case if the targets become known only during the run.
func TestTooManyLosses(t *testing.T) {
	t.Parallel()
	load := "{clientsPerRegion: 5, thinkTime: 100ms, warmup: 1s, duration: 14s, requestTimeout: 2s}"
	text := replaced("{name: sdur}", load, "{name: f, at: 1s, containerKill: {target: {role: coordinator, regions: [us-east-1, us-west-2]}}}")
	for driver, d := range map[string]*result.Document{"simulate": simulate(t, text), "run": run(t, text)} {
		f := d.Faults[0]
		if d.Verdict != v1alpha1.VerdictInvalid || !strings.Contains(f.Problem, "have lost what they knew together; engine sdur replaces one node at a time") {
			t.Errorf("%s: %s %+v: %+v", driver, d.Verdict, d.Reasons, f)
		}
		if len(f.Replaced)+len(f.Lost) > 0 || d.Summary.Committed == 0 {
			t.Errorf("%s: %+v", driver, f)
		}
	}
}

// If a loss is due before the previous loss is replaced, it waits until that loss is replaced.
func TestLossesWait(t *testing.T) {
	t.Parallel()
	load := "{clientsPerRegion: 5, thinkTime: 100ms, warmup: 1s, duration: 14s, requestTimeout: 2s}"
	text := replaced("{name: spanner}", load, kills(2, 2*time.Second, 100*time.Millisecond)...)
	for driver, d := range map[string]*result.Document{"simulate": simulate(t, text), "run": run(t, text)} {
		a, b := d.Faults[0], d.Faults[1]
		if v := a.Availability; v == nil || v.RPPM >= 950_000 || v.Failed == 0 {
			t.Errorf("%s: %+v", driver, v)
		}
		if a.ToMicroseconds == nil || b.FromMicroseconds == nil || *b.FromMicroseconds < *a.ToMicroseconds || b.ToMicroseconds == nil || len(b.Replaced) != 1 {
			t.Errorf("%s: %+v %+v", driver, a, b)
		}
		for _, r := range d.Reasons {
			if !ofBusyMachine(r.Reason) {
				t.Errorf("%s: %+v", driver, r)
			}
		}
	}
}

func run(t *testing.T, text string) *result.Document {
	t.Helper()
	d, err := Run(t.Context(), planOf(t, text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
