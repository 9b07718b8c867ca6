package worldtest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
)

// DatabaseBuilder builds GeoDatabases for tests. By default, they have two regions that are 100 ms apart.
type DatabaseBuilder struct{ v1alpha1.GeoDatabase }

func MakeDatabase(name string) *DatabaseBuilder {
	return &DatabaseBuilder{v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Engine:               v1alpha1.Engine{Name: "calvin"},
			Regions:              []v1alpha1.Region{{Name: "us-west-2"}, {Name: "ap-northeast-1"}},
			PartitionsPerRegion:  1,
			ReplicasPerPartition: 1,
			Placement:            v1alpha1.PlacementPreferred,
			Network: v1alpha1.Network{
				Emulation: v1alpha1.EmulationAuto,
				Profile: &v1alpha1.NetworkProfileSpec{Links: []v1alpha1.Link{{
					From: "us-west-2", To: "ap-northeast-1", RTT: v1alpha1.DurationOf(100 * time.Millisecond),
				}}},
			},
		},
	}}
}

func (b *DatabaseBuilder) In(namespace string) *DatabaseBuilder { b.Namespace = namespace; return b }

func (b *DatabaseBuilder) Partitions(n int32) *DatabaseBuilder {
	b.Spec.PartitionsPerRegion = n
	return b
}

func (b *DatabaseBuilder) Replicas(n int32) *DatabaseBuilder {
	b.Spec.ReplicasPerPartition = n
	return b
}

func (b *DatabaseBuilder) Parameter(name, value string) *DatabaseBuilder {
	b.Spec.Engine.Parameters = map[string]string{name: value}
	return b
}

func (b *DatabaseBuilder) Emulation(e v1alpha1.Emulation) *DatabaseBuilder {
	b.Spec.Network.Emulation = e
	return b
}

func (b *DatabaseBuilder) Mesh(m v1alpha1.Mesh) *DatabaseBuilder {
	b.Spec.Network.Mesh = m
	return b
}

func (b *DatabaseBuilder) ProfileRef(name string) *DatabaseBuilder {
	b.Spec.Network.Profile, b.Spec.Network.ProfileRef = nil, &v1alpha1.LocalReference{Name: name}
	return b
}

func (b *DatabaseBuilder) Obj() *v1alpha1.GeoDatabase { return &b.GeoDatabase }

// RunBuilder builds BenchmarkRuns for tests. By default, they run SmallBank with 100 customers, 2 s of warm-up and 10 s
// of measuring.
type RunBuilder struct{ v1alpha1.BenchmarkRun }

func MakeRun(name string) *RunBuilder {
	return &RunBuilder{v1alpha1.BenchmarkRun{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "test"},
		Spec: v1alpha1.BenchmarkRunSpec{
			Seed: 1,
			Workload: v1alpha1.Workload{SmallBank: &v1alpha1.SmallBank{
				Customers: 100,
				Mix:       v1alpha1.SmallBankMix{Balance: 40, WriteCheck: 25, DepositChecking: 15, TransactSavings: 15, Amalgamate: 5},
			}},
			Load: v1alpha1.Load{
				ClientsPerRegion: 10, WorkersPerRegion: 1, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
				Warmup: v1alpha1.DurationOf(2 * time.Second), Duration: v1alpha1.DurationOf(10 * time.Second),
				RequestTimeout: v1alpha1.DurationOf(5 * time.Second),
			},
			Verify: []v1alpha1.Verification{v1alpha1.VerifyInvariants},
		},
	}}
}

func (b *RunBuilder) Database(name string) *RunBuilder { b.Spec.DatabaseRef.Name = name; return b }
func (b *RunBuilder) RunID(id string) *RunBuilder      { b.Spec.RunID = id; return b }

func (b *RunBuilder) Workers(n int32) *RunBuilder { b.Spec.Load.WorkersPerRegion = n; return b }

func (b *RunBuilder) Deadline(d time.Duration) *RunBuilder {
	v := v1alpha1.DurationOf(d)
	b.Spec.Deadline = &v
	return b
}

func (b *RunBuilder) Repetitions(n int32) *RunBuilder { b.Spec.Load.Repetitions = n; return b }

func (b *RunBuilder) Duration(d time.Duration) *RunBuilder {
	b.Spec.Load.Duration = v1alpha1.DurationOf(d)
	return b
}

func (b *RunBuilder) MinThroughput(n int) *RunBuilder {
	bound := v1alpha1.Bound(intstr.FromInt(n))
	b.Spec.Objectives = append(b.Spec.Objectives, v1alpha1.Objective{Metric: v1alpha1.MetricThroughput, Min: &bound})
	return b
}

func (b *RunBuilder) Verify(v ...v1alpha1.Verification) *RunBuilder { b.Spec.Verify = v; return b }

func (b *RunBuilder) Sunflower(region string) *RunBuilder {
	b.Spec.Workload.SmallBank.Sunflower = []v1alpha1.SunflowerTarget{{Region: region, HitPercent: 50}}
	return b
}

// Faults sets the fault timeline from YAML.
func (b *RunBuilder) Faults(text string) *RunBuilder {
	if err := yaml.Unmarshal([]byte(text), &b.Spec.Faults); err != nil {
		panic(err)
	}
	return b
}

func (b *RunBuilder) By(how v1alpha1.FaultInjection) *RunBuilder {
	b.Spec.FaultInjection = how
	return b
}

func (b *RunBuilder) Obj() *v1alpha1.BenchmarkRun { return &b.BenchmarkRun }

// Client makes the clients of runs connect to the primary, which is in the database's first region.
func (b *DatabaseBuilder) Client() *DatabaseBuilder {
	b.Spec.Pods.Client = &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Region: b.Spec.Regions[0].Name, Database: "bench"}, SecretRef: v1alpha1.LocalReference{Name: "login"}}
	return b
}

// Elsewhere makes the database external, with an endpoint in each region.
func (b *DatabaseBuilder) Elsewhere() *DatabaseBuilder {
	b.Spec.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"tls": "disable"}}
	b.Spec.Network = v1alpha1.Network{}
	b.Spec.External = &v1alpha1.External{Database: "bench", SecretRef: &v1alpha1.LocalReference{Name: "login"}, Endpoints: []v1alpha1.ExternalEndpoint{
		{Region: b.Spec.Regions[0].Name, Address: "db.us.example.com:5432"}, {Region: b.Spec.Regions[1].Name, Address: "db.asia.example.com:5432"},
	}}
	return b
}

// Roles gives the database two roles and two init steps. The first region has one server of role meta, for which all
// other servers wait. Each region has two servers of role data.
func (b *DatabaseBuilder) Roles() *DatabaseBuilder {
	b.Spec.Engine = v1alpha1.Engine{Name: "store"}
	program := func(port int32) v1alpha1.Program {
		return v1alpha1.Program{Image: "localhost/store:test", Ports: []v1alpha1.PodPort{{Name: "own", Port: port}}, Volumes: []v1alpha1.PodVolume{{Name: "data", MountPath: "/data"}}}
	}
	b.Spec.Roles = []v1alpha1.Role{
		{Name: "meta", Program: program(2379), FirstRegions: ptr.To[int32](1), PerRegion: 1},
		{Name: "data", Program: program(5433), PerRegion: 2, Client: &v1alpha1.RoleClient{}, After: []v1alpha1.RoleAfter{{Role: "meta", Hosts: v1alpha1.RoleHostsAll}},
			Lists: []v1alpha1.HostList{{Name: "META", Role: "meta", Format: "{pod}=http://{host}:2379"}}},
	}
	b.Spec.Roles[1].Ready = &v1alpha1.PodReady{Command: []string{"true"}}
	b.Spec.Init = []v1alpha1.InitStep{
		{Name: "begin", Role: "meta", Command: []string{"store", "begin", "$(GEOBENCH_HOSTS_DATA)"}, Timeout: v1alpha1.DurationOf(90 * time.Second)},
		{Name: "users", Role: "data", Region: b.Spec.Regions[1].Name, Args: []string{"users"}},
	}
	return b
}

// Measurable makes a database with roles measurable: load generators connect to it with the client for PostgreSQL.
func (b *DatabaseBuilder) Measurable() *DatabaseBuilder {
	b.Spec.Engine = v1alpha1.Engine{Name: "postgres", Parameters: map[string]string{"tls": "disable", "connections": "8"}}
	b.Spec.Roles[1].Ports = append([]v1alpha1.PodPort{{Name: "peers", Port: 7100}}, b.Spec.Roles[1].Ports...)
	b.Spec.Roles[1].Client = &v1alpha1.RoleClient{ProgramClient: v1alpha1.ProgramClient{Port: 5433, Database: "bench"}, SecretRef: &v1alpha1.LocalReference{Name: "login"}}
	return b
}

// Program makes the pods of the database run a program that is not part of Geobench.
func (b *DatabaseBuilder) Program() *DatabaseBuilder {
	b.Spec.Engine = v1alpha1.Engine{Name: "postgres"}
	b.Spec.Pods = &v1alpha1.Pods{Program: v1alpha1.Program{
		Image: "localhost/postgres:test", Args: []string{"$(GEOBENCH_REGION)"},
		Ports:   []v1alpha1.PodPort{{Name: "sql", Port: 5432}},
		Env:     []v1alpha1.PodEnv{{Name: "PGDATA", Value: "/data/db"}, {Name: "PGPASSWORD", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "password"}}},
		Volumes: []v1alpha1.PodVolume{{Name: "data", MountPath: "/data"}, {Name: "config", MountPath: "/etc/db", ConfigMapRef: &v1alpha1.LocalReference{Name: "c"}}},
	}}
	return b
}
