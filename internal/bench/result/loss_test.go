package result

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/admin"
)

// onProbes returns a probe's report of its link to region b, with the numbers of sent and lost packets.
func onProbes(sent, lost int64) []admin.LinkStatus {
	return []admin.LinkStatus{{To: "b", Probes: sent, Answered: sent - lost}}
}

func TestLossDiffers(t *testing.T) {
	faults := func(f v1alpha1.Fault) []v1alpha1.Fault {
		f.Name, f.Duration = "x", &v1alpha1.Duration{Duration: time.Second}
		return []v1alpha1.Fault{f}
	}
	for name, tt := range map[string]struct {
		declared     int64 // of each direction, in parts per million
		probes, lost int64
		before       int64 // lost before the run
		faults       []v1alpha1.Fault
		another      bool // whether the process changed
		says         string
	}{
		"nothing probes":                 {},
		"nothing is lost":                {probes: 3000},
		"some are under way":             {probes: 3000, lost: 4},
		"before the run":                 {probes: 3000, lost: 400, before: 400},
		"a queue drops":                  {probes: 3000, lost: 60, says: "a to b and back: 60 of 3000 packets"},
		"as declared":                    {declared: 10_000, probes: 3000, lost: 66},
		"more than declared":             {declared: 10_000, probes: 3000, lost: 160, says: "drops packets"},
		"less than declared":             {declared: 50_000, probes: 3000, lost: 20, says: "does not lose what it was told to"},
		"while a fault changes the link": {probes: 3000, lost: 600, faults: faults(v1alpha1.Fault{NetworkLoss: &v1alpha1.NetworkLossFault{}})},
		"while a fault changes another link": {probes: 3000, lost: 600, says: "600 of 3000",
			faults: faults(v1alpha1.Fault{NetworkDelay: &v1alpha1.NetworkDelayFault{Between: v1alpha1.RegionPair{From: []string{"a"}, To: []string{"a"}}}})},
		"while a fault takes CPU": {probes: 3000, lost: 600, says: "600 of 3000", faults: faults(v1alpha1.Fault{CPUStress: &v1alpha1.CPUStressFault{}})},
		"of another process":      {probes: 3000, lost: 600, another: true},
	} {
		in := onCluster()
		in.Manifests = &Manifests{Run: &v1alpha1.BenchmarkRunSpec{Faults: tt.faults}}
		in.Topology.Links[0][1].LossPPM, in.Topology.Links[1][0].LossPPM = tt.declared, tt.declared
		in.Before[0].Links, in.After[0].Links = onProbes(1000, tt.before), onProbes(1000+tt.probes, tt.lost)
		if tt.probes == 0 {
			in.Before[0].Links, in.After[0].Links = nil, nil
		}
		if tt.another {
			in.After[0].Process = "q"
		}
		d, err := Build(evident(in))
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, r := range d.Reasons {
			if r.Reason == ReasonLossDiffers {
				said += r.Message
			}
		}
		if tt.says == "" && said != "" || !strings.Contains(said, tt.says) {
			t.Errorf("%s: %q, want %q", name, said, tt.says)
		}
	}
}
