package anomalies

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
)

// unisolated is an in-memory database whose writes are immediately visible to all transactions. A rollback undoes the
// writes of its transaction.
type unisolated struct {
	mu   sync.Mutex
	rows map[txn.Key][]byte
}

// Waits implements script.Database: no statement waits.
func (*unisolated) Waits(context.Context, geo.Region, target.Connection) (bool, error) {
	return false, nil
}

// CatchUp implements script.Database.
func (*unisolated) CatchUp(context.Context) error { return nil }

// Close implements target.Connection.
func (*unisolated) Close() error { return nil }

// Begin implements target.Connection.
func (u *unisolated) Begin(context.Context, *txn.Transaction) (target.Statement, error) {
	return &dirty{unisolated: u, before: map[txn.Key][]byte{}}, nil
}

// dirty is a transaction of unisolated.
type dirty struct {
	*unisolated
	before map[txn.Key][]byte
}

func (d *dirty) Get(k txn.Key) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v, ok := d.rows[k]; ok {
		return v, nil
	}
	return nil, txn.ErrNotFound
}

func (d *dirty) GetAll([]txn.Key) ([][]byte, error) { panic("no case gets several rows at once") }

func (d *dirty) Scan(r txn.Range, f func(txn.Key, []byte) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(d.rows)) {
		if k >= r.From && k < r.To && !f(k, d.rows[k]) {
			break
		}
	}
	return nil
}

func (d *dirty) Put(k txn.Key, value []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.before[k]; !ok {
		d.before[k] = d.rows[k]
	}
	d.rows[k] = value
	return nil
}

func (d *dirty) Delete(k txn.Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.rows, k)
	return nil
}

func (d *dirty) Commit(context.Context) error { return nil }

func (d *dirty) Rollback(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.Copy(d.rows, d.before)
	return nil
}

// live returns a database with clients in three regions.
func live(u *unisolated, promises isolation.Level) *Live {
	return &Live{Topology: regions(), Promises: promises, Steps: u, Clients: func(geo.Region) *target.Statements {
		return &target.Statements{
			Connect:  func(context.Context) (target.Connection, error) { return u, nil },
			Classify: func(error) target.Failure { return target.Failure{Cause: txn.CauseNode} },
		}
	}}
}

// TestOrderOfStatements checks that the order of the statements of each case shows the anomaly if nothing prevents it.
// Anomalies of lagging copies are an exception.
func TestOrderOfStatements(t *testing.T) {
	l := live(&unisolated{rows: map[txn.Key][]byte{}}, isolation.ReadCommitted)
	defer l.Close()
	for i := range cases {
		c := &cases[i]
		f, err := l.Play(t.Context(), c, 4)
		if err != nil {
			t.Fatal(err)
		}
		lags := strings.Contains("long-fork lost-own-write reads-go-back stale-read", c.Name)
		if want := map[bool]int{false: 4, true: 0}[lags]; f.Seen != want || f.Overlapped != 4 || f.Other != 0 {
			t.Errorf("%s: %v, seen in %d of 4 and not %d, overlapped %d, other %d: %s", c.Name, f, f.Seen, want, f.Overlapped, f.Other, f.Example)
		}
	}
}

// TestBrokenLive checks that a violation of the promised level by a running database is an error with a description.
func TestBrokenLive(t *testing.T) {
	l := live(&unisolated{rows: map[txn.Key][]byte{}}, isolation.Serializable)
	defer l.Close()
	all, err := l.PlayAll(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Databases: []Result{{Database: "it", Level: "serializable", Cases: all}}}
	for _, want := range []string{"2 of 2 plays of dirty-write (G0) are not", "2 of 2 plays of aborted-read (G1a)", "2 of 2 plays of write-skew (G2-item)", "lost-update: two transactions"} {
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
}

// applying is a database in which some transactions conflict with writes that were committed long before.
type applying struct {
	unisolated
	conflicts int // number of remaining conflicts
}

var errConflict = errors.New("a conflict with what is being applied")

// Begin implements target.Connection. Only transactions of a case have an ID.
func (a *applying) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	if t.ID == 0 && a.conflicts > 0 {
		a.conflicts--
		return nil, errConflict
	}
	return a.unisolated.Begin(ctx, t)
}

// TestConflictsWhileAlone checks that a transaction without concurrent clients is retried after conflicts, a limited
// number of times. Other errors are returned immediately.
func TestConflictsWhileAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		conflicts int
		cause     txn.Cause
		left      int
	}{
		"some":        {conflicts: 3, cause: txn.CauseConflict},
		"for ever":    {conflicts: 1000, cause: txn.CauseConflict, left: 1000 - mostTries},
		"no conflict": {conflicts: 3, cause: txn.CauseNode, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			a := &applying{unisolated: unisolated{rows: map[txn.Key][]byte{}}, conflicts: tc.conflicts}
			l := live(&a.unisolated, isolation.Serializable)
			l.Clients = func(geo.Region) *target.Statements {
				return &target.Statements{
					Connect:  func(context.Context) (target.Connection, error) { return a, nil },
					Classify: func(error) target.Failure { return target.Failure{Cause: tc.cause} },
				}
			}
			defer l.Close()
			_, err := l.Play(t.Context(), &cases[0], 1)
			if errors.Is(err, errConflict) != (tc.left > 0) || a.conflicts != tc.left {
				t.Errorf("%v, and %d conflicts are left, not %d", err, a.conflicts, tc.left)
			}
		})
	}
}

// TestConnections checks that no case has more clients than LiveConnections.
func TestConnections(t *testing.T) {
	for _, c := range cases {
		for _, x := range c.txns {
			if x.client >= LiveConnections {
				t.Errorf("%s: client %d of %d connections", c.Name, x.client, LiveConnections)
			}
		}
	}
}
