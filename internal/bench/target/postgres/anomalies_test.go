package postgres_test

import (
	"testing"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

var (
	checking, savings = txn.IntKey(1, 1), txn.IntKey(2, 1)
	names             = map[txn.Key]string{checking: "checking(1)", savings: "savings(1)"}
)

// scripted opens a database for two regions. The clients of the second region connect through a proxy.
func scripted(t *testing.T, s *postgrestest.Server, level, place string) (*targettest.Script, *postgrestest.Proxy) {
	t.Helper()
	proxy := postgrestest.NewProxy(t, s.Address)
	p := targettest.Plan(t, "postgres", "{smallbank: {customers: 100}}", isolation.ReadCommitted)
	to, o := server(s, "postgres", p.Topology.Regions...), options(level)
	to.Endpoints[1].Address, o.Place = proxy.Address, place
	db, err := postgres.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	return targettest.NewScript(t, p, db, names), proxy
}

// Two scripted histories, each with only the transactions of one anomaly. READ COMMITTED permits a lost update: two
// deposits to the same account. REPEATABLE READ permits write skew: two withdrawals, each of which reads the account
// that the other one writes. The next stronger level prevents each anomaly.
func TestAnomaliesOfLevels(t *testing.T) {
	s := postgrestest.Start(t)
	for _, tc := range []struct {
		place, level string
		first, other txn.Key // rows that the two clients write
		promised     isolation.Level
		ruledOut     isolation.Level
		want         string
	}{
		{"geobench", postgres.ReadCommitted, checking, checking, isolation.ReadCommitted, isolation.SnapshotIsolation, `lost-update: two transactions read the same version and replaced it, so one of them never happened.
  T1 is 2.1: client 2 in west, sent at 4ms, committed at 10ms
  T2 is 1.1: client 1 in east, sent at 1ms, committed at 8ms
T2 and T1 both read and overwrote the initial version of checking(1).`},
		{"geobench_a", postgres.RepeatableRead, checking, savings, isolation.SnapshotIsolation, isolation.Serializable, `G2-item (write skew): no order of these 2 transactions explains what they saw.
  T1 is 1.1: client 1 in east, sent at 1ms, committed at 8ms
  T2 is 2.1: client 2 in west, sent at 4ms, committed at 10ms
T1 comes before T2, because T1 read savings(1) before T2 wrote it (it saw the initial version).
T2 comes before T1, because T2 read checking(1) before T1 wrote it (it saw the initial version): a contradiction.`},
		{"geobench_b", postgres.RepeatableRead, checking, checking, isolation.SnapshotIsolation, isolation.SnapshotIsolation, ""},
		{"geobench_c", postgres.Serializable, checking, savings, isolation.Serializable, isolation.Serializable, ""},
	} {
		t.Run(tc.level+" "+names[tc.other], func(t *testing.T) {
			x, _ := scripted(t, s, tc.level, tc.place)
			one, two := x.Client(0, "east"), x.Client(1, "west")
			for _, c := range []*targettest.ScriptClient{one, two} {
				c.Begin()
				c.Read(checking)
				c.Read(savings)
			}
			one.Write(tc.first)
			committed := one.Commit()
			committed = two.Write(tc.other) && two.Commit() && committed
			if got := x.Explain(tc.ruledOut); got != tc.want || committed != (tc.want != "") {
				t.Errorf("both committed: %v\n%s\nnot\n%s", committed, got, tc.want)
			}
			if why := x.Explain(tc.promised); why != "" {
				t.Errorf("what the level promises: %s", why)
			}
		})
	}
}

// A region reads stale rows if its endpoint switches to a standby, as a load balancer may do.
func TestStandbyIsStale(t *testing.T) {
	s := postgrestest.Start(t)
	standby := s.Standby(t)
	x, proxy := scripted(t, s, postgres.RepeatableRead, "geobench")
	one := x.Client(0, "east")
	s.AwaitStandby(t, standby)
	standby.Query(t, "postgres", "select pg_wal_replay_pause()")
	one.Begin()
	one.Read(checking)
	one.Write(checking)
	one.Commit()
	proxy.Lead(standby.Address)
	two := x.Client(1, "west")
	two.Begin()
	two.Read(checking)
	two.Commit()
	const want = `G-single-item-realtime: no snapshots of these 2 transactions explain what they saw.
  T1 is 2.1: client 2 in west, sent at 5ms, committed at 7ms
  T2 is 1.1: client 1 in east, sent at 1ms, committed at 4ms
T1 starts before T2 commits, because T1 read checking(1) before T2 wrote it (it saw the initial version).
T2 commits before T1 starts, because T2 was answered at 4ms, before T1 was sent at 5ms: a contradiction.`
	if got := x.Explain(isolation.StrongSnapshotIsolation); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if why := x.Explain(isolation.SnapshotIsolation); why != "" {
		t.Errorf("a stale read is not all that is wrong: %s", why)
	}
}
