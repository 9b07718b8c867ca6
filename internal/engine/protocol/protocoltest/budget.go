package protocoltest

import "os"

// thorough says that suites play all seeds that a test asks for: make soak-suites. The explorer plays thousands of worlds of each engine, so
// that a suite which always runs needs no more than one of each kind.
var thorough = os.Getenv("GEOBENCH_SUITES") == "thorough"

// usualCuts is how many seeds of Cuts there are at most unless suites are thorough.
const usualCuts = 6

// seedsOf returns the seeds, of 0 to seeds-1, that are played in the n-th topology of a suite: all of them if suites are thorough, and otherwise
// one, in turn, so that jitter, loss and clocks of each seed are met in some topology.
func seedsOf(n int, seeds uint64) (all []uint64) {
	if !thorough {
		return []uint64{uint64(n) % seeds}
	}
	for seed := range seeds {
		all = append(all, seed)
	}
	return all
}
