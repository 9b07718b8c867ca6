package local

import (
	"context"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/target"
)

// stirring is a database whose activity is a script, the last of which goes on.
type stirring struct {
	target.Database
	script []target.Activity
	asked  int
	// audited counts the readings before the audit.
	audited int
}

func (s *stirring) Activity(context.Context) (target.Activity, error) {
	a := s.script[min(s.asked, len(s.script)-1)]
	s.asked++
	return a, nil
}

func (s *stirring) Audit(context.Context, func(geo.NodeID) bool) ([][]audit.Shard, error) {
	s.audited = s.asked
	return nil, nil
}

// What goes on where nothing is pending, as the last of what a commit does elsewhere, shows in the operations alone. It is waited for
// on a database whose round trips nobody knows, too.
func TestQuietAfterTheLastOperation(t *testing.T) {
	for name, rtt := range map[string]time.Duration{"a target": 0, "nodes far apart": 2 * poll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &stirring{script: []target.Activity{{Pending: 1, Operations: 10}, {Operations: 10}, {Operations: 20}, {Operations: 30}}}
			m := measurement{p: &plan.Plan{Topology: geo.Topology{Links: [][]geo.Link{{{Delay: rtt / 2}}}}}, db: db}
			if _, err := m.auditQuiet(t.Context()); err != nil {
				t.Fatal(err)
			}
			if least := len(db.script) + max(1, int(rtt/poll)); db.audited < least {
				t.Errorf("the rows are audited after %d readings, of which it takes %d to tell that nothing goes on", db.audited, least)
			}
		})
	}
}
