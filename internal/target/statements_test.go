package target_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/admin"
	"github.com/geobench/geobench/internal/audit"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
	"github.com/geobench/geobench/internal/workload"
	"github.com/geobench/geobench/internal/workload/catalog"
)

// optimistic is a database of one copy with interactive transactions: each reads from a snapshot, and commits if nobody has
// written what it read in between (Kung and Robinson 1981). With blind, nobody looks.
type optimistic struct {
	p     *plan.Plan
	blind bool

	mu      sync.Mutex
	rows    *store.Versioned
	version uint64
	data    target.Dataset
}

var errStale = errors.New("somebody has written what was read")

// Load implements target.Database.
func (o *optimistic) Load(_ context.Context, d target.Dataset, _ func(int64)) error {
	o.rows, o.data = store.NewVersioned(), d
	layout := o.Layout()
	for shard := range layout.Shards() {
		for _, c := range layout.Cells(shard) {
			if err := workload.FillCell(d.Workload, layout.Topology, c, o.rows.Load); err != nil {
				return err
			}
		}
	}
	return workload.FillEverywhere(d.Workload, o.rows.Load)
}

// Clients implements target.Database.
func (o *optimistic) Clients(geo.Region) target.Target {
	return &target.Statements{
		Procedures: catalog.Procedures(), Placement: o.p.Topology.Placement(), Connections: 8,
		Connect: func(context.Context) (target.Connection, error) { return connection{o}, nil },
		Classify: func(err error) target.Failure {
			if errors.Is(err, errStale) {
				return target.Failure{Cause: txn.CauseConflict, Reason: "stale"}
			}
			return target.Failure{Cause: txn.CauseNode, Reason: "broken", Broken: true}
		},
	}
}

// Activity implements target.Database.
func (o *optimistic) Activity(context.Context) (target.Activity, error) {
	return target.Activity{}, nil
}

// Layout implements target.Database: one node holds all rows.
func (o *optimistic) Layout() geo.Layout { return o.p.Topology.Whole(0) }

// Audit implements target.Database.
func (o *optimistic) Audit(context.Context, func(geo.NodeID) bool) ([][]audit.Shard, error) {
	l := o.Layout()
	return [][]audit.Shard{audit.Of(0, &l, o.rows, o.data.Workload, o.data.Traced)}, nil
}

// Status implements target.Database.
func (o *optimistic) Status(context.Context) ([]admin.Status, error) { return nil, nil }

type connection struct{ o *optimistic }

func (c connection) Begin(_ context.Context, t *txn.Transaction) (target.Statement, error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := &statement{o: c.o, id: t.ID}
	s.snapshot = snapshot{o: c.o, version: c.o.version}
	s.Rows = &s.snapshot
	return s, nil
}

func (connection) Close() error { return nil }

// statement is a transaction under way.
type statement struct {
	store.View
	o        *optimistic
	id       txn.ID
	snapshot snapshot
}

// snapshot is the rows that a transaction sees, and those that it has looked at.
type snapshot struct {
	o       *optimistic
	version uint64
	read    []txn.Range
}

func (s *snapshot) Get(k txn.Key) (store.Record, bool) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	s.read = append(s.read, txn.Point(k))
	return s.o.rows.At(s.version).Get(k)
}

func (s *snapshot) Scan(r txn.Range, f func(txn.Key, store.Record) bool) {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	r.Limit = 0 // what lies behind the limit is looked at, too: that is more than need be, and simple
	s.read = append(s.read, r)
	s.o.rows.At(s.version).Scan(r, f)
}

// changed reports whether somebody has written what was read since.
func (s *snapshot) changed() bool {
	for _, r := range s.read {
		if r.Point() {
			if s.o.rows.Newest(r.From) > s.version {
				return true
			}
			continue
		}
		var before, now int
		s.o.rows.At(s.version).Scan(r, func(txn.Key, store.Record) bool { before++; return true })
		newer := false
		s.o.rows.Scan(r, func(_ txn.Key, rec store.Record) bool {
			now++
			newer = newer || rec.Version > s.version
			return true
		})
		if newer || before != now {
			return true
		}
	}
	return false
}

func (s *statement) Commit(context.Context) error {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	if !s.o.blind && s.snapshot.changed() {
		return errStale
	}
	s.o.version++
	for _, w := range s.Writes.Entries() {
		if w.Deleted {
			s.o.rows.Delete(w.Key, s.o.version, s.id)
		} else {
			s.o.rows.Put(w.Key, store.Record{Value: w.Value, Version: s.o.version, Writer: s.id})
		}
	}
	return nil
}

func (s *statement) Rollback(context.Context) error { return nil }

// A database that is reached statement by statement passes all that a database is held to.
func TestStatements(t *testing.T) {
	targettest.Conform(t, "optimistic", isolation.StrictSerializable, func(_ *testing.T, p *plan.Plan) target.Database {
		return &optimistic{p: p}
	})
}

// One that does not look for conflicts loses updates, and the run shows it.
func TestStatementsThatLoseUpdates(t *testing.T) {
	p := targettest.Plan(t, "blind", `{rmw: {records: 40, recordsPerTransaction: 4, writesPerTransaction: 2, valueBytes: 64}}`, isolation.ReadCommitted)
	d, err := local.On(t.Context(), p, &optimistic{p: p, blind: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := map[string]bool{}
	for _, c := range d.Checks {
		failed[c.Name] = !c.Passed
	}
	if d.Verdict != v1alpha1.VerdictFailed || !failed["rmw-writes"] {
		t.Errorf("verdict %s, checks %v", d.Verdict, d.Checks)
	}
}
