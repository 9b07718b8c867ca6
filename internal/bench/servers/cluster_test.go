package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// played is one kind of server of a database that is rendered over three regions. It runs the commands of the server's
// pod with replacements for all programs.
type played struct {
	dir  string
	role *v1alpha1.Role
	env  []string
}

// play renders a database, and creates replacements for the image's programs in a temporary folder. Each replacement
// logs its name and arguments.
func play(t *testing.T, engine, role, region string) *played {
	t.Helper()
	db := database(engine, nil)
	if problems := Render(db, 240*time.Millisecond); len(problems) > 0 {
		t.Fatalf("refused: %+v", problems)
	}
	p := &played{dir: t.TempDir(), role: db.Spec.Role(role)}
	host := deploy.OfRole(deploy.PodsIn(db, region), role)
	p.env = append(os.Environ(), "GEOBENCH_REGION="+region, "GEOBENCH_HOST="+host[0].Known, "POD_NAME="+host[0].Name, "POSTGRES_PASSWORD=secret", "BENCH_PASSWORD=secret",
		fmt.Sprintf("GEOBENCH_REGION_INDEX=%d", map[string]int{"us": 0, "eu": 1, "asia": 2}[region]))
	for _, v := range deploy.HostVariables(db, p.role) {
		p.env = append(p.env, v.Name+"="+v.Value)
	}
	p.stand("getent", `if [ "$1" = ahostsv4 ]; then echo "$2-address STREAM"; fi`) // every host resolves
	return p
}

// stand creates a replacement for a program. text is a shell script, which may write to $log.
func (p *played) stand(name, text string) {
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte("#!/bin/sh\nlog="+p.dir+"/log\n"+text+"\n"), 0o755); err != nil {
		panic(err)
	}
}

// run runs a command of the image in the temporary folder, and returns the log.
func (p *played) run(t *testing.T, command ...string) string {
	t.Helper()
	in := strings.NewReplacer("/home/yugabyte/bin", p.dir, "$home/bin", p.dir, "/data", p.dir, "/pd-server", p.dir+"/pd-server", "/tikv-server", p.dir+"/tikv-server",
		"/tidb-server", p.dir+"/tidb-server", "/pd-ctl", p.dir+"/pd-ctl", "sleep 2", "sleep 0.02", "sleep 1", "sleep 0.02")
	for i := range command {
		command[i] = in.Replace(command[i])
	}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(p.env, "PATH="+p.dir+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(said), p.dir, "DIR")
}

// start returns the pod's command.
func (p *played) start() []string {
	return append(append([]string{}, p.role.Command...), p.role.Args...)
}

const words = `echo "${0##*/} $*" >>"$log"`

// Each kind of server starts with the flags that its documentation requires, and with the hosts of the servers that it
// connects to.
func TestClustersStart(t *testing.T) {
	for name, tc := range map[string]struct {
		engine, role, region, program string
		want                          []string // expected in the program's command line
		never                         string
	}{
		"YugabyteDB's master": {engine: "yugabytedb", role: "master", region: "eu", program: "yb-master", want: []string{
			"yb-master --fs_data_dirs=DIR --master_addresses=bank-us-master-0.bank-us-master.default.svc:7100,bank-eu-master-0.bank-eu-master.default.svc:7100,bank-asia-master-0.bank-asia-master.default.svc:7100 --replication_factor=3 ",
			"--rpc_bind_addresses=bank-eu-master-0.bank-eu-master.default.svc:7100", "--placement_region=eu --placement_zone=a",
			"--leader_failure_max_missed_heartbeat_periods=10 --leader_lease_duration_ms=2880 --raft_heartbeat_interval_ms=720",
		}},
		"YugabyteDB's tserver": {engine: "yugabytedb", role: "tserver", region: "asia", program: "yb-tserver", want: []string{
			"--tserver_master_addrs=bank-us-master-0.bank-us-master.default.svc:7100,", "--rpc_bind_addresses=bank-asia-tserver-0.bank-asia-tserver.default.svc:9100",
			"--pgsql_proxy_bind_address=0.0.0.0:5433", "--placement_region=asia", "--raft_heartbeat_interval_ms=720",
		}},
		"TiDB's pd": {engine: "tidb", role: "pd", region: "us", program: "pd-server", want: []string{
			"pd-server --name=bank-us-pd-0 ", "--initial-cluster=bank-us-pd-0=http://bank-us-pd-0.bank-us-pd.default.svc:2380,bank-eu-pd-0=http://bank-eu-pd-0.bank-eu-pd.default.svc:2380,bank-asia-pd-0=http://bank-asia-pd-0.bank-asia-pd.default.svc:2380",
			"--advertise-peer-urls=http://bank-us-pd-0.bank-us-pd.default.svc:2380",
		}},
		"TiDB's tikv": {engine: "tidb", role: "tikv", region: "eu", program: "tikv-server", want: []string{
			"--pd=bank-us-pd-0.bank-us-pd.default.svc:2379,bank-eu-pd-0.bank-eu-pd.default.svc:2379,", "--advertise-addr=bank-eu-tikv-0.bank-eu-tikv.default.svc:20160", "--labels=region=eu,host=bank-eu-tikv-0",
		}},
		"TiDB's server of SQL": {engine: "tidb", role: "tidb", region: "asia", program: "tidb-server", want: []string{
			"--store=tikv --path=bank-us-pd-0.bank-us-pd.default.svc:2379,", "--advertise-address=bank-asia-tidb-0.bank-asia-tidb.default.svc -P 4000", "--initialize-sql-file=DIR/begin.sql",
		}, never: "secret"},
		"Citus's coordinator": {engine: "citus", role: "coord", region: "us", program: "docker-entrypoint.sh", want: []string{
			"docker-entrypoint.sh postgres -c citus.max_cached_conns_per_worker=8 ", "-c wal_level=logical",
		}, never: "secret"},
		"Citus's worker": {engine: "citus", role: "worker", region: "asia", program: "docker-entrypoint.sh", want: []string{"postgres -c citus."}, never: "secret"},
		"OceanBase's observer": {engine: "oceanbase", role: "observer", region: "eu", program: "observer", want: []string{
			"observer --nodaemon --appname geobench --cluster_id 1 --zone z2 -I bank-eu-observer-0.default.svc-address -p 2881 -P 2882 -d DIR/store ",
			" -o __min_full_resource_pool_memory=2147483648,cpu_count=16,datafile_size=5G,enable_syslog_recycle=true,log_disk_size=12G,max_syslog_file_count=4,memory_limit=6G,rpc_timeout=2400ms,system_memory=1G",
		}, never: "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := play(t, tc.engine, tc.role, tc.region)
			p.stand(tc.program, words)
			said := p.run(t, p.start()...)
			for _, want := range tc.want {
				if !strings.Contains(said, want) {
					t.Errorf("%s\nwant %s", said, want)
				}
			}
			if tc.never != "" && strings.Contains(said, tc.never) {
				t.Errorf("%s is among the arguments: %s", tc.never, said)
			}
		})
	}
}

// PD and TiKV read their settings from a configuration file.
func TestConfigurationFiles(t *testing.T) {
	for role, want := range map[string]string{"pd": "election-interval = \"3000ms\"\n", "tikv": "storage.block-cache.capacity = \"256MB\"\n"} {
		p := play(t, "tidb", role, "us")
		p.stand(role+"-server", words)
		p.run(t, p.start()...)
		if got, err := os.ReadFile(filepath.Join(p.dir, role+".toml")); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", role, got, err, want)
		}
	}
}

// TiDB creates the clients' user and database when it starts. The password is in a file that only the server's user can
// read.
func TestTiDBMakesItsClients(t *testing.T) {
	p := play(t, "tidb", "tidb", "us")
	p.stand("tidb-server", words+`; if [ -n "${BENCH_PASSWORD:-}" ]; then echo "the server has the password" >>"$log"; fi`)
	if said := p.run(t, p.start()...); strings.Contains(said, "password") {
		t.Error(said)
	}
	const want = "create database if not exists bench;\ncreate user if not exists 'bench'@'%' identified by 'secret';\ngrant all on bench.* to 'bench'@'%';\n"
	if got, err := os.ReadFile(filepath.Join(p.dir, "begin.sql")); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if is, err := os.Stat(filepath.Join(p.dir, "begin.sql")); err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", is.Mode(), err)
	}
}

// An observer with existing files starts without options, because the files contain them and its address.
func TestOceanBaseGoesOn(t *testing.T) {
	p := play(t, "oceanbase", "observer", "us")
	p.stand("observer", words+`; if [ -n "${BENCH_PASSWORD:-}" ]; then echo "the server has the password" >>"$log"; fi`)
	if err := os.Mkdir(filepath.Join(p.dir, "etc"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(p.dir, "etc", "observer.config.bin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := p.run(t, p.start()...); said != "observer --nodaemon\n" {
		t.Error(said)
	}
}

// The first step of OceanBase bootstraps a cluster, if there is none, from one server in each region, and adds the
// missing servers. The next step creates the clients' tenant, with the configured leader region, and the clients' user.
func TestOceanBaseBegins(t *testing.T) {
	// The replacement logs the user and the statement. It lists no servers until a cluster has been started, and rejects
	// the first statements that create a tenant.
	const client = `asked=$(cat); echo "$7: $asked" >>"$log"
case $asked in
*DBA_OB_SERVERS*) if [ -e "$log.begun" ]; then cat "$log.begun"; else exit 1; fi ;;
*BOOTSTRAP*) echo "bank-us-observer-0.default.svc-address:2882" >"$log.begun" ;;
*TENANT*) if [ ! -e "$log.refused" ]; then touch "$log.refused"; exit 1; fi ;;
esac`
	const servers = "root: SELECT CONCAT(svr_ip, ':', svr_port) FROM oceanbase.DBA_OB_SERVERS;\n"
	tenant := "root: SET SESSION ob_query_timeout = 1000000000;\nCREATE RESOURCE UNIT IF NOT EXISTS bench MAX_CPU 4, MIN_CPU 4, MEMORY_SIZE '2G', LOG_DISK_SIZE '6G';\n" +
		"CREATE RESOURCE POOL IF NOT EXISTS bench UNIT 'bench', UNIT_NUM 2, ZONE_LIST ('z1','z2','z3');\n" +
		"CREATE TENANT IF NOT EXISTS bench RESOURCE_POOL_LIST = ('bench'), LOCALITY = 'F@z1,F@z2,F@z3', PRIMARY_ZONE = 'z2;z1,z3' SET ob_tcp_invited_nodes = '%', ob_compatibility_mode = 'mysql';\n"
	db := database("oceanbase", map[string]string{"leader": "eu", "perRegion.observer": "2"})
	if problems := Render(db, 0); len(problems) > 0 {
		t.Fatalf("refused: %+v", problems)
	}
	var added string
	for i, region := range []string{"us", "eu", "asia"} {
		added += fmt.Sprintf("root: ALTER SYSTEM ADD SERVER 'bank-%s-observer-1.default.svc-address:2882' ZONE 'z%d';\n", region, i+1)
	}
	begins := servers + `root: SET SESSION ob_query_timeout = 1000000000; ALTER SYSTEM BOOTSTRAP REGION "us" ZONE "z1" SERVER "bank-us-observer-0.default.svc-address:2882", ` +
		`REGION "eu" ZONE "z2" SERVER "bank-eu-observer-0.default.svc-address:2882", REGION "asia" ZONE "z3" SERVER "bank-asia-observer-0.default.svc-address:2882";` + "\n" + servers + added
	user := "root@bench: CREATE DATABASE IF NOT EXISTS bench;\nCREATE USER IF NOT EXISTS 'bench'@'%' IDENTIFIED BY 'secret';\nGRANT ALL ON bench.* TO 'bench'@'%';\n"
	for name, tc := range map[string]struct {
		step  int
		known string // servers of an existing cluster
		want  string
	}{
		"a new cluster":          {0, "", begins},
		"a cluster that lacks 2": {0, "bank-us-observer-0.default.svc-address:2882\nbank-eu-observer-1.default.svc-address:2882", servers + strings.ReplaceAll(added, "root: ALTER SYSTEM ADD SERVER 'bank-eu-observer-1.default.svc-address:2882' ZONE 'z2';\n", "")},
		"the tenant":             {1, "", strings.Repeat(tenant, 2) + user},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := played{dir: t.TempDir(), role: db.Spec.Role("observer"), env: append(os.Environ(), "GEOBENCH_REGIONS=us,eu,asia", "BENCH_PASSWORD=secret")}
			for _, v := range deploy.HostVariables(db, p.role) {
				p.env = append(p.env, v.Name+"="+v.Value)
			}
			p.stand("getent", `echo "$2-address STREAM"`)
			p.stand("obclient", client)
			if tc.known != "" {
				if err := os.WriteFile(filepath.Join(p.dir, "log.begun"), []byte(tc.known+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.run(t, db.Spec.Init[tc.step].Command...); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// A database with more regions than OceanBase supports voting copies is refused.
func TestOceanBaseHasSevenZones(t *testing.T) {
	db := five(database("oceanbase", nil))
	for _, name := range []string{"af", "me", "in"} {
		db.Spec.Regions = append(db.Spec.Regions, v1alpha1.Region{Name: name})
	}
	if problems := Render(db, 0); len(problems) != 1 || problems[0].Field != "spec.regions" || problems[0].Value != "8" || !strings.Contains(problems[0].Message, "at most 7") {
		t.Errorf("%+v", problems)
	}
}

// Each step sends the commands that the documentation requires to the right server, and repeats the commands until they
// succeed.
func TestClustersAreBegun(t *testing.T) {
	// twice and said are replacements that fail at the first call: twice with an exit code, said only with its output.
	const twice = `if [ ! -e "$log" ]; then ` + words + `; echo "no leader"; exit 1; fi; ` + words
	const said = `if [ ! -e "$log" ]; then ` + words + `; echo "Failed to set: no leader"; exit 0; fi; ` + words + `; echo Success!`
	for name, tc := range map[string]struct {
		engine, region, program, text string
		step                          int
		want                          string
	}{
		"YugabyteDB's placement": {"yugabytedb", "us", "yb-admin", twice, 0, strings.Repeat("yb-admin --master_addresses bank-us-master-0.bank-us-master.default.svc:7100,bank-eu-master-0.bank-eu-master.default.svc:7100,"+
			"bank-asia-master-0.bank-asia-master.default.svc:7100 modify_placement_info geobench.us.a,geobench.eu.a,geobench.asia.a 3\n", 2)},
		"TiDB's labels": {"tidb", "us", "pd-ctl", said, 0, strings.Repeat("pd-ctl -u http://bank-us-pd-0.bank-us-pd.default.svc:2379 config set location-labels region,host\n", 2) +
			"pd-ctl -u http://bank-us-pd-0.bank-us-pd.default.svc:2379 config set max-replicas 3\n"},
		"TiDB's leader": {"tidb", "eu", "pd-ctl", said, 1, strings.Repeat("pd-ctl -u http://bank-us-pd-0.bank-us-pd.default.svc:2379 member leader_priority bank-eu-pd-0 5\n", 2)},
		"Citus's nodes": {"citus", "us", "psql", `echo "$PGHOST $PGUSER $PGPASSWORD $*" >>"$log"`, 0,
			"bank-us-coord-0.bank-us-coord.default.svc postgres secret -v ON_ERROR_STOP=1 -q -A -t -c SELECT citus_set_coordinator_host('bank-us-coord-0.bank-us-coord.default.svc', 5432)\n" +
				"bank-us-coord-0.bank-us-coord.default.svc postgres secret -v ON_ERROR_STOP=1 -q -A -t -c SELECT citus_add_node('bank-us-worker-0.bank-us-worker.default.svc', 5432)\n" +
				"bank-us-coord-0.bank-us-coord.default.svc postgres secret -v ON_ERROR_STOP=1 -q -A -t -c SELECT citus_add_node('bank-eu-worker-0.bank-eu-worker.default.svc', 5432)\n" +
				"bank-us-coord-0.bank-us-coord.default.svc postgres secret -v ON_ERROR_STOP=1 -q -A -t -c SELECT citus_add_node('bank-asia-worker-0.bank-asia-worker.default.svc', 5432)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := database(tc.engine, map[string]string{})
			if tc.engine == "tidb" {
				db.Spec.Engine.Parameters["leader"] = "eu"
			}
			Render(db, 0)
			step := db.Spec.Init[tc.step]
			if tc.step == 1 && step.Region != "eu" {
				t.Errorf("it runs in %s", step.Region)
			}
			p := play(t, tc.engine, step.Role, tc.region)
			p.stand(tc.program, tc.text)
			if got := p.run(t, step.Command...); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// Each copy is in a different region, and timeouts follow the longest round trip.
func TestClustersOfFiveRegions(t *testing.T) {
	for name, tc := range map[string]struct {
		parameters map[string]string
		first      *int32
		step       string
	}{
		"three copies": {nil, ptr.To[int32](3), "geobench.us.a,geobench.eu.a,geobench.asia.a 3"},
		"five copies":  {map[string]string{"replicas": "5"}, nil, "geobench.us.a,geobench.eu.a,geobench.asia.a,geobench.sa.a,geobench.au.a 5"},
		"one copy":     {map[string]string{"replicas": "1"}, ptr.To[int32](1), "geobench.us.a 1"},
	} {
		db := five(database("yugabytedb", tc.parameters))
		if problems := Render(db, time.Second); len(problems) > 0 {
			t.Fatalf("%s: %+v", name, problems)
		}
		master, command := db.Spec.Role("master"), db.Spec.Init[0].Command
		if got := strings.Join(command[len(command)-2:], " "); got != tc.step || !ptr.Equal(master.FirstRegions, tc.first) {
			t.Errorf("%s: %s, masters in the first %v regions", name, got, ptr.Deref(master.FirstRegions, -1))
		}
		if args := strings.Join(master.Args, " "); !strings.Contains(args, "--leader_lease_duration_ms=12000") || !strings.Contains(args, "--raft_heartbeat_interval_ms=3000") {
			t.Errorf("%s: %s for a round trip of a second", name, args)
		}
	}
}

// The field replicasPerPartition is refused, because each kind of server has its own number of servers per region.
func TestReplicasOfClustersAreRefused(t *testing.T) {
	for engine, want := range map[string]string{"yugabytedb": "say by spec.engine.parameters.perRegion.tserver how many", "tidb": "spec.engine.parameters.perRegion.tidb and spec.engine.parameters.perRegion.tikv how many"} {
		db := database(engine, nil)
		db.Spec.ReplicasPerPartition = 3
		if problems := Render(db, 0); len(problems) != 1 || problems[0].Field != "spec.replicasPerPartition" || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %+v; want %s", engine, problems, want)
		}
	}
}

func five(db *v1alpha1.GeoDatabase) *v1alpha1.GeoDatabase {
	db.Spec.Regions = append(db.Spec.Regions, v1alpha1.Region{Name: "sa"}, v1alpha1.Region{Name: "au"})
	return db
}

// Every database that has not been run has the facts that a load generator needs, and docs/databases.md lists them.
func TestFactsAreInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../../docs/databases.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := strings.Join(strings.Fields(string(text)), " ")
	for _, engine := range []string{"cockroachdb", "yugabytedb", "tidb", "citus", "oceanbase"} {
		f := FactsOf(engine)
		if f == nil {
			t.Fatalf("%s has no facts", engine)
		}
		says := append([]string{f.Product, f.Protocol, fmt.Sprint(f.Port), f.Licence, f.Tolerates, f.Placement, f.User}, f.Isolation...)
		if f.Unmeasured != "" {
			says = append(says, f.Unmeasured)
		}
		for _, s := range append(append(says, f.Retry...), f.Ambiguous...) {
			if s == "" || !strings.Contains(strings.ReplaceAll(docs, "`", ""), s) {
				t.Errorf("docs/databases.md does not say of %s: %q", engine, s)
			}
		}
	}
	if FactsOf("postgres") != nil || FactsOf("mars") != nil {
		t.Error("a database that is measured has facts of one that is not")
	}
}
