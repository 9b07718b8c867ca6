package result

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/admin"
)

// evident adds the evidence of a valid run to in, for tests that do not examine evidence.
func evident(in Inputs) Inputs {
	if in.Execution == nil {
		in.Execution = &Execution{ID: "x"}
		for n := range in.Reports[0].Repetitions {
			in.Execution.Windows = append(in.Execution.Windows, OpenWindow{Repetition: n + 1})
		}
	}
	for _, r := range in.Reports {
		for i := range r.Windows {
			w := &r.Windows[i]
			if w.MeasuredMicroseconds == 0 {
				w.MeasuredMicroseconds = r.DurationMicroseconds
			}
			if w.Due == 0 {
				w.Due = w.Unfinished + w.Dropped + w.Backlog
				for _, s := range r.Series {
					if s.Region == w.Region && s.Repetition == w.Repetition && s.Outcome != Unfinished {
						w.Due += s.Latency.Count
					}
				}
			}
		}
		for i := range r.Workers {
			w := &r.Workers[i]
			if w.Driver == nil && in.Driver == nil {
				w.Driver = &Driver{MeasuredMicroseconds: 1, AllowanceMilliCPU: 1000}
			}
			if w.Driver != nil && w.Driver.LateMicroseconds == nil {
				w.Driver.LateMicroseconds = &Lateness{}
			}
			if clockOf(in.Clocks, w.Region, w.Index) == nil {
				in.Clocks = append(in.Clocks, Clock{Region: w.Region, Index: w.Index})
			}
		}
	}
	if in.Driver != nil && in.Driver.LateMicroseconds == nil {
		in.Driver.LateMicroseconds = &Lateness{}
	}
	for _, b := range in.Before {
		if !slices.ContainsFunc(in.NodeFacts, func(f NodeFacts) bool { return f.Node == b.Node }) {
			in.NodeFacts = append(in.NodeFacts, NodeFacts{Node: b.Node, Late: &Lateness{}})
		}
	}
	if in.Manifests == nil {
		in.Manifests = &Manifests{Run: &v1alpha1.BenchmarkRunSpec{Faults: make([]v1alpha1.Fault, len(in.Faults)), Verify: []v1alpha1.Verification{v1alpha1.VerifyInvariants}}}
	}
	if len(in.Pods) == 0 {
		in.Pods = []Pods{{Role: "node"}, {Role: "worker"}}
	}
	return in
}

// TestEvidence falsifies the evidence of each item of the table. A run that cannot show an item must be Invalid, and
// its reasons must name the item.
func TestEvidence(t *testing.T) {
	forged := map[string][]func(in *Inputs){
		"transactions": {
			func(in *Inputs) { in.Reports[0].Windows[0].Due++ },
			func(in *Inputs) { in.Reports[1].Windows[0].Unfinished++ },
			func(in *Inputs) { in.Reports[0].Series = in.Reports[0].Series[1:] },
		},
		"windows": {
			func(in *Inputs) { in.Reports[0].Windows[0].MeasuredMicroseconds-- },
			func(in *Inputs) { in.Reports[0].Windows = nil },
		},
		"load":   {func(in *Inputs) { in.Load.ClientsPerRegion = 11 }, func(in *Inputs) { in.Reports[0].Workers = nil }},
		"nodes":  {func(in *Inputs) { in.Before = in.Before[1:] }, func(in *Inputs) { in.Pods = in.Pods[1:] }},
		"cpu":    {func(in *Inputs) { in.Reports[0].Workers[0].Driver.LateMicroseconds = nil }, func(in *Inputs) { in.NodeFacts = in.NodeFacts[1:] }},
		"clocks": {func(in *Inputs) { in.Clocks = in.Clocks[1:] }},
		"network": {func(in *Inputs) { in.RTTs = in.RTTs[1:] },
			func(in *Inputs) { in.RTTs = in.RTTs[:len(in.RTTs)-1] }},
		"faults":    {func(in *Inputs) { in.Manifests.Run.Faults = make([]v1alpha1.Fault, 1) }},
		"rows":      {func(in *Inputs) { in.Checks = nil }},
		"execution": {func(in *Inputs) { in.Execution = nil }, func(in *Inputs) { in.Execution.ID = "" }, func(in *Inputs) { in.Execution.Windows = nil }},
	}
	honest := func() Inputs {
		in := small()
		in.Simulated, in.Load.ClientsPerRegion = false, 10
		in.Manifests = &Manifests{Run: &v1alpha1.BenchmarkRunSpec{Verify: []v1alpha1.Verification{v1alpha1.VerifyInvariants}}}
		return evident(in)
	}
	d, err := Build(honest())
	if err != nil || d.Verdict != v1alpha1.VerdictPassed || len(d.Evidence) != len(EvidenceItems) {
		t.Fatalf("an honest run: %v, %+v", err, d)
	}
	for _, item := range EvidenceItems {
		if len(forged[item.Name]) == 0 {
			t.Errorf("no test forges %s", item.Name)
		}
		for n, forge := range forged[item.Name] {
			in := honest()
			forge(&in)
			d, err := Build(in)
			if err != nil {
				t.Errorf("%s, %d: %v", item.Name, n, err)
				continue
			}
			i := slices.IndexFunc(d.Evidence, func(e Evidence) bool { return e.Name == item.Name })
			named := slices.ContainsFunc(d.Reasons, func(r Reason) bool {
				return r.Reason == ReasonEvidenceMissing && strings.HasPrefix(r.Message, item.Name+": ") || slices.Contains(item.Reasons, r.Reason)
			})
			if d.Verdict != v1alpha1.VerdictInvalid || d.Evidence[i].State == EvidenceShown || !named {
				t.Errorf("%s, %d: %s, %+v, %+v", item.Name, n, d.Verdict, d.Evidence[i], d.Reasons)
			}
		}
	}
}

// TestEvidenceOfOneRegion checks a database in a single region. Such a database has links between its nodes, or no
// links at all. Missing links between regions are neither evidence nor a contradiction.
func TestEvidenceOfOneRegion(t *testing.T) {
	inside := []MeasuredRTT{{From: "a", To: "a", RTT: RTT{400, 500}, Samples: 50}}
	for name, tc := range map[string]struct {
		nodes  int
		rtts   []MeasuredRTT
		state  EvidenceState
		figure string
	}{
		"several nodes": {2, inside, EvidenceShown, "between its nodes"},
		"several nodes, not measured": {2, nil, EvidenceMissing,
			"the links between the 2 nodes in a were not measured"},
		"one node":                     {1, nil, EvidenceShown, "no link to measure"},
		"several nodes, of one region": {2, []MeasuredRTT{{From: "a", To: "a"}}, EvidenceMissing, "were not measured"},
	} {
		d := &Document{Links: []Link{{From: "a", To: "a"}}}
		in := inputs(nil, []string{"a"})
		in.Before = []admin.Status{{ID: 0}, {ID: 1}}[:tc.nodes]
		for _, m := range tc.rtts {
			d.Links[0].Samples = m.Samples
		}
		if e := linksMeasured(d, &in, nil); e.State != tc.state || !strings.Contains(e.Figure, tc.figure) {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestEvidenceOfOtherDatabases checks that items that no witness can observe are marked. Such items are allowed only
// for a database other than Geobench's own.
func TestEvidenceOfOtherDatabases(t *testing.T) {
	in := small()
	in.Simulated, in.Target, in.Before, in.After, in.RTTs = false, &Target{}, nil, nil, nil
	in.Load.ClientsPerRegion = 10
	in = evident(in)
	in.Execution.Windows[0].Opened = time.Unix(0, 0)
	d, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Evidence {
		want := EvidenceShown
		if e.Name == "nodes" || e.Name == "network" {
			want = EvidenceNotWitnessed
		}
		if e.State != want {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	if d.Verdict != v1alpha1.VerdictPassed {
		t.Errorf("%s: %+v", d.Verdict, d.Reasons)
	}
}

// TestEvidenceIsDocumented checks that docs/security.md has the same table as the code, row by row.
func TestEvidenceIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range EvidenceItems {
		reasons := "`" + strings.Join(item.Reasons, "`, `") + "`"
		if len(item.Reasons) == 0 {
			reasons = ""
		}
		if row := "| `" + item.Name + "` | " + item.Rule + " | " + reasons + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/security.md lacks this row:\n%s", row)
		}
	}
}
