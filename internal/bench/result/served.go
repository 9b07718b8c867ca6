package result

import (
	"fmt"
	"math"

	"github.com/geobench/geobench/api/v1alpha1"
)

// servedSigmas is the number of standard deviations in ServedRegion.ChancePPM.
const servedSigmas = 3

// served returns the share of the region's due transactions that committed; nil if none was due. Commits include
// transactions that were in flight when the windows opened, but not transactions that were in flight when they closed.
// Both numbers in flight are random.
func (x *Region) served() *v1alpha1.ServedRegion {
	due := x.Ended() + x.Unfinished + x.Unsent()
	if due == 0 {
		return nil
	}
	// The numbers in flight at both ends of the windows are independent, so their variances add up.
	chance := servedSigmas * math.Sqrt(float64(x.CarriedIn+x.Unfinished)) / float64(due)
	return &v1alpha1.ServedRegion{Name: x.Name, CommittedPPM: ratio(due, 1, x.Committed+x.CarriedIn, 1e6),
		ChancePPM: int64(math.Ceil(chance * 1e6))}
}

// LeastServed returns the region with the smallest ServedRegion.MostPPM; nil for a closed loop, and for a result
// without transactions.
func (d *Document) LeastServed() (least *v1alpha1.ServedRegion) {
	if d.Summary.OfferedPerSecond == 0 {
		return nil
	}
	for i := range d.Regions {
		if s := d.Regions[i].served(); s != nil && (least == nil || s.MostPPM() < least.MostPPM()) {
			least = s
		}
	}
	return least
}

// ServedText describes the share of transactions that committed, for all regions together and for LeastServed. It is
// empty for a closed loop.
func (d *Document) ServedText() string {
	least := d.LeastServed()
	if least == nil {
		return ""
	}
	s := &d.Summary
	return fmt.Sprintf("Of %d/s that were offered %d/s committed. The region that was served least is %s: %s of "+
		"what was due committed.", s.OfferedPerSecond, s.ThroughputPerSecond, least.Name, formatPPM(least.CommittedPPM))
}
