package servers

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// replicator is the user that standbys use for streaming replication.
const replicator = "replicator"

// postgres runs a primary in one pod, and a standby that streams from the primary in every other pod. Clients log in as
// the superuser. The image is the official one.
var postgres = server{
	product:  "PostgreSQL",
	settings: postgresSettings,
	image:    "docker.io/library/postgres:17.5", user: 999,
	logins: []login{{"login", "postgres"}, {"replication", replicator}},
	own:    postgresParameter,
	pods:   postgresPods,
}

// The values of the parameter synchronous, which selects the synchronous replication of commits.
const (
	// syncOff waits only for the primary's log.
	syncOff = "Off"
	// syncQuorum waits until a majority of the servers, including the primary, has stored the log.
	syncQuorum = "Quorum"
	// syncRemoteApply waits until readers of all standbys can see the commit.
	syncRemoteApply = "RemoteApply"
)

var postgresSettings = map[string]*regexp.Regexp{
	"settings.autovacuum":                          boolean,
	"settings.checkpoint_completion_target":        number,
	"settings.checkpoint_timeout":                  duration,
	"settings.commit_delay":                        integer,
	"settings.commit_siblings":                     integer,
	"settings.deadlock_timeout":                    duration,
	"settings.default_statistics_target":           integer,
	"settings.effective_cache_size":                size,
	"settings.effective_io_concurrency":            integer,
	"settings.fsync":                               boolean,
	"settings.full_page_writes":                    boolean,
	"settings.hot_standby_feedback":                boolean,
	"settings.idle_in_transaction_session_timeout": duration,
	"settings.jit":                                 boolean,
	"settings.lock_timeout":                        duration,
	"settings.maintenance_work_mem":                size,
	"settings.max_connections":                     integer,
	"settings.max_locks_per_transaction":           integer,
	"settings.max_parallel_workers":                integer,
	"settings.max_parallel_workers_per_gather":     integer,
	"settings.max_pred_locks_per_page":             integer,
	"settings.max_pred_locks_per_relation":         regexp.MustCompile(`^-?[0-9]+$`),
	"settings.max_pred_locks_per_transaction":      integer,
	"settings.max_standby_streaming_delay":         duration,
	"settings.max_wal_size":                        size,
	"settings.min_wal_size":                        size,
	"settings.random_page_cost":                    number,
	"settings.seq_page_cost":                       number,
	"settings.shared_buffers":                      size,
	"settings.statement_timeout":                   duration,
	"settings.temp_buffers":                        size,
	"settings.wal_buffers":                         size,
	"settings.wal_compression":                     regexp.MustCompile(`^(on|off|pglz|lz4|zstd)$`),
	"settings.wal_keep_size":                       size,
	"settings.wal_receiver_status_interval":        duration,
	"settings.wal_sender_timeout":                  duration,
	"settings.wal_receiver_timeout":                duration,
	"settings.wal_writer_delay":                    duration,
	"settings.work_mem":                            size,
}

func postgresParameter(r *reading, name, value string) bool {
	switch name {
	case "primary":
		if !slices.Contains(r.regions, value) {
			r.bad(name, value, "region %s is not in spec.regions; they are %s", value, strings.Join(r.regions, ", "))
		}
		r.words[name] = value
	case "synchronous":
		r.word(name, value, []string{syncOff, syncQuorum, syncRemoteApply})
	default:
		return false
	}
	return true
}

func postgresPods(r *reading) *v1alpha1.Pods {
	primary, synchronous := r.words["primary"], cmp.Or(r.words["synchronous"], syncOff)
	if primary == "" && len(r.regions) > 0 {
		primary = r.regions[0]
	}
	if synchronous != syncOff && r.servers() == 1 {
		r.bad("synchronous", synchronous, "there is no standby to wait for: add a region, or set synchronous to %s", syncOff)
	}
	const limit = "settings.max_connections"
	if text, ok := r.settings[limit]; ok {
		if n, err := strconv.Atoi(text); err != nil || n < 1+r.servers() || n > 262143 {
			r.bad(limit, text, "%s is not from %d, one for each server and one for clients, to 262143", text, 1+r.servers())
		}
	}
	return &v1alpha1.Pods{
		Program: v1alpha1.Program{
			Command: []string{"sh", "-c", postgresScript, "postgres"},
			Args:    postgresArgs(synchronous, r.servers(), r.settings),
			Env: []v1alpha1.PodEnv{
				{Name: "PRIMARY", Value: deploy.Host(r.Name, primary, r.Namespace, 0)},
				r.password("SUPERUSER_PASSWORD", 0),
				r.password("REPLICATION_PASSWORD", 1),
			},
			Ports: []v1alpha1.PodPort{{Name: "postgres", Port: 5432}},
			// A starting server already accepts connections but rejects clients. Readiness must not depend on whether other
			// servers are reachable.
			Ready: &v1alpha1.PodReady{Command: []string{"pg_isready", "-q", "-h", "127.0.0.1", "-p", "5432"}},
		},
		Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Region: primary, Database: "postgres"}},
	}
}

// postgresArgs returns the arguments of the servers. All servers have the same arguments, because a standby needs the
// settings of its primary.
func postgresArgs(synchronous string, servers int, set map[string]string) []string {
	args := []string{"listen_addresses=*", "port=5432", "unix_socket_directories=/data", "wal_level=replica", "hot_standby=on",
		"max_wal_senders=" + strconv.Itoa(max(10, 2*servers)), "logging_collector=off"}
	switch synchronous {
	case syncQuorum:
		// Together with the primary, servers/2 standbys are a majority of all servers.
		args = append(args, "synchronous_commit=on", fmt.Sprintf("synchronous_standby_names=ANY %d (*)", servers/2))
	case syncRemoteApply:
		args = append(args, "synchronous_commit=remote_apply", fmt.Sprintf("synchronous_standby_names=ANY %d (*)", servers-1))
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, strings.TrimPrefix(name, "settings.")+"="+set[name])
	}
	out := make([]string, 0, 2*len(args))
	for _, a := range args {
		out = append(out, "-c", a)
	}
	return out
}

// postgresScript creates a server's files unless they exist, and then becomes the server. A folder gets its final name
// only when it is complete, so the script recreates an unfinished folder. Passwords are in the environment and in files
// that only the server's user can read, but never in arguments.
const postgresScript = `set -eu
umask 077
db=/data/db new=/data/new
export PGPASSFILE=/data/passwords PGCONNECT_TIMEOUT=10
printf '*:*:*:` + replicator + `:%s\n' "$REPLICATION_PASSWORD" >"$PGPASSFILE"
if [ ! -d "$db" ]; then
  rm -rf "$new"
  if [ "$GEOBENCH_HOST" = "$PRIMARY" ]; then
    printf '%s' "$SUPERUSER_PASSWORD" >/data/superuser
    initdb -D "$new" --username=postgres --pwfile=/data/superuser --encoding=UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256
    rm -f /data/superuser
    printf 'host all all all scram-sha-256\nhost replication ` + replicator + ` all scram-sha-256\n' >>"$new/pg_hba.conf"
    printf "CREATE ROLE ` + replicator + ` REPLICATION LOGIN PASSWORD '%s'\n" "$REPLICATION_PASSWORD" | postgres --single -D "$new" postgres >/dev/null
  else
    until pg_basebackup -h "$PRIMARY" -U ` + replicator + ` -w -D "$new" -R -X stream -c fast; do
      rm -rf "$new"
      sleep 1
    done
  fi
  mv "$new" "$db"
fi
unset SUPERUSER_PASSWORD REPLICATION_PASSWORD
exec postgres -D "$db" "$@"
`
