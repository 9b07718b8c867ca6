package servers

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/deploy"
)

const (
	replicator = "replicator"
	// postgresImage is the official one, whose user postgres is 999.
	postgresImage = "docker.io/library/postgres:17.5"
	postgresUser  = 999
	settingPrefix = "settings."
)

// postgresLogins are the superuser, who is what clients log in as, and whom standbys stream as.
var postgresLogins = []login{{"login", "postgres"}, {"replication", replicator}}

// The synchronous replication of a commit.
const (
	// syncOff: the primary's log alone.
	syncOff = "Off"
	// syncQuorum: the log of so many standbys that, with the primary, most servers have it.
	syncQuorum = "Quorum"
	// syncRemoteApply: all standbys show it to readers.
	syncRemoteApply = "RemoteApply"
)

// settings are those of postgresql.conf that a manifest may set, and the form of their values. The others are the renderer's, or
// would make of it another database.
var settings = map[string]*regexp.Regexp{
	"autovacuum":                          boolean,
	"checkpoint_completion_target":        number,
	"checkpoint_timeout":                  duration,
	"commit_delay":                        integer,
	"commit_siblings":                     integer,
	"deadlock_timeout":                    duration,
	"default_statistics_target":           integer,
	"effective_cache_size":                size,
	"effective_io_concurrency":            integer,
	"fsync":                               boolean,
	"full_page_writes":                    boolean,
	"hot_standby_feedback":                boolean,
	"idle_in_transaction_session_timeout": duration,
	"jit":                                 boolean,
	"lock_timeout":                        duration,
	"maintenance_work_mem":                size,
	"max_connections":                     integer,
	"max_locks_per_transaction":           integer,
	"max_parallel_workers":                integer,
	"max_parallel_workers_per_gather":     integer,
	"max_pred_locks_per_page":             integer,
	"max_pred_locks_per_relation":         regexp.MustCompile(`^-?[0-9]+$`),
	"max_pred_locks_per_transaction":      integer,
	"max_standby_streaming_delay":         duration,
	"max_wal_size":                        size,
	"min_wal_size":                        size,
	"random_page_cost":                    number,
	"seq_page_cost":                       number,
	"shared_buffers":                      size,
	"statement_timeout":                   duration,
	"temp_buffers":                        size,
	"wal_buffers":                         size,
	"wal_compression":                     regexp.MustCompile(`^(on|off|pglz|lz4|zstd)$`),
	"wal_keep_size":                       size,
	"wal_receiver_status_interval":        duration,
	"wal_sender_timeout":                  duration,
	"wal_receiver_timeout":                duration,
	"wal_writer_delay":                    duration,
	"work_mem":                            size,
}

var (
	boolean  = regexp.MustCompile(`^(on|off)$`)
	integer  = regexp.MustCompile(`^[0-9]+$`)
	number   = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	size     = regexp.MustCompile(`^[0-9]+(B|kB|MB|GB)$`)
	duration = regexp.MustCompile(`^(0|-1|[0-9]+(us|ms|s|min|h|d))$`)
)

// form says what a value has to be, for people.
func form(r *regexp.Regexp) string {
	switch r {
	case boolean:
		return "on or off"
	case integer:
		return "a whole number, 0 or more"
	case number:
		return "a number like 0.9"
	case size:
		return "a size with its unit, B, kB, MB or GB, like 256MB"
	case duration:
		return "a duration with its unit, us, ms, s, min, h or d, like 30s"
	}
	return "of the form " + r.String()
}

// renderPostgres is PostgreSQL: a primary, and standbys that stream from it in all other pods.
func renderPostgres(db *v1alpha1.GeoDatabase) (*v1alpha1.Pods, map[string]string, []Problem) {
	problems := nodes(db)
	regions := db.Spec.RegionNames()
	primary, synchronous, image, user := "", syncOff, postgresImage, int64(postgresUser)
	clients := map[string]string{"tls": "disable"}
	set := map[string]string{}
	bad := func(name, value, format string, args ...any) {
		problems = append(problems, Problem{Field: "spec.engine.parameters." + name, Value: value, Message: fmt.Sprintf(format, args...)})
	}
	if len(regions) > 0 {
		primary = regions[0]
	}
	for name, value := range db.Spec.Engine.Parameters {
		setting, isSetting := strings.CutPrefix(name, settingPrefix)
		switch {
		case isSetting:
			rule, ok := settings[setting]
			switch {
			case !ok:
				problems = append(problems, Problem{Field: "spec.engine.parameters." + name, Value: value, Known: prefixed(slices.Sorted(maps.Keys(settings))),
					Message: fmt.Sprintf("%s is no setting of PostgreSQL that can be set here; use spec.pods for a server of another make", setting)})
			case !rule.MatchString(value):
				bad(name, value, "%q is not %s", value, form(rule))
			default:
				set[setting] = value
			}
		case name == "primary":
			if !slices.Contains(regions, value) {
				bad(name, value, "region %s is not in spec.regions; they are %s", value, oneOf(regions))
				continue
			}
			primary = value
		case name == "synchronous":
			if modes := []string{syncOff, syncQuorum, syncRemoteApply}; !slices.Contains(modes, value) {
				bad(name, value, "%q is not one of %s", value, oneOf(modes))
				continue
			}
			synchronous = value
		case name == "image":
			if u, err := url.Parse("docker://" + value); err != nil || u.Path == "" || strings.ContainsAny(value, " \t\n") {
				bad(name, value, "%q is not REGISTRY/NAME:TAG", value)
				continue
			}
			image = value
		case name == "user":
			n, err := strconv.ParseInt(value, 10, 32)
			if err != nil || n < 1 {
				bad(name, value, "%q is not the number of a user of the image, from 1 on: root runs no server", value)
				continue
			}
			user = n
		case name == "tls" && value != "disable":
			bad(name, value, "a server that the operator makes has no certificate: set tls to disable or leave it out; spec.pods can bring a server that has one")
		default:
			clients[name] = value
		}
	}
	servers := len(regions) * int(max(db.Spec.NodesPerRegion(), 1))
	if synchronous != syncOff && servers == 1 {
		bad("synchronous", synchronous, "there is no standby to wait for: add a region, or set synchronous to %s", syncOff)
	}
	if n, err := strconv.Atoi(set["max_connections"]); set["max_connections"] != "" && (err != nil || n < 1+servers || n > 262143) {
		bad(settingPrefix+"max_connections", set["max_connections"], "%s is not from %d, one for each server and one for clients, to 262143", set["max_connections"], 1+servers)
	}
	if len(problems) > 0 {
		return nil, nil, problems
	}
	return &v1alpha1.Pods{
		Image:   image,
		Command: []string{"sh", "-c", postgresScript, "postgres"},
		Args:    postgresArgs(synchronous, servers, set),
		Env: []v1alpha1.PodEnv{
			{Name: "PRIMARY", Value: deploy.Host(db.Name, primary, db.Namespace, 0)},
			{Name: "SUPERUSER_PASSWORD", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secretName(db, postgresLogins[0]), Key: KeyPassword}},
			{Name: "REPLICATION_PASSWORD", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: secretName(db, postgresLogins[1]), Key: KeyPassword}},
		},
		Ports:                         []v1alpha1.PodPort{{Name: "postgres", Port: 5432}},
		Volumes:                       []v1alpha1.PodVolume{{Name: "data", MountPath: "/data", SizeLimit: ptr.To(resource.MustParse("8Gi"))}},
		User:                          &user,
		TerminationGracePeriodSeconds: ptr.To[int32](10),
		Client: &v1alpha1.PodsClient{
			Region: primary, Database: "postgres", SecretRef: v1alpha1.LocalReference{Name: secretName(db, postgresLogins[0])},
		},
	}, clients, nil
}

func prefixed(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = settingPrefix + n
	}
	return out
}

// postgresArgs are the server's: the same for all, as a standby needs what its primary has.
func postgresArgs(synchronous string, servers int, set map[string]string) []string {
	args := []string{"listen_addresses=*", "port=5432", "unix_socket_directories=/data", "wal_level=replica", "hot_standby=on",
		"max_wal_senders=" + strconv.Itoa(max(10, 2*servers)), "logging_collector=off"}
	switch synchronous {
	case syncQuorum:
		args = append(args, "synchronous_commit=on", fmt.Sprintf("synchronous_standby_names=ANY %d (*)", servers/2))
	case syncRemoteApply:
		args = append(args, "synchronous_commit=remote_apply", fmt.Sprintf("synchronous_standby_names=ANY %d (*)", servers-1))
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		args = append(args, name+"="+set[name])
	}
	out := make([]string, 0, 2*len(args))
	for _, a := range args {
		out = append(out, "-c", a)
	}
	return out
}

// postgresScript makes a server's files unless they are there, and becomes the server. A folder that was not finished is made anew: only a
// whole one gets its name. Passwords are in the environment and in files that the server's user alone reads, and in no argument.
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
