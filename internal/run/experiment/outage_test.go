package experiment_test

import (
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
)

// During the first fault, which lasts a tenth of a second, the throughput of region b stays within random variation.
// The second fault takes b out of service for 50 s, so it is the worst fault of the run.
func TestClaimsOfOutagesAfterShortFaults(t *testing.T) {
	for expression, want := range map[string]string{"outageSeconds('near', 2) < 0.1": "differs", "recovery('near', 2) > 0.99": "differs", "outageSeconds('near', 2) == 49.9": "holds"} {
		e := mustRead(t, withFault(t, claimed(t, expression)))
		full := invented(e, 1000)
		each(t, e, full, func(d *result.Document) {
			fine := &result.Availability{NormalPerSecond: 3968, RPPM: 933_000, TPPM: new(int64(1_000_000)), RecoverMicroseconds: new(int64(0)), WithinChance: true}
			out := &result.Availability{NormalPerSecond: 189, RPPM: 423_000, TPPM: new(int64(0)), OutageMicroseconds: 49_900_000, WithinChance: true}
			d.Faults = []result.Fault{{Name: "cut", Availability: fine}}
			d.Regions[0].Faults, d.Regions[1].Faults = []result.FaultEffect{{Name: "cut", Availability: fine}}, []result.FaultEffect{{Name: "cut", Availability: out}}
		})
		if f := judge(t, e, full); f.Answer() != want {
			t.Errorf("%s: %s (%s, measured %q), want %s", expression, f.Answer(), f.Error, f.Measured, want)
		}
	}
}
