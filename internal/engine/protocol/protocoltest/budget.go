package protocoltest

import "os"

// thorough is set if suites run all seeds that a test asks for: make soak-suites. The explorer runs thousands of
// scenarios of each engine, so a suite needs only one scenario of each kind by default.
var thorough = os.Getenv("GEOBENCH_SUITES") == "thorough"

// usualCuts is the maximum number of seeds of Cuts, unless suites are thorough.
const usualCuts = 6

// seedsOf returns the seeds to run in the n-th topology of a suite. Thorough suites run all seeds from 0 to seeds-1.
// Other suites run one of them in each topology, in rotation, so that the jitter, loss and clocks of each seed occur in
// some topology.
func seedsOf(n int, seeds uint64) (all []uint64) {
	if !thorough {
		return []uint64{uint64(n) % seeds}
	}
	for seed := range seeds {
		all = append(all, seed)
	}
	return all
}
