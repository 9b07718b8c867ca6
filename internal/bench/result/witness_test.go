package result

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/ops/admin"
)

// witnessed returns a document of two regions whose nodes sent 1 MB from a to b, 100 kB back, and 50 kB inside a.
func witnessed(t *testing.T, change func(*Inputs)) *Document {
	t.Helper()
	in := small()
	in.Topology.Partitions = 1
	status := func(id int, process string, to ...int64) admin.Status {
		s := admin.Status{Node: in.Topology.NodeName(geo.NodeID(id)), ID: id, Process: process}
		for i, n := range to {
			s.Links = append(s.Links, admin.LinkStatus{To: in.Topology.Regions[i], Traffic: geo.Traffic{Bytes: n}})
		}
		return s
	}
	in.Before = []admin.Status{status(0, "p", 10, 1000), status(1, "q", 500, 0)}
	in.After = []admin.Status{status(0, "p", 50_010, 1_001_000), status(1, "q", 100_500, 0)}
	change(&in)
	d, err := Build(evident(in))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWitnesses(t *testing.T) {
	meter := func(who string, links ...Traffic) Meter {
		return Meter{Who: who, Process: "1", Counters: "istio", Links: links}
	}
	anew := func(m Meter) Meter { m.Process = "2"; return m }
	problem := func(m Meter) Meter { m.Problem, m.Links = "connection refused", nil; return m }
	before := []Meter{meter("the proxy of a", Traffic{"a", "b", 500}, Traffic{"b", "a", 40}), meter("the proxy of b")}
	from := func(aa, ab, ba int64) []Meter {
		return []Meter{meter("the proxy of a", Traffic{"a", "a", aa}, Traffic{"a", "b", 500 + ab}, Traffic{"b", "a", 40 + ba}), meter("the proxy of b")}
	}
	mesh := func(before, after []Meter) Readings {
		return Readings{Witness: WitnessMesh, Counts: CountsPayload, Before: before, After: after}
	}
	besides := mesh(before, from(50_000, 1_000_000, 110_000))
	besides.Besides = []Traffic{{"a", "b", 1000}, {"b", "a", 10_000}}
	emulator := func(ab, ba int64) Readings {
		return Readings{Witness: WitnessEmulator, Counts: CountsPackets, Before: []Meter{{Who: "b"}}, After: []Meter{{Who: "b", Links: []Traffic{{"a", "b", ab}, {"b", "a", ba}}}}}
	}
	unread := Readings{Witness: WitnessMesh, Counts: CountsPayload, Unread: "the operator may not list the pods of istio-system"}
	for name, tc := range map[string]struct {
		readings Readings
		bytes    int64 // negative if not counted
		off      int64
		says     []string // text of the note, or of the reason why the bytes were not counted
	}{
		"the same":                   {readings: mesh(before, from(50_000, 1_000_000, 100_000)), bytes: 1_150_000},
		"within 2%":                  {readings: mesh(before, from(50_000, 1_019_000, 100_000)), bytes: 1_169_000, off: 16_522},
		"a port that is left out":    {readings: mesh(before, from(0, 900_000, 90_000)), bytes: 990_000, off: -139_130, says: []string{"the service mesh and the nodes disagree", "990.0 kB, they 1150.0 kB (-13.91%)", "from a to a: 0 B, they 50.0 kB (-100.00%)"}},
		"more than nodes have sent":  {readings: mesh(before, from(50_000, 1_100_000, 100_000)), bytes: 1_250_000, off: 86_957, says: []string{"(+8.70%)", "from a to b: 1100.0 kB, they 1000.0 kB (+10.00%)"}},
		"probes":                     {readings: besides, bytes: 1_160_000, off: 8696},
		"the wrong direction":        {readings: mesh(before, from(50_000, 100_000, 1_000_000)), bytes: 1_150_000, says: []string{"from b to a: 1000.0 kB, they 100.0 kB (+900.00%)", "from a to b: 100.0 kB, they 1000.0 kB (-90.00%)"}},
		"links are not told apart":   {readings: mesh([]Meter{meter("x", Traffic{"a", "", 5})}, []Meter{meter("x", Traffic{"a", "", 1_050_005}, Traffic{"", "a", 100_000})}), bytes: 1_150_000},
		"nobody answers":             {readings: mesh([]Meter{problem(before[0]), before[1]}, from(1, 1, 1)), bytes: -1, says: []string{"the proxy of a: connection refused"}},
		"nobody answers in the end":  {readings: mesh(before, []Meter{before[0], problem(before[1])}), bytes: -1, says: []string{"the proxy of b: connection refused"}},
		"both":                       {readings: mesh([]Meter{problem(before[0]), problem(before[1])}, from(1, 1, 1)), bytes: -1, says: []string{"the proxy of a: connection refused; and so on, of 2"}},
		"one is started again":       {readings: mesh(before, []Meter{anew(from(0, 5_000_000, 0)[0]), before[1]}), bytes: -1, says: []string{"the proxy of a: it was started again"}},
		"one counts anew":            {readings: mesh(before, []Meter{meter("the proxy of a", Traffic{"a", "b", 499}, Traffic{"b", "a", 1_000_000}), before[1]}), bytes: -1, says: []string{"the proxy of a: it shows less than before"}},
		"a counter is gone":          {readings: mesh(before, []Meter{meter("the proxy of a", Traffic{"a", "b", 1_000_000}), before[1]}), bytes: -1, says: []string{"the proxy of a: it shows less than before"}},
		"one is gone":                {readings: mesh(before, before[:1]), bytes: -1, says: []string{"the proxy of b: it was gone at the end"}},
		"one is new":                 {readings: mesh(before[:1], from(1, 1, 1)), bytes: -1, says: []string{"the proxy of b: it was not there when the run began"}},
		"other counters":             {readings: mesh(before, []Meter{{Who: "the proxy of a", Process: "1", Counters: "envoy"}, before[1]}), bytes: -1, says: []string{"it has counted by istio, and not all"}},
		"an operator of before":      {readings: mesh(nil, nil), bytes: -1, says: []string{"nobody was asked when the run began"}},
		"may not":                    {readings: unread, bytes: -1, says: []string{"may not list the pods"}},
		"packets of clients, too":    {readings: emulator(3_000_000, 300_000), bytes: 3_300_000},
		"fewer packets than content": {readings: emulator(3_000_000, 90_000), bytes: 3_090_000, says: []string{"the emulator of the network and the nodes disagree", "from b to a: 90.0 kB, they 100.0 kB (-10.00%)"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := witnessed(t, func(in *Inputs) { in.Readings = []Readings{tc.readings} })
			if len(d.Witnesses) != 2 || d.Witnesses[0].Name != WitnessNodes || *d.Witnesses[0].Bytes != 1_150_000 || d.Verdict != "Passed" {
				t.Fatalf("%s %v: %+v", d.Verdict, d.Reasons, d.Witnesses)
			}
			w, said := d.Witnesses[1], strings.Join(d.Notes, "\n")
			if tc.bytes < 0 {
				said = w.NotCounted
				if w.Bytes != nil || w.OffPPM != nil || len(d.Notes) > 0 || said == "" {
					t.Errorf("%+v, %q", w, d.Notes)
				}
			} else if w.Bytes == nil || *w.Bytes != tc.bytes || w.NotCounted != "" || (w.OffPPM == nil) != (w.Name == WitnessEmulator) || w.OffPPM != nil && *w.OffPPM != tc.off {
				t.Errorf("%s: %+v", w.Say(), w)
			}
			if (tc.says == nil) != (said == "") {
				t.Errorf("it says %q", said)
			}
			for _, part := range tc.says {
				if !strings.Contains(said, part) {
					t.Errorf("%q does not say %q", said, part)
				}
			}
			table := &strings.Builder{}
			if err := Table(table, d, false); err != nil || !strings.Contains(table.String(), "WITNESS") || strings.Contains(table.String(), "note:") != (len(d.Notes) > 0) ||
				strings.Contains(table.String(), "not counted: ") != (tc.bytes < 0) {
				t.Errorf("%v\n%s", err, table)
			}
			c := Compare([]*Document{d}, []*Document{d}, CompareOptions{})
			has := false
			for _, f := range c.Figures {
				has = has || f.Name == "bytes through the mesh"
			}
			if has != (tc.bytes >= 0 && w.Name == WitnessMesh) || strings.Contains(strings.Join(c.Warnings, "\n"), "disagree on bytes") != (len(d.Notes) > 0) {
				t.Errorf("compare has a figure: %t; it warns %q", has, c.Warnings)
			}
		})
	}
}

// TestWitnessesAlone checks two cases without a comparison: nodes stopped, so their counters show less than they sent,
// and programs whose counters are unknown.
func TestWitnessesAlone(t *testing.T) {
	readings := []Readings{{Witness: WitnessMesh, Counts: CountsPayload, Before: []Meter{{Who: "x"}}, After: []Meter{{Who: "x", Links: []Traffic{{"a", "b", 7}}}}}}
	ended := witnessed(t, func(in *Inputs) {
		in.Readings, in.After[0].Process, in.Simulated = readings, "r", false
		in.Faults = []Fault{{Name: "f", Replaced: []string{in.After[0].Node}, Restarted: []string{in.After[0].Node}}}
	})
	program := witnessed(t, func(in *Inputs) { in.Readings, in.Target = readings, &Target{} })
	for name, d := range map[string]*Document{"a node that ended": ended, "programs": program} {
		if len(d.Witnesses) != 2 || d.Witnesses[1].OffPPM != nil || *d.Witnesses[1].Bytes != 7 || len(d.Notes) > 0 {
			t.Errorf("%s: %+v, %q", name, d.Witnesses, d.Notes)
		}
	}
	if diff := cmp.Diff(Witness{Name: WitnessNodes, Counts: CountsFrames, NotCounted: "programs do not tell what they send each other"}, program.Witnesses[0]); diff != "" {
		t.Error(diff)
	}
	if d := witnessed(t, func(*Inputs) {}); d.Witnesses != nil {
		t.Errorf("without a mesh there is nobody to compare with: %+v", d.Witnesses)
	}
}
