package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/etcd"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// server returns the location of a cluster, with an endpoint for each region. The endpoints use the members in turn.
func server(members []*etcdtest.Member, regions ...string) (to sqltarget.Server) {
	for i, r := range regions {
		to.Endpoints = append(to.Endpoints, sqltarget.Endpoint{Region: r, Address: members[i%len(members)].Address})
	}
	return to
}

func options(reads string) etcd.Options {
	return etcd.Options{Options: sqltarget.Options{Isolation: reads, Connections: 8, TLS: "disable", Place: "geobench"}, MaxTxnOps: etcd.DefaultMaxTxnOps, Leader: -1}
}

// etcd satisfies the contract of a target. Histories are strictly serializable with linearizable reads, and
// serializable with serializable reads. Every transaction of TPC-C fits into a request.
func TestConform(t *testing.T) {
	members := etcdtest.Start(t, 1)
	open := func(o etcd.Options) func(t *testing.T, p *plan.Plan) target.Database {
		return func(t *testing.T, p *plan.Plan) target.Database {
			o.Drop = true
			db, err := etcd.Open(t.Context(), &p.Topology, server(members, p.Topology.Regions...), o, sqltarget.Session())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return db
		}
	}
	t.Run("Linearizable", func(t *testing.T) {
		targettest.Conform(t, "etcd", isolation.StrictSerializable, open(options(etcd.Linearizable)))
	})
	t.Run("Serializable", func(t *testing.T) {
		p := targettest.Plan(t, "etcd", "{smallbank: {customers: 200}}", isolation.Serializable)
		o := options(etcd.Serializable)
		o.Interactive = true
		if err := targettest.Statements(t.Context(), p, open(o)(t, p)); err != nil {
			t.Error(err)
		}
	})
	if left := members[0].Keys(t, ""); len(left) > 0 {
		t.Errorf("the keys %q are left", left)
	}
}

func TestClassify(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want target.Failure
	}{
		"compacted":         {rpctypes.ErrCompacted, target.Failure{Cause: txn.CauseConflict, Reason: "snapshot-compacted", RolledBack: true}},
		"out of space":      {rpctypes.ErrNoSpace, target.Failure{Cause: txn.CauseNode, Reason: "out-of-resources"}},
		"not queued":        {rpctypes.ErrTooManyRequests, target.Failure{Cause: txn.CauseNode, Reason: "out-of-resources", RolledBack: true}},
		"too many":          {rpctypes.ErrTooManyOps, target.Failure{Cause: txn.CauseNode, Reason: "too-large", RolledBack: true}},
		"denied":            {rpctypes.ErrPermissionDenied, target.Failure{Cause: txn.CauseNode, Reason: "denied", RolledBack: true}},
		"corrupt":           {rpctypes.ErrCorrupt, target.Failure{Cause: txn.CauseNode, Reason: "corrupt", RolledBack: true}},
		"timed out":         {rpctypes.ErrTimeout, target.Failure{Cause: txn.CauseNode, Reason: "timeout"}},
		"leader is lost":    {rpctypes.ErrTimeoutDueToLeaderFail, target.Failure{Cause: txn.CauseNode, Reason: "timeout"}},
		"stopped":           {rpctypes.ErrStopped, target.Failure{Cause: txn.CauseNode, Reason: "shutdown", Broken: true}},
		"connection":        {status.Error(codes.Unavailable, "error reading from server: EOF"), target.Failure{Cause: txn.CauseNode, Reason: "connection-lost", Broken: true}},
		"the context ended": {fmt.Errorf("commit: %w", context.Canceled), target.Failure{Cause: txn.CauseNode, Reason: "canceled"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := etcd.Classify(tc.err); got != tc.want {
				t.Errorf("%+v, not %+v", got, tc.want)
			}
		})
	}
}

// refuses checks that opening a database fails with an error for field that contains want.
func refuses(t *testing.T, to sqltarget.Server, o etcd.Options, field, want string) {
	t.Helper()
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	db, err := etcd.Open(t.Context(), &topology, to, o, sqltarget.Session())
	if err == nil {
		_ = db.Close()
	}
	var wrong *target.FieldError
	if !errors.As(err, &wrong) || wrong.Field != field || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nnot %s: ... %s", err, field, want)
	}
	if err != nil && to.Password != "" && strings.Contains(err.Error(), to.Password) {
		t.Errorf("the password is in the message: %v", err)
	}
}

// Errors in the location of a database name the field, its value and a remedy. A refused Open leaves no data in the
// database.
func TestOpenRefuses(t *testing.T) {
	one, two := etcdtest.Start(t, 1), etcdtest.Start(t, 1)
	client := one[0].Client(t, "", "")
	if _, err := client.Put(t.Context(), "geobench_b/mine", "x"); err != nil {
		t.Fatal(err)
	}
	nobody := postgrestest.FreeAddresses(t, 1)[0]
	for name, tc := range map[string]struct {
		change func(*sqltarget.Server, *etcd.Options)
		field  string
		want   string
	}{
		"a database":      {func(s *sqltarget.Server, _ *etcd.Options) { s.Database = "app" }, "spec.external.database", "etcd has no databases: leave it out"},
		"no password":     {func(s *sqltarget.Server, _ *etcd.Options) { s.User = "bench" }, "spec.external.secretRef", "there is no password for user bench"},
		"nobody listens":  {func(s *sqltarget.Server, _ *etcd.Options) { s.Endpoints[1].Address = nobody }, "spec.external.endpoints[1].address", "listen-client-urls"},
		"no such host":    {func(s *sqltarget.Server, _ *etcd.Options) { s.Endpoints[0].Address = "no-such-host.invalid:2379" }, "spec.external.endpoints[0].address", "there is no host of this name"},
		"no TLS":          {func(_ *sqltarget.Server, o *etcd.Options) { o.TLS = "require" }, "spec.engine.parameters.tls", "takes no encrypted connections"},
		"too many ops":    {func(_ *sqltarget.Server, o *etcd.Options) { o.MaxTxnOps = 200 }, "spec.engine.parameters.maxTxnOps", "takes fewer in a request"},
		"somebody's keys": {func(_ *sqltarget.Server, o *etcd.Options) { o.Place = "geobench_b" }, "spec.engine.parameters.prefix", `the key "geobench_b/mine" below it is not Geobench's`},
		"two clusters":    {func(s *sqltarget.Server, _ *etcd.Options) { s.Endpoints[1].Address = two[0].Address }, "spec.external.endpoints[1].address", "is not the one of this run"},
	} {
		t.Run(name, func(t *testing.T) {
			to, o := server(one, "east", "west"), options(etcd.Linearizable)
			tc.change(&to, &o)
			refuses(t, to, o, tc.field, tc.want)
		})
	}
	t.Run("out of space", func(t *testing.T) {
		alarm := &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_ACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE}
		if _, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(t.Context(), alarm); err != nil {
			t.Fatal(err)
		}
		refuses(t, server(one, "east", "west"), options(etcd.Linearizable), "spec.external.endpoints[0].address", "etcdctl alarm disarm")
	})
	t.Run("users", func(t *testing.T) {
		admin := two[0].Client(t, "", "")
		for _, u := range []string{"root", "bench", "weak"} {
			if _, err := admin.UserAdd(t.Context(), u, "correct-horse"); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = admin.RoleAdd(t.Context(), "root")
		_, _ = admin.RoleAdd(t.Context(), "bench")
		_, _ = admin.RoleGrantPermission(t.Context(), "bench", "geobench/", clientv3.GetPrefixRangeEnd("geobench/"), clientv3.PermissionType(clientv3.PermReadWrite))
		_, _ = admin.UserGrantRole(t.Context(), "root", "root")
		_, _ = admin.UserGrantRole(t.Context(), "bench", "bench")
		if _, err := admin.AuthEnable(t.Context()); err != nil {
			t.Fatal(err)
		}
		to, o := server(two, "east", "west"), options(etcd.Linearizable)
		refuses(t, to, o, "spec.external.secretRef", "asks who its users are")
		to.User, to.Password = "bench", "wrong-horse"
		refuses(t, to, o, "spec.external.secretRef", "does not let user bench in with this password")
		to.User, to.Password = "weak", "correct-horse"
		refuses(t, to, o, "spec.external.secretRef", "etcdctl role grant-permission ROLE --prefix=true readwrite geobench/")
		to.User = "bench"
		topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
		o.Drop = true
		db, err := etcd.Open(t.Context(), &topology, to, o, sqltarget.Session())
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, key := range one[0].Keys(t, "") {
		if key != "geobench_b/mine" {
			t.Errorf("the key %q is left", key)
		}
	}
}

// The member of the configured region becomes the leader. If a region is configured and no endpoint leads to the
// current leader, Open returns an error.
func TestLeaderIsWhereItIsAskedFor(t *testing.T) {
	members := etcdtest.Start(t, 3)
	p := targettest.Plan(t, "etcd", "{smallbank: {customers: 100}}", isolation.StrictSerializable)
	open := func(leader int, members ...*etcdtest.Member) (sqltarget.Database, error) {
		o := options(etcd.Linearizable)
		o.Leader = leader
		return etcd.Open(t.Context(), &p.Topology, server(members, p.Topology.Regions...), o, sqltarget.Session())
	}
	members[0].Lead(t)
	for leader, region := range map[int]string{0: "east", 1: "west", -1: ""} {
		db, err := open(leader, members[0], members[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := db.Describe().Leader; got != region && region != "" || got == "" {
			t.Errorf("asked for %d: led from %q, not %q", leader, got, region)
		}
		if a, err := db.Activity(t.Context()); err != nil || a.Leader != db.Describe().Leader || a.Elections != 0 {
			t.Errorf("asked for %d: %d elections since, and led from %q now: %v", leader, a.Elections, a.Leader, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	members[2].Lead(t)
	var wrong *target.FieldError
	if _, err := open(0, members[0], members[1]); !errors.As(err, &wrong) || wrong.Value != "0" || !strings.Contains(err.Error(), "no endpoint leads to") {
		t.Errorf("the leader is behind no endpoint: %v", err)
	}
	db, err := open(-1, members[0], members[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := db.Describe().Leader; got != "" {
		t.Errorf("led from %q, where no endpoint leads", got)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Elections during a run are counted, even if they re-elect the old leader. The region of the new leader is reported if
// an endpoint leads to this member.
func TestElectionsAreNoticed(t *testing.T) {
	members := etcdtest.Start(t, 3)
	p := targettest.Plan(t, "etcd", "{smallbank: {customers: 100}}", isolation.StrictSerializable)
	members[0].Lead(t)
	db, err := etcd.Open(t.Context(), &p.Topology, server(members[:2], p.Topology.Regions...), options(etcd.Linearizable), sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		to     int
		region string
	}{{1, "west"}, {2, ""}, {0, "east"}} {
		members[step.to].Lead(t)
		// The first member learns of the election a little later.
		var a target.Activity
		for deadline := time.Now().Add(10 * time.Second); a.Elections < int64(i+1) && time.Now().Before(deadline); {
			if a, err = db.Activity(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if a.Leader != step.region || a.Elections < int64(i+1) {
			t.Errorf("after member %d was made the leader: %d elections, led from %q", step.to, a.Elections, a.Leader)
		}
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// Two runs cannot use the same prefix at the same time, because each would replace the rows of the other. The keys are
// deleted after a run if so configured.
func TestPrefixHasOneRun(t *testing.T) {
	members := etcdtest.Start(t, 1)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	o := options(etcd.Linearizable)
	o.Drop = true
	db, err := etcd.Open(t.Context(), &topology, server(members, "east"), o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	var wrong *target.FieldError
	if _, err := etcd.Open(t.Context(), &topology, server(members, "east"), o, sqltarget.Session()); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "another run uses this prefix") {
		t.Errorf("%v", err)
	}
	if d := db.Describe(); !strings.HasPrefix(d.Server, "etcd 3.") || d.Isolation != "optimistic, linearizable reads" || d.Endpoints[0].RTTMicroseconds <= 0 {
		t.Errorf("%+v", d)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if left := members[0].Keys(t, ""); len(left) > 0 {
		t.Errorf("the keys %q are left", left)
	}
}

// A workload whose rows or transactions do not fit into a request is refused before anything is loaded.
func TestLoadRefusesWhatDoesNotFit(t *testing.T) {
	members := etcdtest.Start(t, 1)
	for name, tc := range map[string]struct{ workload, field, want string }{
		"too many rows":  {"{rmw: {records: 400, recordsPerTransaction: 200, writesPerTransaction: 2, valueBytes: 16}}", "spec.workload.rmw", "reads 200 rows and writes, and etcd compares at most 128"},
		"too many bytes": {"{rmw: {records: 400, recordsPerTransaction: 60, writesPerTransaction: 60, valueBytes: 40000}}", "spec.workload.rmw", "etcd takes requests of 1.5 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			p := targettest.Plan(t, "etcd", tc.workload, isolation.StrictSerializable)
			o := options(etcd.Linearizable)
			o.Drop = true
			db, err := etcd.Open(t.Context(), &p.Topology, server(members, p.Topology.Regions...), o, sqltarget.Session())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close() //nolint:errcheck // the test checks the keys instead
			var wrong *target.FieldError
			if err := db.Load(t.Context(), target.Dataset{Name: "x", Workload: p.Workload}); !errors.As(err, &wrong) || wrong.Field != tc.field || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v", err)
			}
			if rows := members[0].Keys(t, "geobench/rows/"); len(rows) > 0 {
				t.Errorf("%d rows were loaded", len(rows))
			}
		})
	}
}

// With TLS, the server's certificate is verified as the mode requires.
func TestTLS(t *testing.T) {
	m, ca := etcdtest.StartTLS(t)
	topology := geo.Topology{Regions: []string{"east"}, Partitions: 1, Replicas: 1}
	open := func(mode, ca string) error {
		to, o := server([]*etcdtest.Member{m}, "east"), options(etcd.Linearizable)
		o.TLS, to.CAFile = mode, ca
		db, err := etcd.Open(t.Context(), &topology, to, o, sqltarget.Session())
		if err != nil {
			return err
		}
		return db.Close()
	}
	for mode, ca := range map[string]string{"require": "", "verify-ca": ca, "verify-full": ca} {
		if err := open(mode, ca); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for mode, want := range map[string]string{"verify-full": "is not to be trusted", "disable": "takes encrypted connections only"} {
		var wrong *target.FieldError
		if err := open(mode, ""); !errors.As(err, &wrong) || wrong.Field != "spec.engine.parameters.tls" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// ofHTTP2 reports whether the data contains an answer in HTTP/2 frames. Before it answers, a server may already send
// frames for flow control or to measure the connection (RFC 9113, section 6).
func ofHTTP2(sent []byte) bool {
	const header, data, headers = 9, 0, 1
	for len(sent) >= header {
		if kind := sent[3]; kind == data || kind == headers {
			return true
		}
		sent = sent[min(len(sent), header+int(sent[0])<<16+int(sent[1])<<8+int(sent[2])):]
	}
	return false
}

// A commit whose connection is cut has an unknown outcome, and is not sent again.
func TestCommitIsCut(t *testing.T) {
	members := etcdtest.Start(t, 1)
	proxy := postgrestest.NewProxy(t, members[0].Address)
	p := targettest.Plan(t, "etcd", "{smallbank: {customers: 200}}", isolation.StrictSerializable)
	to, o := server(members, p.Topology.Regions...), options(etcd.Linearizable)
	o.Connections, o.Interactive = 1, true
	for i := range to.Endpoints {
		to.Endpoints[i].Address = proxy.Address
	}
	db, err := etcd.Open(t.Context(), &p.Topology, to, o, sqltarget.Session())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // the server stops with the test
	proxy.Answers(ofHTTP2)
	// A transaction that only writes sends a single request, and no other request names a row.
	targettest.CutAtCommit(t, p, db, func(served bool) { proxy.CutOnce("geobench/rows/", served) })
}
