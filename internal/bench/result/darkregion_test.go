package result

import (
	"testing"
)

// TestSlowRegionIsDark checks regions with two to nine transactions per second. A single second without any transaction
// may be a coincidence, but tens of such seconds are significant.
func TestSlowRegionIsDark(t *testing.T) {
	for _, perSecondNormal := range []int64{2, 4, 9} {
		region := &tenths{counts: make([]counted, 600), sigmas: chanceSigmas}
		for i := range 200 { // 20 s of normal operation, then no commits
			if int64(i%perSecond) < perSecondNormal {
				region.counts[i].committed = 1
			}
		}
		lasting := between("kill", 20e6, 0)
		if a := region.effects([]Fault{lasting})[0]; a == nil || a.TPPM == nil || *a.TPPM != 0 || a.RecoverMicroseconds != nil || a.DetectMicroseconds == nil {
			t.Errorf("%d/s until a node is gone for good: %s, want T 0, detected", perSecondNormal, a.text())
		}
		cut := between("cut", 20e6, 30e6)
		if a := region.effects([]Fault{cut})[0]; a == nil || a.TPPM == nil || *a.TPPM != 0 || a.RecoverMicroseconds != nil {
			t.Errorf("%d/s until a cut of 10 s, and none in the 30 s after it: %s, want T 0", perSecondNormal, a.text())
		}
	}
}
