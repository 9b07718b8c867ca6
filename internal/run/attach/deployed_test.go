package attach_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/dataagent"
	loads "github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/etcd/etcdtest"
	"github.com/geobench/geobench/internal/bench/target/mysql/mysqltest"
	"github.com/geobench/geobench/internal/bench/target/postgres/postgrestest"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/run/attach"
)

// another changes the description d to a database of another engine, with endpoints east and west in its two regions.
func another(d *deploy.Database, engine, database string, east, west string) *deploy.Database {
	d.Engine, d.Client.Database = engine, database
	d.Client.Endpoints[0].Address, d.Client.Endpoints[1].Address = east, west
	return d
}

// deployed returns the description of a database in pods, in the form in which its workers and steward receive it.
// Clients of both regions connect to the primary, which is in the first region.
func deployed(address string) *deploy.Database {
	return &deploy.Database{
		Name: "pg", Engine: "postgres", Parameters: map[string]string{"tls": "disable", "connections": "5"},
		Topology: geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{{{}, {}}, {{}, {}}}},
		Client: &deploy.Client{Database: "postgres", Secret: "login", Deployed: true, Steward: "east",
			Endpoints: []deploy.Endpoint{{Region: "east", Address: address}, {Region: "west", Address: address}}},
	}
}

// A steward loads the data, four workers in two regions play the run, and the steward's audit agrees with the workers'
// reports. The databases are PostgreSQL, MariaDB, and etcd with a member in each region.
func TestStewardAndWorkers(t *testing.T) {
	t.Run("postgres", func(t *testing.T) {
		s := postgrestest.Start(t)
		stewardAndWorkers(t, deployed(s.Address), filepath.Join(secrets(t), "pg"))
		s.AwaitNoSessions(t, application)
	})
	t.Run("mysql", func(t *testing.T) {
		s := mysqltest.Start(t)
		stewardAndWorkers(t, another(deployed(""), "mysql", mysqltest.Database, s.Address, s.Address), login(t, mysqltest.User, mysqltest.Password))
		s.AwaitNoSessions(t)
	})
	t.Run("etcd", func(t *testing.T) {
		m := etcdtest.Start(t, 3)
		// This etcd accepts every login, because it does not authenticate clients.
		stewardAndWorkers(t, another(deployed(""), "etcd", "", m[0].Address, m[1].Address), login(t, "anybody", "any-password"))
	})
}

// login creates a folder with the keys of a Secret that contains a login.
func login(t *testing.T, user, password string) string {
	t.Helper()
	folder := t.TempDir()
	for key, value := range map[string]string{"username": user, "password": password} {
		if err := os.WriteFile(filepath.Join(folder, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// application is the application name of the tests' database sessions.
const application = "geobench-test"

func stewardAndWorkers(t *testing.T, d *deploy.Database, folder string) {
	const workers = 2
	spec := json.RawMessage(`{"smallbank":{"customers":200,"mix":{"balance":40,"writeCheck":25,"depositChecking":15,"transactSavings":15,"amalgamate":5}}}`)
	of := &dataagent.Agent{Topology: &d.Topology, Open: func(ctx context.Context) (dataagent.Database, error) {
		return attach.Open(ctx, d, folder, application)
	}}
	defer func() {
		if err := of.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, _, err := attach.Join(t.Context(), d, folder, application, 0, 0, workers); err == nil || !strings.Contains(err.Error(), "is not the one of this run") {
		t.Errorf("a worker joined what nobody has opened: %v", err)
	}
	if _, err := of.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: spec, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	w, err := catalog.Parse(spec, 1, &d.Topology)
	if err != nil {
		t.Fatal(err)
	}
	l := v1alpha1.Load{ClientsPerRegion: 6, WorkersPerRegion: workers, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
		Duration: v1alpha1.DurationOf(300 * time.Millisecond), RequestTimeout: v1alpha1.DurationOf(5 * time.Second)}
	reports := make([]*result.Report, 2*workers)
	players := make([]*loads.Worker, len(reports))
	connections := 0
	for i := range reports {
		region, index := geo.Region(i/workers), i%workers
		to, took, err := attach.Join(t.Context(), d, folder, application, region, index, workers)
		if err != nil {
			t.Fatal(err)
		}
		if took <= 0 || took > time.Second {
			t.Errorf("a round trip to the database takes %v", took)
		}
		connections += to.(interface{ PoolSize() int }).PoolSize()
		player, err := loads.NewWorker(loads.WorkerConfig{Workload: w, Topology: &d.Topology, Region: region, Index: index, Workers: workers, Load: l, Seed: 1, Shards: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := player.Connect(t.Context(), to); err != nil {
			t.Fatal(err)
		}
		players[i] = player
	}
	var group errgroup.Group
	start := time.Now().Add(time.Second)
	for i, player := range players {
		group.Go(func() (err error) {
			reports[i], err = player.Run(t.Context(), start)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if connections != 2*5 {
		t.Errorf("the workers of two regions have %d connections, not 10", connections)
	}
	for deadline := time.Now().Add(10 * time.Second); ; {
		st, err := of.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if st.Pending == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d are pending", st.Pending)
		}
	}
	a, err := of.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layout := d.Topology.Whole(0)
	checks := audit.Verify(&layout, w, audit.Audits{Nodes: [][]store.ShardSums{a.Shards}}, result.MergeLedgers(reports), []v1alpha1.Verification{v1alpha1.VerifyInvariants})
	if len(checks) == 0 {
		t.Error("nothing was checked")
	}
	for _, c := range checks {
		if !c.Passed {
			t.Errorf("%s: %s", c.Name, c.Message)
		}
	}
}

// If a steward fails, the error names the wrong field, its value and a correction, but never the password. The steward
// leaves no objects in the database.
func TestStewardRefusesDatabases(t *testing.T) {
	s := postgrestest.Start(t)
	nobody := postgrestest.FreeAddresses(t, 1)[0]
	for name, tc := range map[string]struct {
		change func(d *deploy.Database, folder string)
		says   []string
	}{
		"no Secret":   {func(_ *deploy.Database, folder string) { _ = os.RemoveAll(folder) }, []string{"spec.pods.client.secretRef.name: login: ", "no key username", "kubectl create secret generic login"}},
		"no password": {func(_ *deploy.Database, folder string) { _ = os.Remove(filepath.Join(folder, "password")) }, []string{"spec.pods.client.secretRef.name: login: ", "no key password"}},
		"wrong password": {func(_ *deploy.Database, folder string) {
			_ = os.WriteFile(filepath.Join(folder, "password"), []byte("hush-hush"), 0o600)
		}, []string{"spec.pods.client.secretRef: ", "28P01"}},
		"no database":    {func(d *deploy.Database, _ string) { d.Client.Database = "nope" }, []string{"spec.pods.client.database: nope: ", "createdb nope"}},
		"nobody listens": {func(d *deploy.Database, _ string) { d.Client.Endpoints[1].Address = nobody }, []string{"spec.pods.client.region: " + nobody, "see that the server runs"}},
		"TLS":            {func(d *deploy.Database, _ string) { d.Parameters["tls"] = "require" }, []string{"spec.engine.parameters.tls: require: ", "use tls: disable"}},
		"connections":    {func(d *deploy.Database, _ string) { d.Parameters["connections"] = "4000" }, []string{"spec.engine.parameters.connections: 4000: ", "raise its max_connections"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, folder := deployed(s.Address), filepath.Join(secrets(t), "pg")
			tc.change(d, folder)
			of := &dataagent.Agent{Topology: &d.Topology, Open: func(ctx context.Context) (dataagent.Database, error) {
				return attach.Open(ctx, d, folder, "geobench-bad")
			}}
			_, err := of.Load(t.Context(), &admin.LoadRequest{Dataset: "d", Workload: json.RawMessage(`{"smallbank":{"customers":200,"mix":{"balance":40,"writeCheck":25,"depositChecking":15,"transactSavings":15,"amalgamate":5}}}`), Seed: 1})
			var bad *admin.BadRequest
			if !errors.As(err, &bad) {
				t.Fatalf("%v is no refusal", err)
			}
			for _, want := range tc.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "hush-hush") || strings.Contains(err.Error(), postgrestest.Password) && postgrestest.Password != "" {
				t.Errorf("the password is in %v", err)
			}
		})
	}
	if left := s.Query(t, "postgres", "select nspname from pg_namespace where nspname like 'geobench%'"); len(left) > 0 {
		t.Errorf("the schemas %v are left", left)
	}
	s.AwaitNoSessions(t, "geobench-bad")
}

// A name that resolves to the worker's own pod is rejected when the worker connects, because this cannot be detected
// earlier.
func TestNamesThatLeadBackAreRefused(t *testing.T) {
	d := deployed("localhost:5432")
	d.Client.Deployed = false
	for what, err := range map[string]error{
		"steward": second(attach.Open(t.Context(), d, t.TempDir(), sqltarget.Session())),
		"worker":  third(attach.Join(t.Context(), d, t.TempDir(), sqltarget.Session(), 0, 0, 1)),
	} {
		var wrong *target.FieldError
		if !errors.As(err, &wrong) || wrong.Field != "spec.external.endpoints[0].address" || wrong.Value != "localhost:5432" || !strings.Contains(err.Error(), "its own pod or machine") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }
