package servers

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// tidb consists of three parts: placement drivers (pd), stores (tikv) and servers (tidb). There is one pd per copy, and
// one of the pds allocates timestamps. Stores report their region. Each region has servers, which accept SQL. The facts
// come from TiDB's documentation and its operator.
var tidb = cluster{
	facts: Facts{
		Product: "TiDB", Protocol: "MySQL", Port: 4000, User: "bench, created when the cluster is initialised; root has no password",
		Isolation: []string{"SnapshotIsolation (REPEATABLE READ of optimistic transactions)", "RepeatableRead (REPEATABLE READ of pessimistic transactions, which allows lost updates)", "ReadCommitted"},
		Retry:     []string{"8002", "8005", "8022", "8028", "9007", "1213", "1205"}, Ambiguous: []string{"8501"},
		Tolerates: "one region of three copies, two of five; a pd or tikv whose pod is deleted does not recover, because the cluster expects it to have its files",
		Placement: "placement policies: PRIMARY_REGION, REGIONS, FOLLOWERS",
		Licence:   "Apache 2.0",
	},
	logins: []login{{"login", tidbDatabase}}, database: tidbDatabase,
	copies: true, leader: "pd",
	parts: []part{
		{
			name: "pd", image: "docker.io/pingcap/pd:v8.5.2", user: 65532, copies: true, memory: "512Mi",
			ports: []v1alpha1.PodPort{{Name: "client", Port: 2379}, {Name: "peer", Port: 2380}},
			// The probe only connects, because pd serves requests only with a majority. How its HTTP paths answer without a
			// majority has not been tested.
			lists:    []v1alpha1.HostList{{Name: "MEMBERS", Role: "pd", Format: "{pod}=http://{host}:2380", Separator: ","}},
			settings: map[string]*regexp.Regexp{"pd.election-interval": goDuration, "pd.lease": someInteger, "pd.tick-interval": goDuration},
			shell:    "sh", script: tidbPD, args: toml("pd"),
		},
		{
			name: "tikv", image: "docker.io/pingcap/tikv:v8.5.2", user: 65532, memory: "2Gi",
			ports: []v1alpha1.PodPort{{Name: "server", Port: 20160}, {Name: "status", Port: 20180}},
			after: []v1alpha1.RoleAfter{{Role: "pd", Hosts: v1alpha1.RoleHostsAll}},
			lists: []v1alpha1.HostList{{Name: "PD", Role: "pd", Format: "{host}:2379", Separator: ","}},
			settings: map[string]*regexp.Regexp{
				"tikv.storage.block-cache.capacity": size, "tikv.server.grpc-compression-type": regexp.MustCompile(`^(none|deflate|gzip)$`),
			},
			// The vendor's default is a share of the machine's memory.
			defaults: map[string]string{"tikv.storage.block-cache.capacity": "256MB"},
			shell:    "sh", script: tidbTiKV, args: toml("tikv"),
		},
		{
			name: "tidb", image: "docker.io/pingcap/tidb:v8.5.2", user: 65532, client: true, memory: "1Gi", secret: "BENCH_PASSWORD",
			ports: []v1alpha1.PodPort{{Name: "sql", Port: 4000}, {Name: "status", Port: 10080}},
			ready: &v1alpha1.PodReady{HTTP: &v1alpha1.PodReadyHTTP{Port: 10080, Path: "/status"}},
			after: []v1alpha1.RoleAfter{{Role: "pd", Hosts: v1alpha1.RoleHostsAll}, {Role: "tikv", Hosts: v1alpha1.RoleHostsAll}},
			lists: []v1alpha1.HostList{{Name: "PD", Role: "pd", Format: "{host}:2379", Separator: ","}},
			shell: "sh", script: tidbTiDB, args: none,
		},
	},
	knobs: func(r *reading, set map[string]string) {
		fill(set, "pd.election-interval", milliseconds(max(3*time.Second, 10*r.longest))+"ms")
	},
	steps: func(r *reading) []v1alpha1.InitStep {
		locations := step("locations", "pd", "sh", "-c", tidbLocations, "locations", strconv.Itoa(copiesOf(r)))
		leader := step("leader", "pd", "sh", "-c", tidbLeader, "leader")
		leader.Region = leaderOf(r)
		return []v1alpha1.InitStep{locations, leader}
	},
}

// toml returns a function that formats the settings of a part as lines of its configuration file. PD and TiKV accept
// few settings as flags.
func toml(part string) func(map[string]string) []string {
	return func(settings map[string]string) (lines []string) {
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			value := settings[name]
			if !someInteger.MatchString(value) {
				value = `"` + value + `"`
			}
			lines = append(lines, strings.TrimPrefix(name, part+".")+" = "+value)
		}
		return lines
	}
}

// tidbPD starts a pd. The pds form a cluster only if they all list the same members. With existing files, a pd
// continues from these files and ignores the list.
const tidbPD = `set -eu
cd /data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
for line in "$@"; do echo "$line"; done >/data/pd.toml
exec /pd-server --name="$POD_NAME" --data-dir=/data/pd --config=/data/pd.toml \
  --client-urls=http://0.0.0.0:2379 --advertise-client-urls="http://$GEOBENCH_HOST:2379" \
  --peer-urls=http://0.0.0.0:2380 --advertise-peer-urls="http://$GEOBENCH_HOST:2380" --initial-cluster="$GEOBENCH_LIST_MEMBERS"
`

const tidbTiKV = `set -eu
cd /data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
for line in "$@"; do echo "$line"; done >/data/tikv.toml
exec /tikv-server --pd="$GEOBENCH_LIST_PD" --data-dir=/data/tikv --config=/data/tikv.toml \
  --addr=0.0.0.0:20160 --advertise-addr="$GEOBENCH_HOST:20160" --status-addr=0.0.0.0:20180 --advertise-status-addr="$GEOBENCH_HOST:20180" \
  --labels="region=$GEOBENCH_REGION,host=$POD_NAME"
`

// tidbDatabase is the name of the clients' database and of their user.
const tidbDatabase = "bench"

// tidbTiDB starts a server. The first server that finds an empty cluster creates the system tables and runs the SQL
// file. The file is the same on all servers.
const tidbTiDB = `set -eu
cd /data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
umask 077
cat >/data/begin.sql <<END
create database if not exists ` + tidbDatabase + `;
create user if not exists '` + tidbDatabase + `'@'%' identified by '$BENCH_PASSWORD';
grant all on ` + tidbDatabase + `.* to '` + tidbDatabase + `'@'%';
END
unset BENCH_PASSWORD
exec /tidb-server --store=tikv --path="$GEOBENCH_LIST_PD" --host=0.0.0.0 --advertise-address="$GEOBENCH_HOST" -P 4000 --status=10080 \
  --initialize-sql-file=/data/begin.sql
`

// tidbLocations sets the number of copies, and makes the stores place the copies in different regions.
const tidbLocations = `set -eu
pd=http://${GEOBENCH_HOSTS_PD%%,*}:2379
` + tidbTry + `
try config set location-labels region,host
try config set max-replicas "$1"
`

// tidbTry repeats a pd-ctl command until its output reports success. The exit code cannot be used, because it is always
// 0.
const tidbTry = `try() {
  until said=$(/pd-ctl -u "$pd" "$@" 2>&1) && [ "${said#*Success}" != "$said" ]; do echo "$said"; sleep 2; done
}`

// tidbLeader makes the pd of this region allocate the timestamps while it is available. Each transaction gets two
// timestamps. If the region of the allocator varied, latencies would not be comparable.
const tidbLeader = `set -eu
pd=http://${GEOBENCH_HOSTS_PD%%,*}:2379 own=
index=0
for host in $(echo "$GEOBENCH_HOSTS_PD" | tr , ' '); do
  if [ "$index" = "$GEOBENCH_REGION_INDEX" ]; then own=${host%%.*}; fi
  index=$((index + 1))
done
` + tidbTry + `
try member leader_priority "$own" 5
`
