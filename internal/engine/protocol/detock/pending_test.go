package detock

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
)

// A node whose resolver ticks rarely is not quiescent before the copy's graph knows all transactions that have ended.
// Once nodes are quiescent, the ids of these transactions may be reused.
func TestQuietOnceAllIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		s    resolver
		busy bool
	}{
		"idle":                   {resolver{interval: time.Second}, false},
		"a tick is to come":      {resolver{interval: time.Second, ticking: true}, true},
		"graphs are gathered":    {resolver{interval: time.Second, gathering: true}, true},
		"a core searches":        {resolver{interval: time.Second, searching: true}, true},
		"a graph is not added":   {resolver{interval: time.Second, told: make([]Graph, 1)}, true},
		"ticks come soon enough": {resolver{interval: 40 * time.Millisecond, ticking: true, told: []Graph{{Over: []deterministic.Place{{}}}}}, false},
	} {
		if got := tc.s.busy(); got != tc.busy {
			t.Errorf("%s: busy %v", name, got)
		}
	}
}
