package dataagent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/ops/admin"
)

var topology = geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{{{}, {}}, {{}, {}}}}

// database keeps its rows in memory.
type database struct {
	rows           store.Store
	data           target.Dataset
	pending, loads int
	closed         bool
	hangs          error
}

func (d *database) Load(_ context.Context, data target.Dataset) error {
	d.rows, d.data = store.NewHash(), data
	d.loads++
	layout, n := d.Layout(), int64(0)
	err := workload.Fill(data.Workload, &layout, 0, d.rows.Load)
	d.rows.Each(func(txn.Key, store.Record) { n++ })
	data.Progress(n)
	return err
}
func (d *database) Clients(geo.Region) target.Target { return nil }
func (d *database) Activity(context.Context) (target.Activity, error) {
	return target.Activity{Pending: d.pending}, d.hangs
}
func (d *database) Layout() geo.Layout { return topology.Whole(0) }
func (d *database) Audit(context.Context, func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	layout := d.Layout()
	return [][]store.ShardSums{audit.Of(0, &layout, d.rows, d.data.Workload, false)}, nil
}
func (d *database) Status(context.Context) ([]admin.Status, error) { return nil, nil }
func (d *database) Describe() result.Target                        { return result.Target{Server: "Example 1.0"} }
func (d *database) Close() error                                   { d.closed = true; return nil }

// TestSteward checks that an agent loads once, reports activity and audits the existing rows.
func TestSteward(t *testing.T) {
	db := &database{}
	s := &Agent{Topology: &topology, Process: "one", Open: func(context.Context) (Database, error) { return db, nil }}
	if st, err := s.Status(t.Context()); err != nil || !st.Ready || st.Dataset != "" || st.Process != "one" {
		t.Errorf("before: %+v, %v", st, err)
	}
	if _, err := s.Audit(t.Context()); !errors.Is(err, admin.ErrBusy) {
		t.Errorf("an audit of nothing: %v", err)
	}
	req := &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"smallbank":{"customers":200,"mix":{"balance":40,"writeCheck":25,"depositChecking":15,"transactSavings":15,"amalgamate":5}}}`), Seed: 1}
	for range 2 {
		r, err := s.Load(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		var is result.Target
		if err := json.Unmarshal(r.Target, &is); err != nil || is.Server != "Example 1.0" || r.Rows == 0 {
			t.Errorf("%d rows, %+v, %v", r.Rows, is, err)
		}
	}
	if db.loads != 1 {
		t.Errorf("it was loaded %d times", db.loads)
	}
	db.pending = 3
	if st, err := s.Status(t.Context()); err != nil || st.Dataset != "d" || st.Pending != 3 {
		t.Errorf("after: %+v, %v", st, err)
	}
	a, err := s.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layout := topology.Whole(0)
	if err := (&audit.Audits{Nodes: [][]store.ShardSums{a.Shards}}).Complete(&layout); err != nil {
		t.Error(err)
	}
	db.hangs = errors.New("no answer")
	if st, err := s.Status(t.Context()); err == nil {
		t.Errorf("of a database that does not answer it says %+v", st)
	}
	if err := s.Close(); err != nil || !db.closed {
		t.Errorf("closed %t, %v", db.closed, err)
	}
}

// TestStewardRefuses checks that an error in the manifest is reported as a bad request, and that opening is retried
// while the database is not available.
func TestStewardRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		open    error
		load    string
		says    string
		refused bool
	}{
		"a field":    {open: &target.FieldError{Field: "spec.pods.client.secretRef", Message: "wrong password"}, says: "spec.pods.client.secretRef: wrong password", refused: true},
		"away":       {open: errors.New("connection refused"), says: "connection refused"},
		"a workload": {load: `{"smallbank":{"customers":1,"mix":{"balance":100}}}`, says: "customers", refused: true},
	} {
		s := &Agent{Topology: &topology, Open: func(context.Context) (Database, error) { return nil, tc.open }}
		if tc.load == "" {
			tc.load = `{"smallbank":{"customers":200,"mix":{"balance":40,"writeCheck":25,"depositChecking":15,"transactSavings":15,"amalgamate":5}}}`
		}
		_, err := s.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(tc.load), Seed: 1})
		var bad *admin.BadRequest
		if err == nil || !strings.Contains(err.Error(), tc.says) || errors.As(err, &bad) != tc.refused {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
