package protocoltest

import "os"

// thorough is set if suites run all seeds that a test asks for: make soak-suites. The explorer runs thousands of
// scenarios of each engine, so by default a suite needs only one scenario of each kind.
var thorough = os.Getenv("GEOBENCH_SUITES") == "thorough"

// usualCuts is the maximum number of seeds of Cuts, unless suites are thorough.
const usualCuts = 6

// seedsOf returns the seeds, from 0 to seeds-1, to run in the n-th topology of a suite: all of them if suites are
// thorough, otherwise one, in rotation. The jitter, loss and clocks of each seed thus occur in some topology.
func seedsOf(n int, seeds uint64) (all []uint64) {
	if !thorough {
		return []uint64{uint64(n) % seeds}
	}
	for seed := range seeds {
		all = append(all, seed)
	}
	return all
}
