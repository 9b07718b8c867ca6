package inprocess

import (
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
)

// A load that uses all of the declared bandwidth delays the probes of the network. The network must still count as
// matching its declaration.
func TestFullLinkIsTheDeclaredOne(t *testing.T) {
	t.Parallel()
	text := farRegions(leader, "smallbank: {customers: 1000, multiHomePercent: 30, paddingBytes: 10000}", "{arrival: Poisson, ratePerSecond: 100, clientsPerRegion: 10000, warmup: 1s, duration: 10s}", "", "")
	d := simulate(t, strings.Replace(text, "rtt: 100ms", "rtt: 100ms, bandwidthMbps: 10", 1))
	for _, r := range d.Reasons {
		if r.Reason == result.ReasonNetworkNotVerified {
			t.Errorf("%s: %s", r.Reason, r.Message)
		}
	}
}
