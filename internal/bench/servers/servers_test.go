package servers

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/geobench/geobench/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden manifests")

func database(engine string, parameters map[string]string) *v1alpha1.GeoDatabase {
	db := &v1alpha1.GeoDatabase{}
	db.Name, db.Namespace = "bank", "default"
	db.Spec.Engine = v1alpha1.Engine{Name: engine, Parameters: parameters}
	db.Spec.PartitionsPerRegion, db.Spec.ReplicasPerPartition = 1, 1
	for _, r := range []string{"us", "eu", "asia"} {
		db.Spec.Regions = append(db.Spec.Regions, v1alpha1.Region{Name: r})
	}
	return db
}

// The rendered output equals the golden files, and is the same each time.
func TestGolden(t *testing.T) {
	for name, parameters := range map[string]map[string]string{
		"postgres": {"isolation": "Serializable"},
		"postgres-quorum": {"primary": "eu", "synchronous": "Quorum", "image": "localhost/geobench-postgres:15", "user": "65532", "connections": "20",
			"settings.shared_buffers": "256MB", "settings.max_connections": "200"},
		"postgres-remote-apply": {"synchronous": "RemoteApply"},
		"galera":                {},
		"galera-settings": {"isolation": "RepeatableRead", "syncWait": "true", "image": "localhost/geobench-galera:10.11", "user": "65532",
			"settings.innodb_buffer_pool_size": "256M", "provider.evs.suspect_timeout": "PT10S", "provider.gcache.size": "32M"},
		"etcd":          {},
		"etcd-settings": {"reads": "Serializable", "maxTxnOps": "512", "settings.heartbeat-interval": "150", "settings.election-timeout": "1500"},
		"cockroachdb":   {},
		"cockroachdb-settings": {"image": "localhost/geobench-cockroach:v26.2.1", "user": "65532", "settings.cache": "1GiB", "settings.max-sql-memory": "256MiB",
			"settings.max-offset": "250ms"},
		"yugabytedb":      {},
		"yugabytedb-five": {},
		"yugabytedb-settings": {"image": "localhost/geobench-yugabyte:2025.2", "user": "65532", "perRegion.tserver": "2", "replicas": "1", "settings.raft_heartbeat_interval_ms": "1500",
			"settings.yb_enable_read_committed_isolation": "true"},
		"tidb":      {},
		"tidb-five": {"replicas": "5", "leader": "asia", "image.tikv": "localhost/geobench-tikv:8", "perRegion.tikv": "3", "settings.tikv.storage.block-cache.capacity": "1GB", "settings.pd.lease": "5"},
		"citus":     {},
		"oceanbase": {},
		"oceanbase-five": {"leader": "sa", "perRegion.observer": "2", "isolation": "ReadCommitted", "image": "localhost/geobench-oceanbase:4", "user": "500", "settings.memory_limit": "10G",
			"settings.rpc_timeout": "5s"},
		"citus-five": {"perRegion.worker": "2", "settings.shared_buffers": "256MB", "settings.citus.node_connection_timeout": "60s"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, _, _ := strings.Cut(name, "-")
			db := database(engine, parameters)
			if strings.HasSuffix(name, "-five") {
				five(db)
			}
			if problems := Render(db, 240*time.Millisecond); len(problems) > 0 {
				t.Fatalf("refused: %+v", problems)
			}
			spec := map[string]any{"engine": db.Spec.Engine, "pods": db.Spec.Pods}
			if db.Spec.Pods == nil {
				spec = map[string]any{"engine": db.Spec.Engine, "roles": db.Spec.Roles, "init": db.Spec.Init}
			}
			got, err := yaml.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			path := "testdata/" + name + ".yaml"
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s differs; go test -update writes it:\n%s", path, got)
			}
		})
	}
}

func galeraSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "galera" }

func cockroachSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "cockroachdb" }

func yugabyteSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "yugabytedb" }

func tidbSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "tidb" }

func oceanbaseSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "oceanbase" }

func citusSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "citus" }

func etcdSpec(s *v1alpha1.GeoDatabaseSpec) { s.Engine.Name = "etcd" }

// Each wrong parameter is reported with its name and value, and nothing is rendered.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		parameter, value, says string
		shape                  func(*v1alpha1.GeoDatabaseSpec)
	}{
		"galera's size":            {"settings.innodb_buffer_pool_size", "256MB", "size with its unit, K, M or G", galeraSpec},
		"galera's period":          {"provider.evs.suspect_timeout", "10s", "period of ISO 8601", galeraSpec},
		"galera's provider":        {"provider.base_port", "4000", "no setting of MariaDB or Galera", galeraSpec},
		"galera's connections":     {"settings.max_connections", "5", "not from 10", galeraSpec},
		"galera's partitions":      {"", "2", "every server of galera has all rows", func(s *v1alpha1.GeoDatabaseSpec) { galeraSpec(s); s.PartitionsPerRegion = 2 }},
		"etcd's flag":              {"settings.listen-client-urls", "http://0.0.0.0:1", "no setting of etcd", etcdSpec},
		"etcd's number":            {"settings.heartbeat-interval", "100ms", "whole number", etcdSpec},
		"etcd's election":          {"settings.election-timeout", "1000", "at least five times", etcdSpec},
		"CockroachDB's share":      {"settings.cache", "25%", "size above 0 with its unit, MiB or GiB", cockroachSpec},
		"CockroachDB's memory":     {"settings.max-sql-memory", "128MB", "size above 0 with its unit, MiB or GiB", cockroachSpec},
		"CockroachDB's offset":     {"settings.max-offset", "0ms", "duration above 0 with its unit, ms or s", cockroachSpec},
		"CockroachDB's flag":       {"settings.join", "elsewhere:26257", "no setting of CockroachDB", cockroachSpec},
		"CockroachDB's TLS":        {"tls", "verify-full", "has no certificate", cockroachSpec},
		"CockroachDB's client":     {"isolationLevel", "Serializable", "they have connections, dropSchema, form, image, isolation, placement, schema, settings.cache, settings.max-offset, settings.max-sql-memory, tls, user", cockroachSpec},
		"CockroachDB's rows":       {"", "2", "share the rows out themselves", func(s *v1alpha1.GeoDatabaseSpec) { cockroachSpec(s); s.PartitionsPerRegion = 2 }},
		"YugabyteDB's copies":      {"replicas", "2", "not 1, 3 or 5, and at most the number of regions, which is 3", yugabyteSpec},
		"more copies than regions": {"replicas", "5", "at most the number of regions, which is 3", yugabyteSpec},
		"YugabyteDB's servers":     {"perRegion.tserver", "10", "not a number of servers from 1 to 9", yugabyteSpec},
		"YugabyteDB's masters":     {"perRegion.master", "2", "perRegion.master is no parameter of YugabyteDB", yugabyteSpec},
		"YugabyteDB's flag":        {"settings.rpc_bind_addresses", "0.0.0.0:1", "no setting of YugabyteDB that can be set here; use spec.roles", yugabyteSpec},
		"YugabyteDB's number":      {"settings.raft_heartbeat_interval_ms", "500ms", "whole number above 0", yugabyteSpec},
		"YugabyteDB's lease":       {"settings.leader_lease_duration_ms", "400", "not longer than the raft_heartbeat_interval_ms of 500", yugabyteSpec},
		"YugabyteDB's client":      {"isolationLevel", "Serializable", "they have connections, dropSchema, form, image, isolation, perRegion.tserver, placement, replicas, schema, settings.leader_failure_max_missed_heartbeat_periods,", yugabyteSpec},
		"YugabyteDB's partitions":  {"", "2", "leave partitionsPerRegion out, or 1", func(s *v1alpha1.GeoDatabaseSpec) { yugabyteSpec(s); s.PartitionsPerRegion = 2 }},
		"TiDB's leader":            {"leader", "mars", "region mars has no server that could lead; those that have are us, eu, asia", tidbSpec},
		"a leader without pd": {"leader", "au", "those that have are us, eu, asia", func(s *v1alpha1.GeoDatabaseSpec) {
			tidbSpec(s)
			s.Regions = append(s.Regions, v1alpha1.Region{Name: "sa"}, v1alpha1.Region{Name: "au"})
		}},
		"TiDB's image":           {"image", "localhost/tidb:1", "image is no parameter of TiDB", tidbSpec},
		"TiDB's image of a part": {"image.tikv", "ti kv", "not REGISTRY/NAME:TAG", tidbSpec},
		"TiDB's cache":           {"settings.tikv.storage.block-cache.capacity", "256", "size with its unit", tidbSpec},
		"injection into a file":  {"settings.pd.election-interval", "3s\"\nlease = 1", "duration with its unit", tidbSpec},
		"OceanBase's memory":     {"settings.memory_limit", "6GiB", "size with its unit, K, M or G", oceanbaseSpec},
		"injection into options": {"settings.datafile_size", "5G,syslog_level=INFO", "size with its unit, K, M or G", oceanbaseSpec},
		"OceanBase's copies":     {"replicas", "3", "replicas is no parameter of OceanBase", oceanbaseSpec},
		"OceanBase's leader":     {"leader", "mars", "region mars has no server that could lead; those that have are us, eu, asia", oceanbaseSpec},
		"OceanBase's address":    {"settings.local_ip", "10.0.0.1", "no setting of OceanBase that can be set here; use spec.roles", oceanbaseSpec},
		"OceanBase's servers":    {"perRegion.observer", "0", "not a number of servers from 1 to 9", oceanbaseSpec},
		"Citus's timeout":        {"settings.citus.node_connection_timeout", "30", "duration with its unit", citusSpec},
		"Citus's copies":         {"replicas", "3", "replicas is no parameter of Citus", citusSpec},
		"primary":                {"primary", "mars", "region mars is not in spec.regions; they are us, eu, asia", nil},
		"synchronous":            {"synchronous", "on", "not one of Off, Quorum, RemoteApply", nil},
		"no standby":             {"synchronous", "Quorum", "no standby to wait for", func(s *v1alpha1.GeoDatabaseSpec) { s.Regions = s.Regions[:1] }},
		"image":                  {"image", "post gres", "not REGISTRY/NAME:TAG", nil},
		"root":                   {"user", "0", "root runs no server", nil},
		"user's name":            {"user", "postgres", "not the number of a user", nil},
		"TLS":                    {"tls", "verify-full", "has no certificate", nil},
		"setting":                {"settings.shared_bufers", "1GB", "no setting of PostgreSQL", nil},
		"renderer's own":         {"settings.port", "5433", "no setting of PostgreSQL", nil},
		"no unit":                {"settings.shared_buffers", "256", "size with its unit", nil},
		"boolean":                {"settings.fsync", "yes", "not on or off", nil},
		"duration":               {"settings.deadlock_timeout", "1 second", "duration with its unit", nil},
		"injection":              {"settings.work_mem", "1MB\nport=1", "size with its unit", nil},
		"connections":            {"settings.max_connections", "3", "not from 4", nil},
		"too many":               {"settings.max_connections", "99999999999999999999", "to 262143", nil},
		"partitions":             {"", "2", "every server of postgres has all rows", func(s *v1alpha1.GeoDatabaseSpec) { s.PartitionsPerRegion = 2 }},
		"negative number":        {"settings.max_parallel_workers", "-1", "whole number", nil},
	} {
		t.Run(name, func(t *testing.T) {
			db, field := database("postgres", nil), "spec.partitionsPerRegion"
			if tc.parameter != "" {
				db.Spec.Engine.Parameters, field = map[string]string{tc.parameter: tc.value}, "spec.engine.parameters."+tc.parameter
			}
			if tc.shape != nil {
				tc.shape(&db.Spec)
			}
			problems := Render(db, 0)
			if len(problems) != 1 || problems[0].Field != field || problems[0].Value != tc.value || !strings.Contains(problems[0].Message, tc.says) {
				t.Errorf("%+v\nwant %s: %q: %s", problems, field, tc.value, tc.says)
			}
			if db.Spec.RunsPrograms() {
				t.Error("pods were rendered")
			}
		})
	}
}

// An external database is not rendered. Rendering a database again changes nothing.
func TestRendersOnce(t *testing.T) {
	db := database("postgres", nil)
	db.Spec.External = &v1alpha1.External{}
	if Render(db, 0); db.Spec.Pods != nil {
		t.Error("an external database was given pods")
	}
	db = database("postgres", map[string]string{"primary": "eu"})
	Render(db, 0)
	once := db.DeepCopy()
	if Render(db, 0); db.Spec.Pods.Client.Region != "eu" || len(db.Spec.Engine.Parameters) != len(once.Spec.Engine.Parameters) {
		t.Errorf("rendered twice: %+v", db.Spec)
	}
}

// Open describes exactly the databases that require no authentication.
func TestOpen(t *testing.T) {
	for engine := range kinds {
		letsIn := slices.Contains([]string{"cockroachdb", "etcd", "oceanbase", "tidb", "yugabytedb"}, engine)
		if open := Open(engine); (open != "") != letsIn {
			t.Errorf("%s: %q", engine, open)
		}
	}
}
