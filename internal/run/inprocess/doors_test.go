package inprocess

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// farRegions returns a run on two regions that are 100 ms apart.
func farRegions(engine, workload, load, faults, objectives string) string {
	text := manifestOf("smallbank-two-regions", twoRegions, engine, load, 1)
	text = strings.Replace(text, "profileRef: {name: smallbank-two-regions}", "profile: {links: [{from: us-west-2, to: ap-northeast-1, rtt: 100ms}]}", 1)
	text = strings.Replace(text, "smallbank: {customers: 10000, multiHomePercent: 25}", workload, 1)
	text = strings.Replace(text, "objectives: [{metric: abortPPM, max: 0}]", "objectives: ["+objectives+"]", 1)
	if faults != "" {
		text += "  faults: [" + faults + "]\n"
	}
	return text
}

const (
	leader      = "{name: calvin, parameters: {ordering: leader, batch: 5ms}}"
	bank        = "smallbank: {customers: 10000, multiHomePercent: 25}"
	cutAtTheEnd = "{name: cut, at: 20s, duration: 10s, networkPartition: {from: {regions: [us-west-2]}, to: {regions: [ap-northeast-1]}}}"
)

// notPassed fails the test if the document is Passed.
func notPassed(t *testing.T, d *result.Document, why string) {
	t.Helper()
	if d.Verdict == v1alpha1.VerdictPassed {
		t.Errorf("Passed, although %s: %+v", why, d.Regions[1].Counts)
	}
}

// A run fails if a region has no commits, even if the objectives over all regions are met.
func TestTightObjectiveDoesNotAllowADarkRegion(t *testing.T) {
	t.Parallel()
	notPassed(t, simulate(t, farRegions(leader, bank, "{clientsPerRegion: 10, warmup: 2s, duration: 30s}", cutAtTheEnd,
		"{metric: unknownPPM, max: 1000}, {metric: latencyP99, region: ap-northeast-1, max: 250ms}")), "a region is dark for the last 10 s of 30")
}

// At the end of a Gaussian curve, no clients are active. Clients that are still waiting for an answer nevertheless
// count as hung.
func TestStallAtTheEndOfACurve(t *testing.T) {
	t.Parallel()
	notPassed(t, simulate(t, farRegions(leader, bank, "{clientsPerRegion: 10, warmup: 2s, duration: 30s, curve: {shape: Gaussian}}", cutAtTheEnd,
		"{metric: latencyP99, region: ap-northeast-1, max: 250ms}")), "a region is dark for the last 10 s of 30")
}

// A timeout does not count as an answer. So if a region does not answer for the last 10 of 30 s, this is detected even
// if requestTimeout is shorter.
func TestShorterTimeoutIsNoAnswer(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"30s", "9500ms", "8s"} {
		notPassed(t, simulate(t, farRegions(leader, bank, "{clientsPerRegion: 10, warmup: 2s, duration: 30s, requestTimeout: "+timeout+"}", cutAtTheEnd,
			"{metric: latencyP99, max: 250ms}")), "a region is dark for the last 10 s of 30, requestTimeout "+timeout)
	}
}

// A region that has lost its only node refuses transactions immediately. A run in which two thirds of a region's
// transactions are refused does not pass.
func TestRefusingRegionDoesNotPass(t *testing.T) {
	t.Parallel()
	notPassed(t, simulate(t, farRegions(leader, bank, "{arrival: Poisson, ratePerSecond: 20, clientsPerRegion: 500, warmup: 2s, duration: 30s}",
		"{name: kill, at: 10s, podKill: {target: {regions: [ap-northeast-1]}, lasting: true}}", "")), "a region refuses for the last 20 s of 30")
}

// Clients that have been retrying a transaction since the warm-up count as unanswered, although their transactions were
// due before the window opened. By Little's law, 200 clients that share 10 commits per second wait 20 s on average.
func TestTransactionsOfTheWarmupThatNeverEndCount(t *testing.T) {
	t.Parallel()
	d := simulate(t, farRegions("{name: sdur}",
		"rmw: {records: 1000, recordsPerTransaction: 2, writesPerTransaction: 2, hotRecords: 1, hotRecordsPerTransaction: 1, multiHomePercent: 100}",
		"{clientsPerRegion: 100, warmup: 1s, duration: 10s, requestTimeout: 1h, retry: {attempts: 100, backoff: 1s, maxBackoff: 1h}}", "",
		"{metric: latencyP99, max: 1s}"))
	notPassed(t, d, "about 190 of the 200 clients had no answer in the whole window")
	if p50, ok := d.Summary.LatencyMicroseconds.P50.Value(); ok && p50 < 1_000_000 {
		t.Errorf("p50 is %d us, although 200 clients share %d commits a second", p50, d.Summary.ThroughputPerSecond)
	}
}
