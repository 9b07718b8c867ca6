package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Package manifest tests the rules that a single wrong manifest violates, with the cases of package wrong. The other
// rules are tested here.

type catalog map[string]*protocol.Engine

func (c catalog) Names() []string {
	var names []string
	for n := range c {
		names = append(names, n)
	}
	return names
}

func (c catalog) Lookup(name string) (*protocol.Engine, bool) { e, ok := c[name]; return e, ok }

func database(change func(*v1alpha1.GeoDatabaseSpec)) *v1alpha1.GeoDatabase {
	db := &v1alpha1.GeoDatabase{}
	db.Name = "db"
	db.Spec = v1alpha1.GeoDatabaseSpec{
		Engine:               v1alpha1.Engine{Name: "toy"},
		Regions:              []v1alpha1.Region{{Name: "a"}, {Name: "b"}},
		PartitionsPerRegion:  1,
		ReplicasPerPartition: 1,
		Network: v1alpha1.Network{
			Profile: &v1alpha1.NetworkProfileSpec{Links: []v1alpha1.Link{{From: "b", To: "a", RTT: v1alpha1.DurationOf(time.Millisecond)}}},
		},
	}
	if change != nil {
		change(&db.Spec)
	}
	return db
}

func abilities() check.Abilities {
	return check.Default(catalog{"toy": {Name: "toy", Parameters: []protocol.Parameter{{Name: "fanout", Default: "2", Integer: true, MinInt: 1, MaxInt: 9}}}})
}

func TestDatabase(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.GeoDatabaseSpec)
		want   string // the only problem; empty if there is none
	}{
		"valid, the reverse link is listed": {},
		"one region needs no link":          {change: func(s *v1alpha1.GeoDatabaseSpec) { s.Regions = []v1alpha1.Region{{Name: "elsewhere"}} }},
		"a region whose workers would be the steward": {
			change: func(s *v1alpha1.GeoDatabaseSpec) { s.Regions = []v1alpha1.Region{{Name: "steward"}} },
			want:   "spec.regions[0].name: steward: the workers of a region with this name would be called like the Job that loads and audits",
		},
		"the catalog's engines count": {
			change: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "calvin" },
			want:   "GeoDatabase db: spec.engine.name: engine calvin is not known; known engines are toy",
		},
		"misspelt parameter": {
			change: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"fanuot": "3"} },
			want:   "spec.engine.parameters.fanuot: 3: engine toy has no such parameter; it has fanout (did you mean fanout?)",
		},
		"parameter out of range": {
			change: func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"fanout": "10"} },
			want:   `spec.engine.parameters.fanout: "10" is not a whole number from 1 to 9`,
		},
		"more hosts than a program can be told": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Pods, s.PartitionsPerRegion, s.ReplicasPerPartition = &v1alpha1.Pods{}, 64, 45
			},
			want: "spec.partitionsPerRegion: 64: the list of 5760 hosts that programs find in GEOBENCH_HOSTS has 153315 bytes, and a variable can have 131072: at most some 4924 nodes are possible",
		},
		"as many hosts as a program can be told": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Pods, s.PartitionsPerRegion, s.ReplicasPerPartition = &v1alpha1.Pods{}, 64, 36
			},
		},
		"price of an unknown region": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Network.Profile.Prices = &v1alpha1.Prices{Transfer: []v1alpha1.TransferPrice{{From: "a", To: "c"}}}
			},
			want: "spec.network.profile.prices.transfer[0].to: region c is in no link",
		},
		"a congestion control of connections that we model": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Network.Congestion, s.Network.Emulation = v1alpha1.CongestionCubic, v1alpha1.EmulationBuiltIn
			},
		},
		"a congestion control of the kernel's connections": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Network.Congestion, s.Network.Emulation = v1alpha1.CongestionCubic, v1alpha1.EmulationSidecar
			},
			want: "spec.network.congestion: Cubic: with emulation Sidecar connections have the congestion control of their kernel: leave congestion out, or let emulation BuiltIn",
		},
		"a congestion control of programs": {
			change: func(s *v1alpha1.GeoDatabaseSpec) {
				s.Network.Congestion, s.Pods = v1alpha1.CongestionReno, &v1alpha1.Pods{}
			},
			want: "spec.network.congestion: Reno: with spec.pods connections have the congestion control of their kernel",
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(tc.change)
			ps := check.Database(db, db.Spec.Network.Profile, abilities())
			if tc.want == "" && len(ps) > 0 || tc.want != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.want)) {
				t.Errorf("got %q, want %q", ps.Error(), tc.want)
			}
		})
	}
}

func TestFaultsFollowTheAbilities(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	run.Spec.Load.Duration = v1alpha1.DurationOf(time.Minute)
	run.Spec.Faults = []v1alpha1.Fault{{Name: "kill", PodKill: &v1alpha1.PodKillFault{}}, {Name: "slow", NetworkDelay: &v1alpha1.NetworkDelayFault{}}}
	a := abilities()
	a.Faults, a.Place = []string{"podKill"}, "a test"
	ps := check.Run(run, database(nil), a)
	want := "spec.faults[1].networkDelay: fault slow is a networkDelay, which is not supported by a test (geobench simulate and geobench run can); supported are podKill"
	if len(ps) != 1 || !strings.Contains(ps.Error(), want) {
		t.Errorf("got %q, want %q", ps.Error(), want)
	}
}

// TestFunctionalTests checks that the name of a run with functional tests is short enough for the names of the tests'
// runs. If a test cannot run on the database, the run must have a problem.
func TestFunctionalTests(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	run.Spec.FunctionalTests = []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalSnapshot}
	process, operator := check.Process(nil), check.Default(nil)
	short := check.Default(nil)
	short.Timeline = 15 * time.Second
	for _, tc := range []struct {
		name string
		a    check.Abilities
		want string
	}{
		{"of-twenty-3-characters-", process, ""},
		{"of-twenty-3-characters-", operator, ""},
		{"of-twenty-4-characters--", process, "metadata.name: of-twenty-4-characters-- names the BenchmarkRuns of spec.functionalTests too, with -deadlock and -snapshot behind: make it at most 23 characters"},
		{"r", short, "spec.functionalTests[0]: GlobalSnapshot cannot be played on GeoDatabase db: spec.load.duration: 20s x repetitions 1 is 20s"},
	} {
		run.Name = tc.name
		ps := check.Run(run, database(nil), tc.a)
		if tc.want == "" && len(ps) > 0 || tc.want != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.want)) {
			t.Errorf("%s: got %q, want %q", tc.name, ps.Error(), tc.want)
		}
	}
}

func TestNearest(t *testing.T) {
	fields := []string{"thinkTime", "warmup", "duration", "requestTimeout"}
	for word, want := range map[string]string{
		"thinktime": "thinkTime", "warmUp": "warmup", "duraiton": "duration", "timeout": "", "reqestTimeout": "requestTimeout", "": "", "x": "",
	} {
		got, ok := check.Nearest(word, fields)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %t, want %q", word, got, ok, want)
		}
	}
}

func TestProblemTellsTheValueOnce(t *testing.T) {
	for want, p := range map[string]check.Problem{
		"spec.a: 0s: must be longer than 0s":   {Field: "spec.a", Value: "0s", Message: "must be longer than 0s"},
		"spec.rtt: rtt 0.2s is too long":       {Field: "spec.rtt", Value: "200ms", Message: "rtt 0.2s is too long"},
		"spec.a: region x is unknown":          {Field: "spec.a", Value: "x", Message: "region x is unknown"},
		"f.yaml:3: Run r: spec.a: is required": {Source: "f.yaml:3", Object: "Run r", Field: "spec.a", Message: "is required"},
		"spec.a: 5: at most 3 are possible":    {Field: "spec.a", Value: "5", Message: "at most 3 are possible"},
	} {
		if got := p.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestVerifications checks that all verifications work in all environments, and that the message for an unknown
// verification lists the known ones.
func TestVerifications(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Verify = []v1alpha1.Verification{
		v1alpha1.VerifyInvariants, v1alpha1.VerifySerializable, v1alpha1.VerifyStrictSerializable, v1alpha1.VerifyConvergence,
		v1alpha1.VerifyReadCommitted, v1alpha1.VerifySnapshotIsolation, v1alpha1.VerifySessionSnapshotIsolation,
		v1alpha1.VerifyStrongSnapshotIsolation, v1alpha1.VerifySessionSerializable,
	}
	verify := func(a check.Abilities) (wrong []string) {
		for _, p := range check.Run(run, database(nil), a) {
			if strings.HasPrefix(p.Field, "spec.verify") {
				wrong = append(wrong, p.String())
			}
		}
		return wrong
	}
	if wrong := verify(check.Simulator(nil)); len(wrong) > 0 {
		t.Errorf("simulate and run refuse: %s", wrong)
	}
	if wrong := verify(check.Default(nil)); len(wrong) > 0 {
		t.Errorf("a cluster refuses: %s", wrong)
	}
	less := check.Default(nil)
	less.Verifications = []v1alpha1.Verification{v1alpha1.VerifyInvariants, v1alpha1.VerifyConvergence}
	wrong := verify(less)
	if len(wrong) != 7 || !strings.Contains(wrong[0], "spec.verify[1]") || !strings.Contains(wrong[1], "spec.verify[2]") ||
		!strings.Contains(wrong[1], "choose from Invariants, Convergence") {
		t.Errorf("refused is: %s", wrong)
	}
}

// TestPods checks that a program in any image needs a cluster and separate load generators, but no engine.
func TestPods(t *testing.T) {
	db := database(func(s *v1alpha1.GeoDatabaseSpec) {
		s.Engine.Name = "postgres"
		s.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "localhost/postgres:1", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}}}
	})
	if ps := check.Database(db, db.Spec.Network.Profile, abilities()); len(ps) > 0 {
		t.Errorf("a cluster refuses: %s", ps)
	}
	a := abilities()
	a.Pods = false
	if ps := check.Database(db, db.Spec.Network.Profile, a); len(ps) != 1 || !strings.Contains(ps.Error(), "spec.pods: image localhost/postgres:1 needs a cluster") {
		t.Errorf("without containers: %s", ps)
	}
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	if ps := check.Run(run, db, abilities()); len(ps) != 1 || !strings.Contains(ps.Error(), "spec.databaseRef.name") {
		t.Errorf("a run: %s", ps)
	}
}

// TestPodsClient checks that a program with a supported client protocol is measured like any other database.
func TestPodsClient(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*v1alpha1.GeoDatabaseSpec)
		workers int32
		says    string
	}{
		"as it should be": {},
		"engine":          {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "postgress" }, 1, "spec.engine.name: no client of postgress is built in (did you mean postgres?)"},
		"isolation":       {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"isolation": "Dirty"} }, 1, "spec.engine.parameters.isolation"},
		"parameter":       {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"conections": "9"} }, 1, "did you mean connections"},
		"region":          {func(s *v1alpha1.GeoDatabaseSpec) { s.Pods.Client.Region = "mars" }, 1, "spec.pods.client.region: region mars is not in spec.regions"},
		"workers":         {nil, 17, "spec.load.workersPerRegion: 17 workers share the 16 connections"},
		"SQL":             {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Parameters = map[string]string{"form": "SQL"} }, 1, "spec.workload: rmw: the workload has no SQL of its own, and GeoDatabase db has spec.engine.parameters.form: SQL: leave that out, or take one of smallbank, tpcc"},
		"SQL on mysql": {func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine.Name, s.Pods.Client.Database, s.Engine.Parameters = "mysql", "app", map[string]string{"form": "SQL"}
		}, 1, "spec.workload: rmw: the workload has no SQL of its own, and GeoDatabase db has spec.engine.parameters.form: SQL: leave that out, or take one of smallbank, tpcc"},
		"SQL on etcd": {func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine.Name, s.Engine.Parameters = "etcd", map[string]string{"form": "SQL"}
		}, 1, "spec.engine.parameters.form"},
		"foreign keys on mysql": {func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine.Name, s.Pods.Client.Database, s.Engine.Parameters = "mysql", "app", map[string]string{"foreignKeys": "no"}
		}, 1, `spec.engine.parameters.foreignKeys: "no" is not one of true, false`},
		"mysql":          {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name, s.Pods.Client.Database = "mysql", "app" }, 1, ""},
		"mysql, no name": {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "mysql" }, 1, "spec.pods.client.database: a server of mysql has no database of its own accord: name one"},
		"etcd":           {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "etcd" }, 1, ""},
		"etcd, a name":   {func(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name, s.Pods.Client.Database = "etcd", "app" }, 1, "spec.pods.client.database: app: etcd has no databases: leave it out"},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(func(s *v1alpha1.GeoDatabaseSpec) {
				s.Engine = v1alpha1.Engine{Name: "postgres"}
				s.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "localhost/postgres:1", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}},
					Client: &v1alpha1.PodsClient{SecretRef: v1alpha1.LocalReference{Name: "login"}}}
				s.Pods.Client.Region = s.Regions[0].Name
				if tc.change != nil {
					tc.change(s)
				}
			})
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
			run.Spec.Load.WorkersPerRegion = tc.workers
			ps := append(check.Database(db, db.Spec.Network.Profile, abilities()), check.Run(run, db, abilities())...)
			if tc.says == "" && len(ps) > 0 || tc.says != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.says)) {
				t.Errorf("%d problems: %s\nwant: %s", len(ps), ps, tc.says)
			}
		})
	}
}

// TestCoordinator checks that spec.load.coordinator is accepted only with Geobench's own engines.
func TestCoordinator(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.GeoDatabaseSpec)
		says   string
	}{
		"an engine": {func(*v1alpha1.GeoDatabaseSpec) {}, ""},
		"another program": {func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine = v1alpha1.Engine{Name: "postgres"}
			s.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "localhost/postgres:1", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}},
				Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Region: s.Regions[0].Name}, SecretRef: v1alpha1.LocalReference{Name: "login"}}}
		}, "spec.load.coordinator: RoundRobin: clients choose among the nodes of Geobench's own engines"},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(tc.change)
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
			run.Spec.Load.Coordinator = v1alpha1.CoordinatorRoundRobin
			ps := append(check.Database(db, db.Spec.Network.Profile, abilities()), check.Run(run, db, abilities())...)
			if tc.says == "" && len(ps) > 0 || tc.says != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.says)) {
				t.Errorf("%d problems: %s\nwant: %s", len(ps), ps, tc.says)
			}
		})
	}
}

// TestDependentSQL checks that SmallBank in SQL is refused if some transactions look up their customers themselves.
func TestDependentSQL(t *testing.T) {
	db := database(func(s *v1alpha1.GeoDatabaseSpec) {
		s.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"form": "SQL"}}
		s.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "localhost/postgres:1", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}},
			Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Region: s.Regions[0].Name}, SecretRef: v1alpha1.LocalReference{Name: "login"}}}
	})
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.SmallBank = &v1alpha1.SmallBank{Customers: 1000, Mix: v1alpha1.SmallBankMix{Balance: 100}, DependentPercent: 5}
	if ps := check.Run(run, db, abilities()); len(ps) != 1 || !strings.Contains(ps.Error(), "spec.workload.smallbank.dependentPercent: 5: transactions that are not split") {
		t.Errorf("%d problems: %s", len(ps), ps)
	}
}

// TestPaddingElsewhere checks that padding is refused for databases other than Geobench's own.
func TestPaddingElsewhere(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.SmallBank = &v1alpha1.SmallBank{Customers: 1000, Mix: v1alpha1.SmallBankMix{Balance: 100}, PaddingBytes: 5}
	elsewhere := database(func(s *v1alpha1.GeoDatabaseSpec) {
		s.Engine = v1alpha1.Engine{Name: "postgres"}
		s.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{Image: "localhost/postgres:1", Ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}},
			Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Region: s.Regions[0].Name}, SecretRef: v1alpha1.LocalReference{Name: "login"}}}
	})
	if ps := check.Run(run, elsewhere, abilities()); len(ps) != 1 || !strings.Contains(ps.Error(), "spec.workload.smallbank.paddingBytes: 5: messages of Geobench's own engines alone") {
		t.Errorf("%d problems: %s", len(ps), ps)
	}
	if ps := check.Run(run, database(func(*v1alpha1.GeoDatabaseSpec) {}), abilities()); strings.Contains(ps.Error(), "paddingBytes") {
		t.Errorf("an engine's messages: %s", ps)
	}
}

// TestDeployedOnly checks that a cluster deploys a vendor's database by name, and measures it only if a client is built
// in. Environments without containers refuse it.
func TestDeployedOnly(t *testing.T) {
	named := func(parameters map[string]string) *v1alpha1.GeoDatabase {
		return database(func(s *v1alpha1.GeoDatabaseSpec) {
			s.Engine = v1alpha1.Engine{Name: "cockroachdb", Parameters: parameters}
		})
	}
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
	db := named(map[string]string{"settings.cache": "256MiB"})
	of := func(db *v1alpha1.GeoDatabase, a check.Abilities) check.Problems {
		return check.Database(db, db.Spec.Network.Profile, a)
	}
	of3 := func(engine string) *v1alpha1.GeoDatabase {
		return database(func(s *v1alpha1.GeoDatabaseSpec) { s.Engine = v1alpha1.Engine{Name: engine} })
	}
	for name, tc := range map[string]struct {
		problems check.Problems
		says     string
	}{
		"YugabyteDB":          {of(of3("yugabytedb"), abilities()), ""},
		"TiDB":                {of(of3("tidb"), abilities()), ""},
		"Citus":               {of(of3("citus"), abilities()), ""},
		"OceanBase":           {of(of3("oceanbase"), abilities()), ""},
		"a run on OceanBase":  {check.Run(run, of3("oceanbase"), abilities()), ""},
		"a run on YugabyteDB": {check.Run(run, of3("yugabytedb"), abilities()), ""},
		"a run on TiDB":       {check.Run(run, of3("tidb"), abilities()), ""},
		"a run on Citus":      {check.Run(run, of3("citus"), abilities()), ""},
		"Citus in a process":  {of(of3("citus"), check.Process(nil)), "citus needs a cluster to run in"},
		"as it should be":     {of(db, abilities()), ""},
		"run":                 {check.Run(run, db, abilities()), ""},
		"misspelt":            {of(named(map[string]string{"settings.cahce": "256MiB"}), abilities()), "did you mean settings.cache"},
		"level":               {of(named(map[string]string{"isolation": "RepeatableRead"}), abilities()), "is not one of Serializable, ReadCommitted: CockroachDB runs such transactions at another level"},
		"parameter":           {of(named(map[string]string{"syncWait": "true"}), abilities()), "syncWait is no parameter of CockroachDB and its clients"},
		"without containers":  {of(named(nil), check.Process(nil)), "cockroachdb needs a cluster to run in"},
	} {
		t.Run(name, func(t *testing.T) {
			if ps := tc.problems; tc.says == "" && len(ps) > 0 || tc.says != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.says)) {
				t.Errorf("%d problems: %s\nwant: %s", len(ps), ps, tc.says)
			}
		})
	}
}

// TestRendered checks that a cluster deploys PostgreSQL if a manifest names only the engine, and measures it like a
// PostgreSQL in spec.pods. Environments without containers refuse such a manifest.
func TestRendered(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		workers    int32
		says       string
	}{
		"as it should be": {map[string]string{"synchronous": "Quorum", "isolation": "Serializable", "settings.work_mem": "8MB"}, 1, ""},
		"server":          {map[string]string{"synchronous": "Always"}, 1, `spec.engine.parameters.synchronous: "Always" is not one of Off, Quorum, RemoteApply`},
		"setting":         {map[string]string{"settings.shared_bufers": "1GB"}, 1, "did you mean settings.shared_buffers"},
		"client":          {map[string]string{"isolation": "Dirty"}, 1, "spec.engine.parameters.isolation"},
		"SQL":             {map[string]string{"form": "SQL"}, 1, "spec.workload: rmw: the workload has no SQL of its own"},
		"neither":         {map[string]string{"conections": "9"}, 1, "did you mean connections"},
		"workers":         {nil, 17, "spec.load.workersPerRegion: 17 workers share the 16 connections"},
	} {
		t.Run(name, func(t *testing.T) {
			db := database(func(s *v1alpha1.GeoDatabaseSpec) {
				s.Engine = v1alpha1.Engine{Name: "postgres", Parameters: tc.parameters}
			})
			run := &v1alpha1.BenchmarkRun{}
			run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 1000, RecordsPerTransaction: 2, WritesPerTransaction: 1, ValueBytes: 8}
			run.Spec.Load.WorkersPerRegion = tc.workers
			ps := append(check.Database(db, db.Spec.Network.Profile, abilities()), check.Run(run, db, abilities())...)
			if tc.says == "" && len(ps) > 0 || tc.says != "" && (len(ps) != 1 || !strings.Contains(ps.Error(), tc.says)) {
				t.Errorf("%d problems: %s\nwant: %s", len(ps), ps, tc.says)
			}
			if db.Spec.Pods != nil {
				t.Error("the check has changed the database")
			}
		})
	}
	db := database(func(s *v1alpha1.GeoDatabaseSpec) { s.Engine = v1alpha1.Engine{Name: "postgres"} })
	if ps := check.Database(db, db.Spec.Network.Profile, check.Process(nil)); len(ps) != 1 || !strings.Contains(ps.Error(), "spec.external") {
		t.Errorf("without containers: %s", ps)
	}
}
