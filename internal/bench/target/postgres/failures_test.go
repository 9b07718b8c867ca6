package postgres_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// through opens a database through a proxy, with one connection per region.
func through(t *testing.T, s *postgrestest.Server, proxy *postgrestest.Proxy, place string, together bool) (*plan.Plan, sqltarget.Database) {
	t.Helper()
	o := options(postgres.Serializable)
	o.Place, o.Together = place, together
	return throughWith(t, s, proxy, o)
}

func throughWith(t *testing.T, s *postgrestest.Server, proxy *postgrestest.Proxy, o postgres.Options) (*plan.Plan, sqltarget.Database) {
	t.Helper()
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 200}}", isolation.Serializable)
	to := server(s, "postgres", p.Topology.Regions...)
	for i := range to.Endpoints {
		to.Endpoints[i].Address = proxy.Address
	}
	o.Connections = 1
	db, err := postgres.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the server may have stopped
	return p, db
}

// If a server hangs while rows are loaded or clients connect, the operation fails with an error that reports the hang.
func TestHangsAreGivenUp(t *testing.T) {
	const longest = sqltarget.Silence + sqltarget.Silence/3 + 5*time.Second
	s := postgrestest.Start(t)
	var all sync.WaitGroup
	for place, tc := range map[string]struct {
		// word is a substring of the client's message at which the server starts to hang
		word string
		do   func(ctx context.Context, p *plan.Plan, db sqltarget.Database) error
		want string
	}{
		"geobench":   {"truncate", load, "removing the rows that were there: the server no longer answers"},
		"geobench_a": {"PGCOPY", load, "loading: the server no longer answers"},
		"geobench_b": {"vacuum", load, "settling what was loaded: the server no longer answers"},
		"geobench_c": {"geobench_rollback", func(ctx context.Context, _ *plan.Plan, db sqltarget.Database) error {
			session, err := db.Clients(0).Open(ctx, func([]txn.Outcome) {})
			if err == nil {
				err = session.Close()
			}
			return err
		}, "the server said nothing more while a connection was opened"},
	} {
		proxy := postgrestest.NewProxy(t, s.Address)
		p, db := through(t, s, proxy, place, false)
		proxy.Judge(func(sent []byte) postgrestest.Fate {
			if bytes.Contains(sent, []byte(tc.word)) {
				proxy.Freeze()
			}
			return postgrestest.Delivered
		})
		all.Go(func() { // concurrently, because each case waits for a timeout
			ctx, cancel := context.WithTimeout(t.Context(), 3*longest)
			defer cancel()
			begin := time.Now()
			err := tc.do(ctx, p, db)
			if took := time.Since(begin); err == nil || !strings.Contains(err.Error(), tc.want) || took > longest {
				t.Errorf("%v, after %v\nnot %s", err, took, tc.want)
			}
			proxy.Close()
		})
	}
	all.Wait()
}

// load loads a small SmallBank.
func load(ctx context.Context, p *plan.Plan, db sqltarget.Database) error {
	return db.Load(ctx, target.Dataset{Name: "bank", Workload: p.Workload, Seed: p.Seed()})
}

// A commit whose connection is cut has an unknown outcome, whether the writes were sent before COMMIT or together with
// it.
func TestCommitIsCut(t *testing.T) {
	s := postgrestest.Start(t)
	for place, together := range map[string]bool{"geobench": false, "geobench_a": true} {
		proxy := postgrestest.NewProxy(t, s.Address)
		p, db := through(t, s, proxy, place, together)
		targettest.CutAtCommit(t, p, db, func(served bool) { proxy.CutOnce("geobench_commit", served) })
	}
}

// BEGIN is sent in one message with the first statement, or separately if so configured. The result states which of the
// two applies.
func TestMessages(t *testing.T) {
	s := postgrestest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	for _, tc := range []struct {
		place           string
		alone, together bool
		want            [5]int64 // begin, read, write, read, commit
		says            string
	}{
		{"geobench", false, false, [5]int64{0, 1, 1, 1, 1}, "sending BEGIN with the first statement, each write alone"},
		{"geobench_a", true, false, [5]int64{1, 1, 1, 1, 1}, "sending BEGIN alone, each write alone"},
		{"geobench_b", false, true, [5]int64{0, 1, 0, 1, 1}, "sending BEGIN with the first statement, writes with the next read or COMMIT"},
		{"geobench_c", true, true, [5]int64{1, 1, 0, 1, 1}, "sending BEGIN alone, writes with the next read or COMMIT"},
	} {
		o := options(postgres.Serializable)
		o.Place, o.BeginAlone, o.Together = tc.place, tc.alone, tc.together
		_, db := throughWith(t, s, proxy, o)
		targettest.RoundTrips(t, db.Clients(0).(*target.Statements), proxy.Count(), tc.want)
		if says := db.(target.Described).Describe(); !strings.Contains(says.String(), tc.says) {
			t.Errorf("%s\nnot %s", says.String(), tc.says)
		}
	}
}

// If the connection breaks when BEGIN is sent, alone or with a statement, nothing was committed. The next transaction
// uses another connection.
func TestBeginIsCut(t *testing.T) {
	s := postgrestest.Start(t)
	for place, alone := range map[string]bool{"geobench_a": false, "geobench_b": true} {
		proxy := postgrestest.NewProxy(t, s.Address)
		o := formed(postgres.Serializable)
		o.Place, o.BeginAlone = place, alone
		p, db := throughWith(t, s, proxy, o)
		if err := load(t.Context(), p, db); err != nil {
			t.Fatal(err)
		}
		targettest.FormCutAtBegin(t, db.Clients(0).(*target.Statements), func(served bool) { proxy.CutOnce("geobench_begin", served) })
	}
}

// Writes that are sent together wait for the next statement that has an answer, which reduces three round trips to one.
// Later statements see the writes. If such a write fails, the transaction fails. Unsent writes need no rollback.
func TestWritesAreSentTogether(t *testing.T) {
	s := postgrestest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	p, db := through(t, s, proxy, "geobench", true)
	if err := load(t.Context(), p, db); err != nil {
		t.Fatal(err)
	}
	clients := db.Clients(0).(*target.Statements)
	c, err := clients.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // the server stops with the test
	sent := 0
	proxy.Judge(func([]byte) postgrestest.Fate { sent++; return postgrestest.Delivered })
	begin := func() target.Statement {
		t.Helper()
		st, err := c.Begin(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	first, second := txn.IntKey(9, 1), txn.IntKey(9, 2)
	do := func(want int, what string, step func() error) {
		t.Helper()
		before := sent
		if err := step(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if sent-before != want {
			t.Errorf("%s sent %d messages, want %d", what, sent-before, want)
		}
	}

	st := begin()
	do(0, "a write", func() error { return st.Put(first, []byte("one")) })
	do(0, "another", func() error { return st.Put(second, []byte("two")) })
	do(1, "a read of what was written", func() error {
		v, err := st.Get(first)
		if string(v) != "one" {
			t.Errorf("it has read %q", v)
		}
		return err
	})
	do(0, "a deletion", func() error { return st.Delete(first) })
	do(1, "COMMIT", func() error { return st.Commit(t.Context()) })

	st = begin()
	do(0, "a write", func() error { return st.Put(first, []byte("gone")) })
	do(0, "the rollback of what was not sent", func() error { return st.Rollback(t.Context()) })

	s.Query(t, "postgres", "alter table geobench.rows add constraint small check (length(v) < 10)")
	st = begin()
	do(0, "a write", func() error { return st.Put(first, []byte("longer than ten")) })
	do(0, "a write behind one that will fail", func() error { return st.Put(second, []byte("never")) })
	if f := clients.Classify(st.Commit(t.Context())); f.Reason != "constraint" || !f.RolledBack {
		t.Errorf("COMMIT behind a write that fails: %+v", f)
	}
	do(1, "its rollback", func() error { return st.Rollback(t.Context()) })

	st = begin()
	values, err := st.GetAll([]txn.Key{first, second})
	if err != nil || values[0] != nil || string(values[1]) != "two" {
		t.Errorf("in the end there are %q: %v", values, err)
	}
	if err := st.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}
