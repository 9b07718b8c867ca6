package target_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/targettest"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// optimistic is an in-memory database with one copy and interactive transactions. Each transaction reads from a
// snapshot. It commits only if no other transaction has meanwhile written the rows that it read (Kung and Robinson
// 1981).
type optimistic struct {
	p *plan.Plan
	// mistake is the defect of a faulty variant, or "" for none.
	mistake string

	pending atomic.Int64
	mu      sync.Mutex
	rows    *store.Versioned
	version uint64
	commits int
	locked  bool
	data    target.Dataset
	// statuses is the number of calls of Status.
	statuses int
}

var errMissing = errors.New("no such table")

var errStale = errors.New("somebody has written what was read")

// Load implements target.Database.
func (o *optimistic) Load(_ context.Context, d target.Dataset) error {
	o.data = d
	if o.rows == nil || o.mistake != "load-keeps" {
		o.rows = store.NewVersioned()
	}
	layout := o.Layout()
	return workload.Fill(d.Workload, &layout, 0, o.rows.Load)
}

// Clients implements target.Database.
func (o *optimistic) Clients(geo.Region) target.Target {
	return &target.Statements{
		Procedures: catalog.Procedures(), Placement: o.p.Topology.Placement(), Connections: 8, Pending: &o.pending,
		Connect: func(context.Context) (target.Connection, error) { return connection{o}, nil },
		Classify: func(err error) target.Failure {
			if errors.Is(err, errStale) && o.mistake == "cause" {
				return target.Failure{Cause: txn.CauseProcedure, Reason: "stale"}
			}
			if errors.Is(err, errStale) {
				return target.Failure{Cause: txn.CauseConflict, Reason: "stale"}
			}
			return target.Failure{Cause: txn.CauseNode, Reason: "broken", Broken: true}
		},
	}
}

// Activity implements target.Database.
func (o *optimistic) Activity(context.Context) (target.Activity, error) {
	if o.mistake == "activity-fails" {
		return target.Activity{}, errMissing
	}
	if o.mistake == "activity-none" {
		return target.Activity{}, nil
	}
	return target.Activity{Pending: int(o.pending.Load())}, nil
}

// Layout implements target.Database. One node has all rows.
func (o *optimistic) Layout() geo.Layout { return o.p.Topology.Whole(0) }

// Audit implements target.Database.
func (o *optimistic) Audit(context.Context, func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	switch o.mistake {
	case "audit-empty":
		return nil, nil
	case "audit-nothing":
		return [][]store.ShardSums{nil}, nil
	case "audit-fails":
		return nil, errMissing
	}
	l := o.Layout()
	return [][]store.ShardSums{audit.Of(0, &l, o.rows, o.data.Workload, o.data.Traced)}, nil
}

// Status implements target.Database.
func (o *optimistic) Status(context.Context) ([]admin.Status, error) {
	if o.statuses++; o.mistake == "status-fails" && o.statuses > 1 {
		return nil, errMissing
	}
	return nil, nil
}

type connection struct{ o *optimistic }

func (c connection) Begin(_ context.Context, t *txn.Transaction) (target.Statement, error) {
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	s := &statement{o: c.o, id: t.ID}
	s.snapshot = snapshot{o: c.o, version: c.o.version}
	s.view.Rows = &s.snapshot
	return s, nil
}

func (connection) Close() error { return nil }

// statement is a running transaction.
type statement struct {
	view     store.View
	o        *optimistic
	id       txn.ID
	snapshot snapshot
}

// snapshot contains the rows that a transaction can read, and records which rows it has read.
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
	s.o.rows.At(s.version).Scan(r, f)
	r.Limit = 0 // count rows after the limit as read, too: this is conservative but simple
	s.read = append(s.read, r)
}

// changed reports whether another transaction has written any row after this transaction read it.
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

func (s *statement) Get(k txn.Key) ([]byte, error) {
	if s.o.mistake == "get-committed" {
		r, found := s.snapshot.Get(k)
		if !found {
			return nil, txn.ErrNotFound
		}
		return r.Value, nil
	}
	return s.view.Get(k)
}

func (s *statement) GetAll(keys []txn.Key) ([][]byte, error) {
	values, err := s.view.GetAll(keys)
	for i, v := range values {
		switch {
		case s.o.mistake == "getall-empty-nil" && len(v) == 0:
			values[i] = nil
		case s.o.mistake == "getall-missing-empty" && v == nil:
			values[i] = []byte{}
		}
	}
	if s.o.mistake == "getall-order" {
		slices.Reverse(values)
	}
	return values, err
}

func (s *statement) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	switch s.o.mistake {
	case "scan-nothing":
		return nil
	case "scan-forwards":
		r.Reverse = false
	case "scan-no-limit":
		r.Limit = 0
	case "scan-pages":
		r.Limit = min(r.Limit, 64)
	case "scan-inclusive":
		r.To = min(r.To+"\x00", r.From.Unit().End())
	case "scan-committed":
		s.snapshot.Scan(r, func(k txn.Key, rec store.Record) bool { return f(k, rec.Value) })
		return nil
	}
	return s.view.Scan(r, f)
}

func (s *statement) Put(k txn.Key, value []byte) error {
	s.view.Put(k, value)
	return nil
}

func (s *statement) Delete(k txn.Key) error {
	if s.o.mistake != "delete-nothing" {
		s.view.Delete(k)
	}
	return nil
}

func (s *statement) Commit(context.Context) error {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	if s.o.locked || s.o.mistake != "blind" && s.snapshot.changed() {
		return errStale
	}
	if s.o.commits++; s.o.mistake == "commit-fails" && s.o.commits%10 == 0 {
		return errors.New("no space on the disk")
	}
	s.write()
	return nil
}

// write applies the transaction's writes.
func (s *statement) write() {
	s.o.version++
	for _, w := range s.view.Writes.Entries() {
		if w.Deleted {
			s.o.rows.Delete(w.Key, s.o.version, s.id)
		} else {
			s.o.rows.Put(w.Key, store.Record{Value: w.Value, Version: s.o.version, Writer: s.id})
		}
	}
}

func (s *statement) Rollback(context.Context) error {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	switch s.o.mistake {
	case "rollback-commits":
		s.write()
	case "rollback-forgets-locks":
		s.o.locked = true
	}
	return nil
}

// The checks of statements detect every faulty variant of the database.
func TestStatementsCatchMistakes(t *testing.T) {
	p := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable)
	for mistake, found := range map[string]string{
		"":                       "",
		"load-keeps":             "load: a row",
		"activity-none":          "activity: inside a transaction, 0",
		"get-committed":          "statements: Get of",
		"getall-order":           "statements: GetAll of",
		"getall-empty-nil":       "statements: GetAll of",
		"getall-missing-empty":   "statements: GetAll of",
		"scan-nothing":           "statements: Scan of",
		"scan-forwards":          "statements: Scan of",
		"scan-no-limit":          "statements: Scan of",
		"scan-inclusive":         "statements: Scan of",
		"scan-pages":             "statements: Scan of",
		"scan-committed":         "statements: Scan of",
		"delete-nothing":         "statements: ",
		"rollback-commits":       "statements: after a rollback",
		"rollback-forgets-locks": "close: after a session closed",
		"commit-fails":           "statements: a transaction that nobody competes with ended as unknown",
	} {
		t.Run(mistake, func(t *testing.T) {
			err := targettest.Statements(t.Context(), p, &optimistic{p: p, mistake: mistake})
			if mistake == "" && err != nil || mistake != "" && (err == nil || !strings.Contains(err.Error(), found)) {
				t.Errorf("%v\nshould say %q", err, found)
			}
		})
	}
}

// A correct database that is accessed statement by statement passes all checks of the contract.
func TestStatements(t *testing.T) {
	targettest.Conform(t, "optimistic", isolation.StrictSerializable, func(_ *testing.T, p *plan.Plan) target.Database {
		return &optimistic{p: p}
	})
}

// A database without conflict detection loses updates, and the verification of the run detects this loss.
func TestStatementsThatLoseUpdates(t *testing.T) {
	p := targettest.Plan(t, "blind", `{rmw: {records: 40, recordsPerTransaction: 4, writesPerTransaction: 2, valueBytes: 64}}`, isolation.ReadCommitted)
	d, err := inprocess.On(t.Context(), p, &optimistic{p: p, mistake: "blind"}, nil)
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

// A target that misclassifies conflicts would report fewer aborts and lower latencies. Its run is Invalid.
func TestFailuresHaveACause(t *testing.T) {
	p := targettest.Plan(t, "optimistic", `{rmw: {records: 40, recordsPerTransaction: 4, writesPerTransaction: 2, valueBytes: 64}}`, isolation.StrictSerializable)
	d, err := inprocess.On(t.Context(), p, &optimistic{p: p, mistake: "cause"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d.Verdict != v1alpha1.VerdictInvalid || d.Reasons[0].Reason != result.ReasonTargetFailed || !strings.Contains(d.Reasons[0].Message, "the cause procedure: a failure is a conflict or the node's") {
		t.Errorf("verdict %s, %v", d.Verdict, d.Reasons)
	}
}

// Violations that are found in the last steps of a run are added to the reasons, and the run's figures are kept.
func TestFiguresOutliveTheAudit(t *testing.T) {
	for mistake, want := range map[string]string{
		"audit-empty":    "the audit tells nothing of shard 0 on node 0 of 0, where the layout has it",
		"audit-nothing":  "the audit tells nothing of shard 0 on node 0 of 1, where the layout has it",
		"status-fails":   "the figures of the nodes after the run are not known: no such table",
		"audit-fails":    "the rows could not be audited: no such table",
		"activity-fails": "what goes on in the database after the last answer is not known: no such table",
	} {
		t.Run(mistake, func(t *testing.T) {
			p := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable)
			d, err := inprocess.On(t.Context(), p, &optimistic{p: p, mistake: mistake}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d.Verdict != v1alpha1.VerdictInvalid || d.Summary.Committed == 0 || d.Reasons[0].Reason != result.ReasonNotAudited || !strings.Contains(d.Reasons[0].Message, want) {
				t.Errorf("verdict %s, %d committed, %v\nshould say %q", d.Verdict, d.Summary.Committed, d.Reasons, want)
			}
		})
	}
}

// A result document states the target, its guarantees, and the number of concurrent transactions.
func TestADocumentTellsOfItsTarget(t *testing.T) {
	p := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable)
	d, err := inprocess.On(t.Context(), p, &optimistic{p: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := (result.Target{Promises: isolation.StrictSerializable.String(), ConnectionsPerRegion: 8}); d.Target == nil || !reflect.DeepEqual(*d.Target, want) || d.Manifests.Database != nil || len(d.Workers) != 2 {
		t.Errorf("%+v, manifests %+v, %d workers", d.Target, d.Manifests, len(d.Workers))
	}
}

// A target that promises level 0 is refused, because every history satisfies it and there is nothing to check.
func TestPromisesThatCannotBeChecked(t *testing.T) {
	run := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable).Run
	_, err := inprocess.PlanOn(run, "optimistic", 0, targettest.Topology())
	if problems, ok := check.As(err); !ok || len(problems) != 1 || problems[0].Field != "spec.verify[1]" || !strings.Contains(problems[0].Message, "name the level, for example Serializable") {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"", "calvin"} {
		if _, err := inprocess.PlanOn(run, name, isolation.StrictSerializable, targettest.Topology()); err == nil || !strings.Contains(err.Error(), "give it the database's own name") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A run with faults that no component can inject is refused, because it would pass without the faults.
func TestFaultsOnATargetAreRefused(t *testing.T) {
	p := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable)
	p.Run.Spec.Faults = []v1alpha1.Fault{{
		Name: "kill", At: v1alpha1.Duration{Duration: 200 * time.Millisecond},
		PodKill: &v1alpha1.PodKillFault{Target: v1alpha1.NodeTarget{Regions: []string{"east"}}},
	}}
	planned, err := inprocess.PlanOn(p.Run, "optimistic", isolation.StrictSerializable, targettest.Topology())
	problems, ok := check.As(err)
	if !ok || len(problems) != 1 || planned != nil {
		t.Fatalf("plan %v, error %v", planned, err)
	}
	if got := problems[0]; got.Field != "spec.faults[0].podKill" || got.Value != "kill" || !strings.Contains(got.Message, "remove the fault") {
		t.Errorf("%+v", got)
	}
}

// A database with one copy has no copies to compare, so the check of convergence runs only on request.
func TestOneCopyConvergesWhenAsked(t *testing.T) {
	for name, verify := range map[string][]v1alpha1.Verification{
		"asked":     {v1alpha1.VerifyInvariants, v1alpha1.VerifyConvergence},
		"not asked": {v1alpha1.VerifyInvariants},
	} {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "optimistic", `{smallbank: {customers: 200}}`, isolation.StrictSerializable)
			p.Run.Spec.Verify = verify
			d, err := inprocess.On(t.Context(), p, &optimistic{p: p}, nil)
			if err != nil {
				t.Fatal(err)
			}
			asked := slices.Contains(verify, v1alpha1.VerifyConvergence)
			if got := slices.ContainsFunc(d.Checks, func(c workload.Check) bool { return c.Name == "convergence" }); got != asked || len(d.Checks) == 0 {
				t.Errorf("checks %+v", d.Checks)
			}
		})
	}
}
