package local

import "testing"

// Packets that are lost in a tenth of a second are sent again after it, when the link loses none: the region is back after a
// retransmission timeout or two, not after minutes.
func TestLossEndsWithItsFault(t *testing.T) {
	t.Parallel()
	for seed := range 4 {
		text := manifestOf("smallbank-two-regions", twoRegions, leader, "{clientsPerRegion: 5, warmup: 1s, duration: 30s}", seed+1)
		d := simulate(t, text+"  faults: [{name: loss, at: 10s, duration: 100ms, networkLoss: {between: {from: [us-west-2], to: [ap-northeast-1]}, lossPPM: 900000}}]\n")
		for _, r := range d.Regions {
			if a := r.Faults[0].Availability; a == nil || a.OutageMicroseconds > 2_000_000 {
				t.Errorf("seed %d: a loss of 0.1 s in %s: %s", seed+1, r.Name, a)
			}
		}
	}
}
