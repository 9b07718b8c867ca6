package fault

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/ops/admin"
)

// TestFastLinks checks that FastLinks reports links that are too fast, except while a fault changes them. The start and
// end of a fault have a timing tolerance.
func TestFastLinks(t *testing.T) {
	const (
		slowLink  = "{name: slow, at: 10s, duration: 5s, networkDelay: {between: {from: [us], to: [eu]}, delay: 10ms, jitter: 20ms}}"
		elsewhere = "{name: far, at: 10s, duration: 5s, networkDelay: {between: {from: [eu], to: [eu]}, delay: 10ms}}"
	)
	for name, tc := range map[string]struct {
		faults   string
		from, to time.Duration
		change   func(*Life)
		want     string
	}{
		"no faults":                    {"[]", second, 3 * second, nil, "1s-3s"},
		"before the window":            {"[]", -3 * second, -second, nil, ""},
		"into the window":              {"[]", -3 * second, second, nil, "0s-1s"},
		"after the window":             {"[]", 60 * second, 70 * second, nil, ""},
		"within the fault":             {"[" + slowLink + "]", 10 * second, 15 * second, nil, ""},
		"within its tolerance":         {"[" + slowLink + "]", 9800 * millisecond, 15200 * millisecond, nil, ""},
		"before and after it":          {"[" + slowLink + "]", 9 * second, 16 * second, nil, "9s-9.745s, 15.255s-16s"},
		"it is late":                   {"[" + slowLink + "]", 9 * second, 16 * second, func(l *Life) { at := 15900 * millisecond; l.Recovered = &at }, "9s-9.745s"},
		"it has not ended":             {"[" + slowLink + "]", 9 * second, 16 * second, func(l *Life) { l.Recovered = nil }, "9s-9.745s"},
		"a fault of other links":       {"[" + elsewhere + "]", 11 * second, 12 * second, nil, "11s-12s"},
		"by Chaos Mesh":                {"[" + elsewhere + "]", 11 * second, 12 * second, func(l *Life) { l.Injector = "ChaosMesh" }, ""},
		"a fault that is no network's": {"[" + slowFault + "]", 11 * second, 12 * second, nil, "11s-12s"},
	} {
		tl, _ := track(t, tc.faults)
		for _, l := range tl.Lives {
			from, to := l.Fault.At, l.Fault.End()
			l.Injecting, l.Injected, l.Recovering, l.Recovered = &from, &from, &to, &to
			if tc.change != nil {
				tc.change(l)
			}
		}
		const zero = -100 * second
		log := &admin.Log{Fast: []admin.FastLink{{To: "us", From: tc.from - zero, Until: tc.to - zero, Median: 20 * millisecond}, {To: "mars", Until: 1 << 60}}}
		var got []string
		for _, f := range tl.FastLinks(0, log, zero, 5*millisecond, []Interval{{0, 60 * second}}) {
			got = append(got, fmt.Sprintf("%v-%v", f.From, f.To))
			if f.Node != "eu/0/0" || f.Far != "us" || f.Median != 20*millisecond || f.Declared != tl.Plan.Topology.RTT(0, 1) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if strings.Join(got, ", ") != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
