package script_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/script"
)

var (
	errConflict = errors.New("conflict")
	errNode     = errors.New("node")
)

// locking is an in-memory database. It locks written rows until the end of the transaction, and reads committed rows
// without locks.
type locking struct {
	mu    sync.Mutex
	freed *sync.Cond
	rows  map[txn.Key][]byte
	locks map[txn.Key]*connection
	// begun lists the transactions in the order of their first statements.
	begun []txn.ID
}

type connection struct {
	db     *locking
	waits  bool
	writes map[txn.Key][]byte
	ctx    context.Context
	// fails is the error of the next write, or nil.
	fails error
}

func (l *locking) Waits(_ context.Context, _ geo.Region, c target.Connection) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.(*connection).waits, nil
}

func (l *locking) CatchUp(context.Context) error { return nil }

func (c *connection) Close() error { return nil }

func (c *connection) Begin(ctx context.Context, t *txn.Transaction) (target.Statement, error) {
	c.db.begun = append(c.db.begun, t.ID)
	c.writes, c.ctx = map[txn.Key][]byte{}, ctx
	context.AfterFunc(ctx, c.db.freed.Broadcast)
	return c, nil
}

func (c *connection) Get(k txn.Key) ([]byte, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	if v, ok := c.db.rows[k]; ok {
		return v, nil
	}
	return nil, txn.ErrNotFound
}

func (c *connection) GetAll([]txn.Key) ([][]byte, error)               { return nil, nil }
func (c *connection) Scan(txn.Range, func(txn.Key, []byte) bool) error { return nil }
func (c *connection) Delete(txn.Key) error                             { return nil }

func (c *connection) Put(k txn.Key, value []byte) error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for holder := c.db.locks[k]; holder != nil && holder != c; holder = c.db.locks[k] {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		c.waits = true
		c.db.freed.Wait()
	}
	c.waits = false
	c.db.locks[k], c.writes[k] = c, value
	return c.fails
}

func (c *connection) end(commit bool) error {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	for k, v := range c.writes {
		if delete(c.db.locks, k); commit {
			c.db.rows[k] = v
		}
	}
	c.db.freed.Broadcast()
	return nil
}

func (c *connection) Commit(context.Context) error   { return c.end(true) }
func (c *connection) Rollback(context.Context) error { return c.end(false) }

// play executes one transaction per element of rows, each in a separate session. The letters of an element are the rows
// that its transaction writes.
func play(t *testing.T, fails []error, rows []string, steps string) ([]script.Played, *locking, error) {
	t.Helper()
	db := &locking{rows: map[txn.Key][]byte{}, locks: map[txn.Key]*connection{}}
	db.freed = sync.NewCond(&db.mu)
	var sessions []script.Session
	var txns []script.Transaction
	for i, keys := range rows {
		c := &connection{db: db}
		if i < len(fails) {
			c.fails = fails[i]
		}
		sessions = append(sessions, script.Session{Connection: c, Classify: func(err error) target.Failure {
			if errors.Is(err, errConflict) {
				return target.Failure{Cause: txn.CauseConflict}
			}
			return target.Failure{Cause: txn.CauseNode, Reason: "node"}
		}})
		txns = append(txns, script.Transaction{ID: txn.ID(i + 1), Session: i, Run: func(c txn.Ctx) error {
			for _, k := range keys {
				c.Put(txn.IntKey(1, uint64(k)), nil)
			}
			return nil
		}})
	}
	parsed, err := script.Steps(steps)
	if err != nil {
		t.Fatal(err)
	}
	played, err := script.Play(t.Context(), db, sessions, txns, parsed)
	return played, db, err
}

// A waiting statement does not block the script. Its transaction continues with the next statement once the wait is
// over.
func TestWait(t *testing.T) {
	played, db, err := play(t, nil, []string{"xy", "xz", "z"}, "0 1 1 1 2 0 0 2 =")
	if err != nil {
		t.Fatal(err)
	}
	var waited []bool
	for _, p := range played {
		waited = append(waited, p.Waited)
		if p.Status != txn.Committed {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(waited, []bool{false, true, false}) || !slices.Equal(db.begun, []txn.ID{1, 2, 3}) {
		t.Errorf("who waited: %v, in the order %v", waited, db.begun)
	}
	if played[0].Answered > played[1].Answered {
		t.Error("the one that waits is answered before the one that it waits for")
	}
	if _, writer, nth := script.Stamped(db.rows[txn.IntKey(1, 'x')]); writer != 2 || nth != 1 {
		t.Errorf("x is write %d of transaction %v", nth, writer)
	}
}

// The remaining steps of a transaction that was aborted by a conflict are skipped.
func TestConflict(t *testing.T) {
	played, _, err := play(t, []error{errConflict}, []string{"xy", "x"}, "0 0 0 1 1")
	if err != nil {
		t.Fatal(err)
	}
	if p := played[0]; p.Status != txn.Aborted || p.Cause != txn.CauseConflict || p.Ops != nil || played[1].Status != txn.Committed || played[1].Waited || p.Answered > played[1].Invoked {
		t.Errorf("%+v", played)
	}
}

// A script that cannot be completed returns an error, and its goroutines have stopped by then.
func TestUnplayable(t *testing.T) {
	for name, tc := range map[string]struct {
		fails       []error
		rows        []string
		steps, want string
	}{
		"a failure":       {[]error{nil, nil, errNode}, []string{"x", "x", "y"}, "0 1 2 0 1", "a transaction failed, and not for a conflict (node): node"},
		"too few steps":   {nil, []string{"x", "y"}, "0 1 1", "the steps end before transaction 0 does"},
		"a step too much": {nil, []string{"x"}, "0 0 0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := play(t, tc.fails, tc.rows, tc.steps); err == nil && tc.want != "" || err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%v, not %s", err, tc.want)
			}
		})
	}
	if _, err := script.Steps("0 x"); err == nil {
		t.Error("x is a step")
	}
}

// Stamped returns the arguments of Stamp. A missing row counts as the initial version.
func TestStamp(t *testing.T) {
	if v, writer, nth := script.Stamped(script.Stamp([]byte("v"), 7, 2)); string(v) != "v" || writer != 7 || nth != 2 {
		t.Error(v, writer, nth)
	}
	if v, writer, _ := script.Stamped(nil); v != nil || writer != history.Initial {
		t.Error(v, writer)
	}
}
