package judge

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan/plantest"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/ops/admin"
)

const manifests = `
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: {name: calvin}
  regions: [{name: a}, {name: b}]
  network: {profile: {intraRegion: {rtt: 1ms}, links: [{from: a, to: b, rtt: 40ms}]}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: run}
spec:
  databaseRef: {name: db}
  seed: 1
  workload: {rmw: {records: 1000, recordsPerTransaction: 2, writesPerTransaction: 2, valueBytes: 8}}
  load: {clientsPerRegion: 4, warmup: 1s, duration: 4s}
  verify: [Isolation, Invariants, Convergence]
  faults:
    - {name: gone, at: 1s, podKill: {target: {regions: [b]}}}
`

// measured returns the facts of a simulated run: the observations of its clients, nodes and network. The faults in its
// manifest were not injected.
func measured(t *testing.T) *Facts {
	t.Helper()
	p, err := plantest.Of(manifests, check.Simulator(nil))
	if err != nil {
		t.Fatal(err)
	}
	procedures := catalog.Procedures()
	s := sim.New(sim.Config{Topology: &p.Topology, Engine: p.Engine, Params: p.Params, Procedures: procedures, Seed: 1, Costs: sim.DefaultCosts, ProbeEvery: 100 * time.Millisecond})
	f := &Facts{Plan: p, Layout: p.Engine.Layout(&p.Topology, p.Params), History: &history.History{}, Audits: &audit.Audits{}}
	var machines []*load.Machine
	for r, name := range p.Topology.Regions {
		n := f.History.Region(name)
		m, err := load.Machines(load.WorkerConfig{
			Workload: p.Workload, Topology: &p.Topology, Region: geo.Region(r), Workers: 1, Load: p.Run.Spec.Load, Seed: 1, Start: time.Second, Shards: 1, Shared: true,
			Fine:  true,
			Trace: &load.Trace{Procedures: procedures, Record: func(t *history.Txn) { f.History.Add(n, t) }},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.AddClient(geo.Region(r), m[0].Attach)
		machines = append(machines, m[0])
	}
	for n := range geo.NodeID(p.Topology.Nodes()) {
		if err := workload.Fill(p.Workload, &f.Layout, n, s.Store(n).Load); err != nil {
			t.Fatal(err)
		}
		f.Before = append(f.Before, admin.Status{Node: p.Topology.NodeName(n), ID: int(n), Process: "p", Incarnation: "i"})
	}
	s.Run(20 * time.Second)
	for _, m := range machines {
		m.EndTrace()
		f.Reports = append(f.Reports, m.Report())
	}
	f.After = f.Before
	for n := range geo.NodeID(p.Topology.Nodes()) {
		f.Audits.Nodes = append(f.Audits.Nodes, audit.Of(n, &f.Layout, s.Store(n), p.Workload, true))
	}
	for a, from := range p.Topology.Regions {
		for b, to := range p.Topology.Regions {
			if rtt := s.RTT(geo.Region(a), geo.Region(b)); rtt.Samples > 0 {
				f.RTTs = append(f.RTTs, result.MeasuredRTT{From: from, To: to, Samples: int64(rtt.Samples), RTT: result.RTT{P50: result.Microseconds(rtt.P50), P99: result.Microseconds(rtt.P99)}})
			}
		}
	}
	return f
}

func document(t *testing.T, f *Facts) *result.Document {
	t.Helper()
	d, err := Document(f)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// killed adds to the facts a fault that has permanently removed region b, and unplanned actions.
func killed(f *Facts) {
	f.Timeline = fault.NewTimeline(fault.NewPlan(f.Plan.Run.Spec.Faults, &f.Plan.Topology, 1), time.Second, time.Second)
	life, at := f.Timeline.Lives[0], time.Second
	life.Targets.From, life.Lasting, life.State, life.Injecting, life.Injected, life.Injector = []geo.NodeID{1}, true, fault.Done, &at, &at, "BuiltIn"
	f.Unfinished = 3
	f.Audits.Out = LeftOut(&f.Plan.Topology, f.Timeline.Lost(), func(geo.NodeID) int { return 0 })
	f.Deviations = []fault.Deviation{{Name: "a/0/0", What: "slow by 50%", From: 2 * time.Second, To: 3 * time.Second}}
	f.FastLinks = []fault.FastLink{{Node: "a/0/0", Far: "b/0/0", Declared: 40 * time.Millisecond, Median: time.Millisecond, Interval: fault.Interval{From: time.Second, To: 2 * time.Second}}}
}

// places are the environments in which a run can be measured, each with its witnesses. TestOneJudge checks that the
// same facts yield the same document and verdict, byte for byte, in each environment, except for fields that describe
// the environment.
var places = map[string]func(*Facts){
	"simulation": func(f *Facts) { f.Simulated, f.Emulation = true, "Simulated" },
	"process": func(f *Facts) {
		f.Machine, f.Emulation, f.SharedProcess = result.ThisMachine(), "BuiltIn", true
		f.Driver = &result.Driver{MeasuredMicroseconds: 1, AllowanceMilliCPU: 1000, LateMicroseconds: &result.Lateness{}}
		f.Execution = &result.Execution{Windows: make([]result.OpenWindow, 1)}
	},
	"cluster": func(f *Facts) {
		f.Machine, f.Emulation = result.ThisMachine(), "Sidecar"
		f.Execution = &result.Execution{ID: "x", Windows: make([]result.OpenWindow, 1)}
		f.Pods = []result.Pods{{Role: "node"}, {Role: "worker"}}
		for _, b := range f.Before {
			f.NodeFacts = append(f.NodeFacts, result.NodeFacts{Node: b.Node, Late: &result.Lateness{}})
		}
		for _, r := range f.Reports {
			for i := range r.Workers {
				r.Workers[i].Driver = &result.Driver{MeasuredMicroseconds: 1, AllowanceMilliCPU: 1000, LateMicroseconds: &result.Lateness{}}
				f.Clocks = append(f.Clocks, result.Clock{Region: r.Workers[i].Region})
			}
		}
	},
}

// TestEvidenceInAllPlaces checks that a run that lacks an item of evidence is Invalid in every environment. Items that
// hold by construction in an environment are not falsified there.
func TestEvidenceInAllPlaces(t *testing.T) {
	forgeries := map[string]struct {
		in    []string
		forge func(*Facts)
	}{
		"transactions": {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Reports[0].Windows[0].Due++ }},
		"windows":      {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Reports[1].Windows[0].MeasuredMicroseconds-- }},
		"load":         {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Reports[1].Workers[0].Clients-- }},
		"nodes":        {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Before = f.Before[1:] }},
		"network":      {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.RTTs = f.RTTs[1:2] }},
		"faults":       {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Plan.Run.Spec.Faults = make([]v1alpha1.Fault, 1) }},
		"rows":         {[]string{"simulation", "process", "cluster"}, func(f *Facts) { f.Audits = nil }},
		"cpu":          {[]string{"process", "cluster"}, func(f *Facts) { f.Driver, f.NodeFacts = &result.Driver{}, nil }},
		"clocks":       {[]string{"cluster"}, func(f *Facts) { f.Clocks = nil }},
		"execution":    {[]string{"process", "cluster"}, func(f *Facts) { f.Execution = nil }},
	}
	sound := measured(t) // simulated once; Document modifies only the order of the reports in its input
	for place, from := range places {
		build := func(forge func(*Facts)) *result.Document {
			f := *sound
			f.Plan = new(*sound.Plan)
			f.Plan.Run.Spec.Faults, f.Plan.Run.Spec.Verify = nil, []v1alpha1.Verification{v1alpha1.VerifyInvariants}
			f.Before, f.RTTs = slices.Clone(f.Before), slices.Clone(f.RTTs)
			f.Reports = nil
			for _, r := range sound.Reports {
				c := *r
				c.Windows, c.Workers = slices.Clone(r.Windows), slices.Clone(r.Workers)
				f.Reports = append(f.Reports, &c)
			}
			audits := *sound.Audits
			f.Audits = &audits
			from(&f)
			forge(&f)
			return document(t, &f)
		}
		if d := build(func(*Facts) {}); d.Verdict != v1alpha1.VerdictPassed {
			t.Errorf("%s: a sound run is %s: %+v", place, d.Verdict, d.Reasons)
		}
		for item, x := range forgeries {
			if !slices.Contains(x.in, place) {
				continue
			}
			d := build(x.forge)
			i := slices.IndexFunc(d.Evidence, func(e result.Evidence) bool { return e.Name == item })
			if d.Verdict != v1alpha1.VerdictInvalid || d.Evidence[i].State == result.EvidenceShown {
				t.Errorf("%s without %s: %s, %+v, %+v", place, item, d.Verdict, d.Evidence[i], d.Reasons)
			}
		}
	}
}

func TestOneJudge(t *testing.T) {
	for name, change := range map[string]func(*Facts){
		"a sound run":         func(f *Facts) { f.Plan.Run.Spec.Faults = nil },
		"faults and meddling": killed,
		"never quiet":         func(f *Facts) { f.Audits, f.Unfinished, f.Plan.Run.Spec.Faults = nil, 7, nil },
	} {
		t.Run(name, func(t *testing.T) {
			var want string
			for place, from := range places {
				f := measured(t)
				from(f)
				change(f)
				d := document(t, f)
				if d.Simulated != f.Simulated || d.Emulation != f.Emulation || (d.Machine == nil) != f.Simulated {
					t.Errorf("%s: simulated %v, emulation %s, machine %v", place, d.Simulated, d.Emulation, d.Machine)
				}
				// A simulator knows the counts of nodes that have stopped.
				if lost := f.Timeline != nil; (d.Uncounted != nil) != (lost && !f.Simulated) {
					t.Errorf("%s: uncounted are %v", place, d.Uncounted)
				}
				d.Simulated, d.Emulation, d.Machine, d.Process, d.Uncounted = false, "", nil, nil, nil
				d.Evidence, d.Execution, d.Pods, d.Workers = nil, nil, nil, nil // witnesses differ between environments
				for i := range d.Nodes {
					d.Nodes[i].LateMicroseconds, d.Nodes[i].CPUMilliseconds = nil, 0
				}
				text, err := json.MarshalIndent(d, "", " ")
				if err != nil {
					t.Fatal(err)
				}
				if want == "" {
					want = string(text)
				}
				if diff := cmp.Diff(want, string(text)); diff != "" {
					t.Errorf("%s: %s", place, diff)
				}
			}
		})
	}
}

func TestVerdicts(t *testing.T) {
	verify := func(v ...v1alpha1.Verification) func(*Facts) {
		return func(f *Facts) { f.Plan.Run.Spec.Verify = v }
	}
	const level, data = v1alpha1.VerifyStrictSerializable, "rmw-writes copies-agree convergence"
	for name, tc := range map[string]struct {
		change  func(*Facts)
		verdict v1alpha1.Verdict
		checks  string // their names
		says    string // the first reason, or the message of the last check if there is none
	}{
		"all is well":              {func(*Facts) {}, v1alpha1.VerdictPassed, data + " strict-serializable", ""},
		"nothing is asked for":     {verify(), v1alpha1.VerdictPassed, "", ""},
		"invariants are asked for": {verify(v1alpha1.VerifyInvariants), v1alpha1.VerdictPassed, data, ""},
		"copies alone":             {verify(v1alpha1.VerifyConvergence), v1alpha1.VerdictPassed, "convergence", ""},
		"a history alone":          {verify(level), v1alpha1.VerdictPassed, "strict-serializable", ""},
		"clocks that are apart": {func(f *Facts) { verify(level)(f); f.History.ClockError = 3 * time.Millisecond },
			v1alpha1.VerdictPassed, "strict-serializable", "(the clients' clocks are at most 3ms apart)"},
		"a copy that differs": {func(f *Facts) { f.Audits.Nodes[1][1].Digest++ }, v1alpha1.VerdictFailed, data + " strict-serializable", "convergence: "},
		"a node without its rows": {func(f *Facts) { f.Audits.Nodes[1] = nil }, v1alpha1.VerdictInvalid, "strict-serializable",
			"the audit tells nothing of shard 0 on node 1 of 2"},
		"a lost update": {func(f *Facts) { f.Audits.Nodes[0][1].Sums["writes"]--; f.Audits.Nodes[1][1].Sums["writes"]-- },
			v1alpha1.VerdictFailed, data + " strict-serializable", "rmw-writes: "},
		"never quiet": {func(f *Facts) { f.Audits, f.Unfinished = nil, 7 }, v1alpha1.VerdictInvalid, "strict-serializable",
			"the database was not quiet 2m0s after the last answer, with 7 unfinished transactions; its rows were not audited"},
		"meddling": {killed, v1alpha1.VerdictInvalid, data + " strict-serializable", "slow by 50%"},
	} {
		t.Run(name, func(t *testing.T) {
			f := measured(t)
			f.Simulated, f.Emulation = true, "Simulated"
			tc.change(f)
			if f.Timeline == nil {
				f.Plan.Run.Spec.Faults = nil
			}
			d := document(t, f)
			var names []string
			said := ""
			for _, c := range d.Checks {
				names, said = append(names, c.Name), c.Message
			}
			if len(d.Reasons) > 0 {
				said = d.Reasons[0].Message
			}
			if d.Verdict != tc.verdict || strings.Join(names, " ") != tc.checks || !strings.Contains(said, tc.says) {
				t.Errorf("%s (%s), checks %q\nwant %s (%s), checks %q", d.Verdict, said, names, tc.verdict, tc.says, tc.checks)
			}
		})
	}
}

// TestHistoryCheckedBefore checks that the document is the same if the history is checked and released before the
// reports are available.
func TestHistoryCheckedBefore(t *testing.T) {
	verify := []v1alpha1.Verification{v1alpha1.VerifyConvergence, v1alpha1.VerifyStrictSerializable}
	whole, before := measured(t), measured(t)
	whole.Plan.Run.Spec.Verify, before.Plan.Run.Spec.Verify = verify, verify
	reports := before.Reports
	before.Reports = nil
	before.CheckHistory()
	if before.History != nil {
		t.Error("a history that is checked still takes its memory")
	}
	before.Reports = reports
	if diff := cmp.Diff(document(t, whole).Checks, document(t, before).Checks); diff != "" {
		t.Error(diff)
	}
}

// TestFaultsOfADocument checks that the document lists, for a fault, the nodes that it permanently removed and the
// transactions that it left unfinished.
func TestFaultsOfADocument(t *testing.T) {
	f := measured(t)
	killed(f)
	d := document(t, f)
	got := d.Faults[0]
	if want := "what they held in memory is lost: they do not come back; 3 transactions were never finished"; got.Message != want || len(got.Lost) != 1 || got.Lost[0] != "b/0/0" {
		t.Errorf("%+v, want %q", got, want)
	}
	if len(d.Deviations) != 1 || d.Deviations[0].FromMicroseconds != 2e6 || len(d.FastLinks) != 1 || d.FastLinks[0].MedianMicroseconds != 1000 {
		t.Errorf("%+v, %+v", d.Deviations, d.FastLinks)
	}
}
