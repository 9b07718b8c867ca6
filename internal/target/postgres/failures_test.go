package postgres_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/target"
	"github.com/geobench/geobench/internal/target/postgres"
	"github.com/geobench/geobench/internal/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/target/sqltarget"
	"github.com/geobench/geobench/internal/target/targettest"
	"github.com/geobench/geobench/internal/txn"
)

// through opens a database behind a proxy, with one connection for each region.
func through(t *testing.T, s *postgrestest.Server, proxy *postgrestest.Proxy, place string) (*plan.Plan, sqltarget.Database) {
	t.Helper()
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 200}}", isolation.Serializable)
	to := server(s, "postgres", p.Topology.Regions...)
	for i := range to.Endpoints {
		to.Endpoints[i].Address = proxy.Address
	}
	o := options(postgres.Serializable)
	o.Connections, o.Place = 1, place
	db, err := postgres.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // the server may be gone
	return p, db
}

// A server that hangs while rows are loaded, or while clients connect, is given up, with a message that says so.
func TestHangsAreGivenUp(t *testing.T) {
	const longest = sqltarget.Silence + sqltarget.Silence/3 + 5*time.Second
	s := postgrestest.Start(t)
	var all sync.WaitGroup
	for place, tc := range map[string]struct {
		// word is in what is sent when the server hangs.
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
		p, db := through(t, s, proxy, place)
		proxy.Judge(func(sent []byte) postgrestest.Fate {
			if bytes.Contains(sent, []byte(tc.word)) {
				proxy.Freeze()
			}
			return postgrestest.Delivered
		})
		all.Go(func() { // at the same time: they wait
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

// load loads a small bank.
func load(ctx context.Context, p *plan.Plan, db sqltarget.Database) error {
	return db.Load(ctx, target.Dataset{Name: "bank", Workload: p.Workload, Seed: p.Seed()})
}

// Nobody is told how a commit has ended whose connection was cut.
func TestCommitIsCut(t *testing.T) {
	s := postgrestest.Start(t)
	proxy := postgrestest.NewProxy(t, s.Address)
	p, db := through(t, s, proxy, "geobench")
	targettest.CutAtCommit(t, p, db, func(served bool) { proxy.CutOnce("geobench_commit", served) })
}
