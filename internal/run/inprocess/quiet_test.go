package inprocess

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/bench/judge"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
)

// stirring is a database with scripted activity. Once the script has ended, its last entry is repeated.
type stirring struct {
	target.Database
	script []target.Activity
	asked  int
	// audited is the number of activity readings before the audit. leftOut lists the nodes that the audit omitted.
	audited int
	leftOut []geo.NodeID
}

func (s *stirring) Activity(context.Context) (target.Activity, error) {
	a := s.script[min(s.asked, len(s.script)-1)]
	s.asked++
	return a, nil
}

func (s *stirring) Audit(_ context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	s.audited = s.asked
	for n := range geo.NodeID(3) {
		if leftOut(n) {
			s.leftOut = append(s.leftOut, n)
		}
	}
	return nil, nil
}

// Some activity, such as the replication of the last commits, continues although no transaction is pending. Only the
// number of operations reveals this activity. The audit waits for it, even if the round trips of the database are
// unknown.
func TestQuietAfterTheLastOperation(t *testing.T) {
	for name, rtt := range map[string]time.Duration{"a target": 0, "nodes far apart": 2 * poll} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := &stirring{script: []target.Activity{{Pending: 1, Operations: 10}, {Operations: 10}, {Operations: 20}, {Operations: 30}}}
			m := measurement{facts: judge.Facts{Plan: &plan.Plan{Topology: geo.Topology{Links: [][]geo.Link{{{Delay: rtt / 2}}}}}}, db: db, report: func(Progress) {}}
			if err := m.auditQuiet(t.Context()); err != nil {
				t.Fatal(err)
			}
			if least := len(db.script) + max(1, int(rtt/poll)); db.audited < least {
				t.Errorf("the rows are audited after %d readings, of which it takes %d to tell that nothing goes on", db.audited, least)
			}
		})
	}
}

// The audit omits nodes with transactions that a fault left unfinished. The reading that concludes the wait also
// determines these nodes.
func TestWhoWaitsForLostNodesIsLeftOut(t *testing.T) {
	topology := geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 1, Replicas: 1, Links: make([][]geo.Link, 3)}
	for r := range topology.Links {
		topology.Links[r] = make([]geo.Link, 3)
	}
	kill := v1alpha1.Fault{Name: "kill", PodKill: &v1alpha1.PodKillFault{Target: v1alpha1.NodeTarget{Regions: []string{"a"}}}}
	timeline := fault.NewTimeline(fault.NewPlan([]v1alpha1.Fault{kill}, &topology, 1), poll, time.Second)
	life, injected := timeline.Lives[0], time.Duration(0)
	life.Targets.From, life.Lasting, life.Injecting = []geo.NodeID{0}, true, &injected
	synctest.Test(t, func(t *testing.T) {
		db := &stirring{script: []target.Activity{{Pending: 7, PendingByNode: []int{0, 7, 0}}}}
		m := measurement{facts: judge.Facts{Plan: &plan.Plan{Topology: topology}}, db: db, report: func(Progress) {}}
		m.facts.Timeline = timeline
		if err := m.auditQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []geo.NodeID{0, 1}; !slices.Equal(db.leftOut, want) || m.facts.Audits.Out[1] != "waits with 7 transactions for nodes that were lost" {
			t.Errorf("nodes %v are left out (%q), want %v", db.leftOut, m.facts.Audits.Out, want)
		}
		if got := m.facts.Unfinished; got != 7 {
			t.Errorf("%d transactions are unfinished, want 7", got)
		}
	})
}

// A database that never becomes quiescent is not audited. The measurement reports this as a fact and does not return an
// error.
func TestNeverQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &stirring{script: []target.Activity{{Pending: 3}}}
		m := measurement{facts: judge.Facts{Plan: &plan.Plan{Topology: geo.Topology{Links: [][]geo.Link{{{}}}}}}, db: db, report: func(Progress) {}}
		begin := time.Now()
		if err := m.auditQuiet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m.facts.Audits != nil || m.facts.Unfinished != 3 || time.Since(begin) < judge.QuietWithin {
			t.Errorf("audits %v, %d unfinished after %v", m.facts.Audits, m.facts.Unfinished, time.Since(begin))
		}
	})
}
