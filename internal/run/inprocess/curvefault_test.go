package inprocess

import "testing"

// The load curve has a step at the start of a fault that has no effect. The change in throughput must not count as an
// effect of the fault.
func TestFaultsAreNotHeldAgainstTheCurve(t *testing.T) {
	t.Parallel()
	for _, steps := range []string{"[100, 25, 25, 100]", "[25, 100, 100, 25]"} {
		d := simulate(t, farRegions(leader, bank, "{arrival: Poisson, ratePerSecond: 100, clientsPerRegion: 500, warmup: 1s, duration: 20s, curve: {shape: Steps, stepsPercent: "+steps+"}}",
			"{name: nothing, at: 5s, duration: 5s, clockSkew: {target: {regions: [ap-northeast-1]}, offset: 1ms}}", ""))
		if a := d.Faults[0].Availability; a != nil && (a.RPPM < 900_000 || a.RPPM > 1_000_000 || a.DetectMicroseconds != nil) {
			t.Errorf("steps %s: a fault without effect: %s", steps, a)
		}
	}
}
