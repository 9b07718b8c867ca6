package attach_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/run/attach"
)

// serial is a database that runs one transaction at a time.
type serial struct {
	topology *geo.Topology
	turn     chan struct{} // contains a token while a transaction runs
	pending  atomic.Int64
	rows     *store.Hash
	data     target.Dataset
}

func (s *serial) Load(_ context.Context, d target.Dataset) error {
	s.rows, s.data = store.NewHash(), d
	layout := s.Layout()
	return workload.Fill(d.Workload, &layout, 0, s.rows.Load)
}

func (s *serial) Clients(geo.Region) target.Target {
	return &target.Statements{
		Procedures: catalog.Procedures(), Placement: s.topology.Placement(), Connections: 4, Pending: &s.pending,
		Connect:  func(context.Context) (target.Connection, error) { return connection{s}, nil },
		Classify: func(error) target.Failure { return target.Failure{Cause: txn.CauseNode, Reason: "no-turn"} },
	}
}

func (s *serial) Activity(context.Context) (target.Activity, error) {
	return target.Activity{Pending: int(s.pending.Load())}, nil
}

func (s *serial) Layout() geo.Layout { return s.topology.Whole(0) }

func (s *serial) Audit(context.Context, func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	layout := s.Layout()
	return [][]store.ShardSums{audit.Of(0, &layout, s.rows, s.data.Workload, s.data.Traced)}, nil
}

func (s *serial) Status(context.Context) ([]admin.Status, error) { return nil, nil }

type connection struct{ s *serial }

func (c connection) Begin(ctx context.Context, _ *txn.Transaction) (target.Statement, error) {
	select {
	case c.s.turn <- struct{}{}:
		return &statement{s: c.s, view: store.View{Rows: c.s.rows}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (connection) Close() error { return nil }

// statement is the transaction that a serial database is running.
type statement struct {
	s    *serial
	view store.View
	over bool
}

func (s *statement) Get(k txn.Key) ([]byte, error)           { return s.view.Get(k) }
func (s *statement) GetAll(keys []txn.Key) ([][]byte, error) { return s.view.GetAll(keys) }
func (s *statement) Put(k txn.Key, value []byte) error       { s.view.Put(k, value); return nil }
func (s *statement) Delete(k txn.Key) error                  { s.view.Delete(k); return nil }

func (s *statement) Scan(r txn.Range, f func(txn.Key, []byte) bool) error { return s.view.Scan(r, f) }

func (s *statement) Commit(context.Context) error {
	for _, w := range s.view.Writes.Entries() {
		if w.Deleted {
			s.s.rows.Delete(w.Key)
		} else {
			s.s.rows.Put(w.Key, w.Value, 0)
		}
	}
	return s.Rollback(context.Background())
}

func (s *statement) Rollback(context.Context) error {
	if !s.over {
		s.over = true
		<-s.s.turn
	}
	return nil
}

// program is the complete description of a target. The target's main function only calls program.Main.
var program = attach.Program{
	Engine: "serial", Promises: isolation.StrictSerializable,
	Topology: geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1},
	Open: func(_ context.Context, p *plan.Plan) (target.Database, func() error, error) {
		return &serial{topology: &p.Topology, turn: make(chan struct{}, 1)}, func() error { return nil }, nil
	},
}

const smallbank = `apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: serial-smallbank}
spec:
  databaseRef: {name: none}
  workload: {smallbank: {customers: 200}}
  load: {clientsPerRegion: 4, thinkTime: 5ms, warmup: 100ms, duration: 500ms}
  verify: [Invariants, Isolation]
`

// The program of a target runs BenchmarkRuns whose databaseRef does not refer to a GeoDatabase.
func ExampleProgram() {
	folder, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(folder) //nolint:errcheck // nothing of it is needed
	file, saved := filepath.Join(folder, "smallbank.yaml"), filepath.Join(folder, "results")
	if err := os.WriteFile(file, []byte(smallbank), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	code := program.Run(context.Background(), []string{"-f", file, "--save", saved, "-o", "json", "-q"}, nil, io.Discard, os.Stderr)
	_, err = os.Stat(filepath.Join(saved, "serial-smallbank.json"))
	fmt.Println("exit code", code, "and a result:", !errors.Is(err, os.ErrNotExist))
	// Output: exit code 0 and a result: true
}
