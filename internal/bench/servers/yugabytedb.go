package servers

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// yugabytedb consists of masters, one for each copy, and tablet servers, which accept SQL. Each server reports its
// region. The step placement sets the regions that store copies. The facts come from YugabyteDB's documentation of
// multi-region deployments and its Helm chart.
var yugabytedb = cluster{
	facts: Facts{
		Product: "YugabyteDB", Protocol: "PostgreSQL", Port: 5433, User: "yugabyte",
		Isolation: []string{"RepeatableRead (mapped to Snapshot)", "Serializable", "ReadCommitted (the same as Snapshot unless yb_enable_read_committed_isolation is on)"},
		Retry:     []string{"40001", "40P01"}, Ambiguous: []string{"08006", "57P01"},
		Tolerates: "one region of three copies, two of five; a tserver whose pod is deleted restarts empty and its data is restored; a master does not recover",
		Placement: "tablespaces with replica_placement and leader_preference",
		Licence:   "Apache 2.0, except for the management plane",
	},
	copies: true,
	// The database requires no authentication unless ysql_enable_auth is set.
	logins: []login{{"login", "yugabyte"}}, database: "yugabyte",
	parts: []part{
		{
			name: "master", image: yugabyteImage, user: 10001, copies: true, memory: "1Gi",
			ports:    []v1alpha1.PodPort{{Name: "rpc", Port: 7100}, {Name: "http", Port: 7000}},
			ready:    &v1alpha1.PodReady{HTTP: &v1alpha1.PodReadyHTTP{Port: 7000, Path: "/"}},
			lists:    []v1alpha1.HostList{{Name: "MASTERS", Role: "master", Format: "{host}:7100", Separator: ","}},
			settings: yugabyteRaft, shell: "bash", script: yugabyteMaster, args: flags,
		},
		{
			name: "tserver", image: yugabyteImage, user: 10001, client: true, memory: "2Gi",
			ports: []v1alpha1.PodPort{{Name: "sql", Port: 5433}, {Name: "rpc", Port: 9100}, {Name: "http", Port: 9000}, {Name: "metrics-sql", Port: 13000}},
			ready: &v1alpha1.PodReady{Command: []string{"bash", "-c", `exec /home/yugabyte/bin/ysqlsh -h "$POD_IP" -U yugabyte -c '\conninfo'`}},
			after: []v1alpha1.RoleAfter{{Role: "master", Hosts: v1alpha1.RoleHostsAny}},
			lists: []v1alpha1.HostList{{Name: "MASTERS", Role: "master", Format: "{host}:7100", Separator: ","}},
			settings: merged(yugabyteRaft, map[string]*regexp.Regexp{
				"yb_enable_read_committed_isolation": yugabyteBool,
				"ysql_num_shards_per_tserver":        someInteger,
			}),
			// The embedded PostgreSQL creates its sockets in /tmp.
			volumes: []v1alpha1.PodVolume{{Name: "tmp", MountPath: "/tmp"}},
			shell:   "bash", script: yugabyteTServer, args: flags,
		},
	},
	knobs: func(r *reading, set map[string]string) {
		fill(set, "leader_failure_max_missed_heartbeat_periods", "10")
		fill(set, "raft_heartbeat_interval_ms", milliseconds(max(500*time.Millisecond, 3*r.longest)))
		// The lease must be longer than several heartbeats. Otherwise a leader would lose it between two heartbeats.
		heartbeat, _ := strconv.Atoi(set["raft_heartbeat_interval_ms"])
		fill(set, "leader_lease_duration_ms", strconv.Itoa(max(2000, 4*heartbeat)))
		if lease, _ := strconv.Atoi(set["leader_lease_duration_ms"]); lease <= heartbeat {
			r.bad("settings.leader_lease_duration_ms", set["leader_lease_duration_ms"], "%d ms is not longer than the raft_heartbeat_interval_ms of %d: a leader would lose its lease between two heartbeats", lease, heartbeat)
		}
	},
	steps: func(r *reading) []v1alpha1.InitStep {
		// Only these regions store copies: a placement cannot name more regions than there are copies.
		var blocks []string
		for _, region := range r.regions[:min(copiesOf(r), len(r.regions))] {
			blocks = append(blocks, yugabyteCloud+"."+region+"."+yugabyteZone)
		}
		return []v1alpha1.InitStep{step("placement", "master", "bash", "-c", yugabytePlacement, "placement", strings.Join(blocks, ","), fmt.Sprint(len(blocks)))}
	},
}

const (
	yugabyteImage = "docker.io/yugabytedb/yugabyte:2026.1.0.1-b1"
	// yugabyteCloud and yugabyteZone complete the placement of a region, CLOUD.REGION.ZONE.
	yugabyteCloud, yugabyteZone = "geobench", "a"
)

var (
	yugabyteBool = regexp.MustCompile(`^(true|false)$`)
	someInteger  = regexp.MustCompile(`^[1-9][0-9]*$`)
	// yugabyteRaft are flags whose values must be the same on both kinds of servers.
	yugabyteRaft = map[string]*regexp.Regexp{
		"leader_failure_max_missed_heartbeat_periods": someInteger,
		"leader_lease_duration_ms":                    someInteger,
		"raft_heartbeat_interval_ms":                  someInteger,
	}
)

// merged returns the union of two maps.
func merged(a, b map[string]*regexp.Regexp) map[string]*regexp.Regexp {
	out := map[string]*regexp.Regexp{}
	for _, m := range []map[string]*regexp.Regexp{a, b} {
		for name, rule := range m {
			out[name] = rule
		}
	}
	return out
}

// yugabyteMaster starts a master. The masters elect a leader and start the cluster only if they all list the same
// masters.
const yugabyteMaster = `set -eu
export PATH="/home/yugabyte/bin:$PATH" HOME=/data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
commas=${GEOBENCH_HOSTS_MASTER//[^,]/}
exec yb-master --fs_data_dirs=/data --master_addresses="$GEOBENCH_LIST_MASTERS" --replication_factor="$((${#commas} + 1))" \
  --rpc_bind_addresses="$GEOBENCH_HOST:7100" --server_broadcast_addresses="$GEOBENCH_HOST:7100" --webserver_interface=0.0.0.0 \
  --placement_cloud=` + yugabyteCloud + ` --placement_region="$GEOBENCH_REGION" --placement_zone=` + yugabyteZone + ` --stderrthreshold=0 "$@"
`

const yugabyteTServer = `set -eu
export PATH="/home/yugabyte/bin:$PATH" HOME=/data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
exec yb-tserver --fs_data_dirs=/data --tserver_master_addrs="$GEOBENCH_LIST_MASTERS" \
  --rpc_bind_addresses="$GEOBENCH_HOST:9100" --server_broadcast_addresses="$GEOBENCH_HOST:9100" --webserver_interface=0.0.0.0 \
  --enable_ysql --pgsql_proxy_bind_address=0.0.0.0:5433 --use_node_hostname_for_local_tserver=true \
  --placement_cloud=` + yugabyteCloud + ` --placement_region="$GEOBENCH_REGION" --placement_zone=` + yugabyteZone + ` --stderrthreshold=0 "$@"
`

// yugabytePlacement sets the regions that store copies, and the number of copies. Without this step, the servers'
// locations have no effect. The step can be repeated. It retries until the masters have elected a leader.
const yugabytePlacement = `set -eu
export PATH="/home/yugabyte/bin:$PATH" HOME=/data
until yb-admin --master_addresses "$GEOBENCH_LIST_MASTERS" modify_placement_info "$1" "$2"; do sleep 2; done
`
