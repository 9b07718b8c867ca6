package servers

import (
	"maps"
	"regexp"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
)

// citus is PostgreSQL with the extension Citus: a coordinator in the first region, and workers in all regions. The
// facts come from Citus's documentation and the repository of its image.
var citus = cluster{
	facts: Facts{
		Product: "Citus", Protocol: "PostgreSQL", Port: 5432, User: "postgres",
		Isolation: []string{"ReadCommitted (the other levels hold only within a single server)"},
		Retry:     []string{"40001", "40P01"}, Ambiguous: []string{"08006", "57P01"},
		Tolerates: "no loss of a server's files: each row has one copy",
		Placement: "create_distributed_table and create_reference_table; citus_move_shard_placement gives a shard its region",
		Licence:   "AGPL 3.0",
	},
	logins: []login{{"login", "postgres"}}, database: "postgres",
	parts: []part{
		{
			name: "coord", image: citusImage, user: 999, first: true, client: true, memory: "512Mi", secret: "POSTGRES_PASSWORD",
			ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}, ready: citusReady, settings: citusSettings, shell: "bash", script: citusServer, args: citusArgs,
		},
		{
			name: "worker", image: citusImage, user: 999, memory: "512Mi", secret: "POSTGRES_PASSWORD",
			ports: []v1alpha1.PodPort{{Name: "sql", Port: 5432}}, ready: citusReady, settings: citusSettings, shell: "bash", script: citusServer, args: citusArgs,
		},
	},
	steps: func(*reading) []v1alpha1.InitStep {
		return []v1alpha1.InitStep{step("nodes", "coord", "bash", "-c", citusNodes, "nodes")}
	},
}

const citusImage = "docker.io/citusdata/citus:14.1.0"

var (
	// To create its files, the image starts a temporary server that answers only inside the pod. The probe therefore
	// connects to the pod's address.
	citusReady = &v1alpha1.PodReady{Command: []string{"bash", "-c", `exec pg_isready -q -h "$POD_IP" -p 5432`}}
	// citusSettings are PostgreSQL's settings and the settings that Citus adds.
	citusSettings = func() map[string]*regexp.Regexp {
		out := map[string]*regexp.Regexp{"citus.max_cached_conns_per_worker": integer, "citus.node_connection_timeout": duration, "citus.shard_count": someInteger}
		for name, rule := range postgresSettings {
			out[name[len("settings."):]] = rule
		}
		return out
	}()
)

// citusArgs returns the arguments of a server. Each server caches several connections per worker, because opening a
// connection to another region takes several round trips.
func citusArgs(settings map[string]string) []string {
	all := map[string]string{"citus.max_cached_conns_per_worker": "8", "wal_level": "logical", "max_prepared_transactions": "200"}
	maps.Copy(all, settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

// citusServer runs the image's entry point, which creates the files and the extension. The script exports PGPASSWORD,
// which the servers use to log in to each other.
const citusServer = `set -eu
export PGDATA=/data/db PGPASSWORD="$POSTGRES_PASSWORD"
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
exec docker-entrypoint.sh postgres "$@"
`

// citusNodes registers the other nodes with the coordinator. Registering a node twice has no effect.
const citusNodes = `set -eu
export PGHOST=${GEOBENCH_HOSTS_COORD%%,*} PGUSER=postgres PGDATABASE=postgres PGPASSWORD="$POSTGRES_PASSWORD" PGCONNECT_TIMEOUT=10
query() { psql -v ON_ERROR_STOP=1 -q -A -t -c "$1" >/dev/null; }
until query "SELECT citus_set_coordinator_host('$PGHOST', 5432)"; do sleep 2; done
for host in ${GEOBENCH_HOSTS_WORKER//,/ }; do
  until query "SELECT citus_add_node('$host', 5432)"; do sleep 2; done
done
`
