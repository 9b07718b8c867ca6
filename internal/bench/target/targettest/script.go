package targettest

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// Script executes transactions statement by statement, in an order that the test determines. Each client has a separate
// connection. The script records the history of the values that the transactions read. An anomaly that the database
// allows is therefore reproducible, and no other transaction is in the history. The script's clock advances by a
// millisecond per step.
type Script struct {
	t       testing.TB
	ctx     context.Context
	db      target.Database
	history history.History
	clock   time.Duration
	clients uint64
}

// NewScript loads the rows of a plan's workload and starts a script on them. It closes the database at the end of the
// test. names maps keys to names for explanations.
func NewScript(t testing.TB, p *plan.Plan, db sqltarget.Database, names map[txn.Key]string) *Script {
	t.Helper()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), Within)
	t.Cleanup(cancel)
	if err := db.Load(ctx, target.Dataset{Name: "script", Workload: p.Workload, Seed: p.Seed()}); err != nil {
		t.Fatal(err)
	}
	s := &Script{t: t, ctx: ctx, db: db}
	s.history.KeyName = func(k txn.Key) string { return names[k] }
	return s
}

// Client connects a client to the database in a region.
func (s *Script) Client(region geo.Region, name string) *ScriptClient {
	s.t.Helper()
	c, err := s.db.Clients(region).(*target.Statements).Connect(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	s.clients++
	return &ScriptClient{s: s, connection: c, region: s.history.Region(name), number: s.clients}
}

func (s *Script) step() time.Duration {
	s.clock += time.Millisecond
	return s.clock
}

// Explain describes the smallest part of the history that violates level l. It returns "" if the history satisfies the
// level.
func (s *Script) Explain(l isolation.Level) string {
	v := history.Check(&s.history, l)
	if v.Passed {
		return ""
	}
	return v.Explanation
}

// ScriptClient is a client of a Script. It executes one transaction at a time.
type ScriptClient struct {
	s          *Script
	connection target.Connection
	region     int
	number     uint64
	sent       uint64

	statement target.Statement
	under     history.Txn
	recorder  history.Recorder
	seen      map[txn.Key]txn.ID
	wrong     error // error of the latest write
}

// Begin starts a transaction.
func (c *ScriptClient) Begin() {
	c.s.t.Helper()
	c.sent++
	c.under = history.Txn{ID: txn.MakeID(uint32(c.number), c.sent), Client: uint32(c.number), Invoked: c.s.step()}
	c.seen = map[txn.Key]txn.ID{}
	c.recorder.Reset(scripted{c}, func(k txn.Key) (txn.ID, uint8, bool) {
		writer, ok := c.seen[k]
		return writer, 0, ok
	})
	var err error
	if c.statement, err = c.connection.Begin(c.s.ctx, &txn.Transaction{ID: c.under.ID}); err != nil {
		c.s.t.Fatal(err)
	}
}

// Read reads a row.
func (c *ScriptClient) Read(k txn.Key) {
	c.s.t.Helper()
	c.s.step()
	if _, err := c.recorder.Get(k); err != nil && err != txn.ErrNotFound {
		c.s.t.Fatal(err)
	}
}

// Write writes a row that the transaction has read, and reports whether it succeeded. A conflict ends the transaction;
// any other error fails the test.
func (c *ScriptClient) Write(k txn.Key) bool {
	c.s.t.Helper()
	c.s.step()
	if _, ok := c.seen[k]; !ok {
		c.s.t.Fatalf("%v was not read before it is written: nobody knows what is overwritten", k)
	}
	c.wrong = nil
	if c.recorder.Put(k, nil); c.wrong != nil {
		c.abort(c.wrong)
	}
	return c.wrong == nil
}

// abort ends a transaction after an error, which must be a conflict.
func (c *ScriptClient) abort(err error) {
	c.s.t.Helper()
	if f := c.s.db.Clients(0).(*target.Statements).Classify(err); f.Cause != txn.CauseConflict {
		c.s.t.Fatal(err)
	}
	if err := c.statement.Rollback(c.s.ctx); err != nil {
		c.s.t.Fatal(err)
	}
	c.under.Status, c.under.Answered, c.under.Ops = txn.Aborted, c.s.step(), nil
	c.s.history.Add(c.region, &c.under)
}

// Commit ends the transaction and reports whether it has committed. It handles errors like Write.
func (c *ScriptClient) Commit() bool {
	c.s.t.Helper()
	if err := c.statement.Commit(c.s.ctx); err != nil {
		c.abort(err)
		return false
	}
	c.under.Status, c.under.Answered, c.under.Ops = txn.Committed, c.s.step(), c.recorder.Ops()
	c.s.history.Add(c.region, &c.under)
	return true
}

// writerMark is the prefix of values that a script has written. Loaded values do not have this prefix.
const writerMark = "written by "

// scripted is the recorder's view of a transaction. A write stores the ID of the writing transaction as the value of
// the row.
type scripted struct{ c *ScriptClient }

func (x scripted) Get(k txn.Key) ([]byte, error) {
	value, err := x.c.statement.Get(k)
	x.c.seen[k] = history.Initial
	if writer, ok := bytes.CutPrefix(value, []byte(writerMark)); err == nil && ok {
		x.c.seen[k] = txn.ID(binary.BigEndian.Uint64(writer))
	}
	return value, err
}

func (x scripted) Put(k txn.Key, _ []byte) {
	x.c.wrong = x.c.statement.Put(k, binary.BigEndian.AppendUint64([]byte(writerMark), uint64(x.c.under.ID)))
}

func (x scripted) GetAll(keys []txn.Key) ([][]byte, error)          { return txn.GetEach(x, keys) }
func (x scripted) Scan(txn.Range, func(txn.Key, []byte) bool) error { return nil }
func (x scripted) Delete(txn.Key)                                   {}
