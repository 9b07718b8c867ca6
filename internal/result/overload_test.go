package result

import "testing"

// Arrivals at twice the rate that is served: the later one is due, the longer it takes and the earlier its window closes.
// Half of them are under way at the end, so that nothing is known of the 99th percentile but a bound.
func TestGrowingQueueHasNoObservedTail(t *testing.T) {
	var served, waiting []int64
	for i := range int64(100) {
		served = append(served, (i+1)*100_000)          // due in the first half, each waits for those before it
		waiting = append(waiting, (i+1)*100_000-50_000) // due in the second half, under way since then
	}
	of := tallied(served, waiting, nil)
	if l := of.latency(); !l.P99.IsBound() {
		t.Errorf("p99 is %s, observed, though half of the transactions have waited for as long and have not ended", FormatQuantile(l.P99))
	}
}
