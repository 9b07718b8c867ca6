package etcd_test

import (
	"testing"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target/etcd"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// A member that is partitioned from the other members still answers serializable reads, and returns stale rows.
func TestSerializableReadsAreStale(t *testing.T) {
	members := etcdtest.StartApart(t, 3)
	members[0].Lead(t)
	checking := txn.IntKey(1, 1)
	p := targettest.Plan(t, "etcd", "{smallbank: {customers: 100}}", isolation.Serializable)
	o := options(etcd.Serializable)
	o.Interactive = true
	to := server([]*etcdtest.Member{members[0], members[2]}, p.Topology.Regions...)
	db, err := etcd.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	x := targettest.NewScript(t, p, db, map[txn.Key]string{checking: "checking(1)"})
	one, two := x.Client(0, "east"), x.Client(1, "west")
	members[2].Isolate(t)
	one.Begin()
	one.Read(checking)
	one.Write(checking)
	one.Commit()
	two.Begin()
	two.Read(checking)
	two.Commit()
	const want = `G-single-item-realtime: no order of these 2 transactions explains what they saw.
  T1 is 2.1: client 2 in west, sent at 5ms, committed at 7ms
  T2 is 1.1: client 1 in east, sent at 1ms, committed at 4ms
T1 comes before T2, because T1 read checking(1) before T2 wrote it (it saw the initial version).
T2 comes before T1, because T2 was answered at 4ms, before T1 was sent at 5ms: a contradiction.`
	if got := x.Explain(isolation.StrictSerializable); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if why := x.Explain(isolation.Serializable); why != "" {
		t.Errorf("a stale read is not all that is wrong: %s", why)
	}
}
