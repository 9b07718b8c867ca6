package etcd_test

import (
	"testing"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/etcd"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// Members report their configuration, and their start time.
func TestState(t *testing.T) {
	members := etcdtest.Start(t, 1, "--unsafe-no-fsync", "--heartbeat-interval=90")
	p := targettest.Plan(t, "etcd", "{smallbank: {customers: 100}}", isolation.StrictSerializable)
	db, err := etcd.Open(t.Context(), &p.Topology, server(members, p.Topology.Regions...), options(etcd.Linearizable), sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the members stop with the test
	servers, err := target.StateOf(t.Context(), db)
	if err != nil || len(servers) != 1 {
		t.Fatal(servers, err)
	}
	s := servers[0]
	if s.Started == nil || s.Settings["unsafe-no-fsync"].Value != "true" || s.Settings["heartbeat-interval"].Value != "90" || s.Settings["version"].Value == "" || s.Settings["quota-backend-bytes in force"].Value == "" {
		t.Errorf("%+v", s)
	}
}
