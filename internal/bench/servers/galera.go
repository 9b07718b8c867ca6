package servers

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

var (
	// shortSize matches a size in MariaDB's format.
	shortSize = regexp.MustCompile(`^[0-9]+[KMG]$`)
	// period matches a duration in Galera's format.
	period = regexp.MustCompile(`^PT[0-9]+(\.[0-9]+)?S$`)
)

// galera is MariaDB with Galera. Every pod accepts writes, and the clients of each region connect to the region's first
// pod. The image is the official image of MariaDB, in which user mysql has ID 999.
var galera = server{
	product: "MariaDB or Galera",
	settings: map[string]*regexp.Regexp{
		"settings.innodb_buffer_pool_size":        shortSize,
		"settings.innodb_flush_log_at_trx_commit": regexp.MustCompile(`^[0-3]$`),
		"settings.innodb_flush_method":            regexp.MustCompile(`^(fsync|O_DSYNC|O_DIRECT|O_DIRECT_NO_FSYNC)$`),
		"settings.innodb_io_capacity":             integer,
		"settings.innodb_lock_wait_timeout":       integer,
		"settings.innodb_log_buffer_size":         shortSize,
		"settings.innodb_log_file_size":           shortSize,
		"settings.innodb_read_io_threads":         integer,
		"settings.innodb_write_io_threads":        integer,
		"settings.max_connections":                integer,
		"settings.sync_binlog":                    integer,
		"settings.table_open_cache":               integer,
		"settings.thread_cache_size":              integer,
		"settings.wsrep_retry_autocommit":         integer,
		"settings.wsrep_slave_threads":            integer,
		"settings.wsrep_trx_fragment_size":        integer,
		"provider.evs.inactive_check_period":      period,
		"provider.evs.inactive_timeout":           period,
		"provider.evs.keepalive_period":           period,
		"provider.evs.send_window":                integer,
		"provider.evs.suspect_timeout":            period,
		"provider.evs.user_send_window":           integer,
		"provider.gcache.size":                    shortSize,
		"provider.gcs.fc_factor":                  number,
		"provider.gcs.fc_limit":                   integer,
		"provider.gcs.max_packet_size":            integer,
		"provider.repl.max_ws_size":               integer,
	},
	image: "docker.io/library/mariadb:11.4", user: 999,
	logins: []login{{"login", "bench"}},
	own:    func(*reading, string, string) bool { return false },
	pods:   galeraPods,
}

// Send windows that Galera's documentation recommends for wide-area networks (WAN Replication). With the defaults of 4
// and 2 messages in flight, a link of 200 ms carries less than a megabyte per second.
const (
	galeraSendWindow = "1024"
	galeraUserWindow = "512"
)

// galeraDatabase is the name of the clients' database.
const galeraDatabase = "bench"

func galeraPods(r *reading) *v1alpha1.Pods {
	const limit = "settings.max_connections"
	if text, ok := r.settings[limit]; ok {
		if n, err := strconv.Atoi(text); err != nil || n < 10 || n > 100_000 {
			r.bad(limit, text, "%s is not from 10 to 100000", text)
		}
	}
	provider := map[string]string{"provider.gcache.size": "128M", "provider.evs.send_window": galeraSendWindow, "provider.evs.user_send_window": galeraUserWindow}
	// Parameters override the defaults for wide-area networks.
	maps.Copy(provider, r.settings)
	var options, args []string
	for _, name := range slices.Sorted(maps.Keys(provider)) {
		if option, ok := strings.CutPrefix(name, "provider."); ok {
			options = append(options, option+"="+provider[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.settings)) {
		if setting, ok := strings.CutPrefix(name, "settings."); ok {
			args = append(args, "--"+setting+"="+r.settings[name])
		}
	}
	return &v1alpha1.Pods{
		Program: v1alpha1.Program{
			Command: []string{"bash", "-c", galeraScript, "galera"},
			Args:    append(args, "--wsrep-provider-options="+strings.Join(options, ";")),
			Env: []v1alpha1.PodEnv{
				r.password("CLIENT_PASSWORD", 0),
			},
			Ports: []v1alpha1.PodPort{
				{Name: "mysql", Port: 3306}, {Name: "members", Port: 4567}, {Name: "increments", Port: 4568}, {Name: "snapshots", Port: 4444},
			},
			// The default probe connects, and a server listens only once it has copied the rows. A check for the state Synced
			// would be stricter, but it would make a partitioned server unready, which stops runs.
		},
		Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Database: galeraDatabase}},
	}
}

// galeraScript creates the first server's files unless they exist, and then runs a server. The other servers copy their
// files, including users and passwords, from a running server.
//
// Only the first server may start a cluster, and only if no other server answers. In addition, its files must be new,
// or it must have been the last running server of the cluster. Otherwise a second cluster could start unnoticed next to
// the running servers.
const galeraScript = `set -eu
umask 077
db=/data/db new=/data/new first=${GEOBENCH_HOSTS%%,*}
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }
join=gcomm://$GEOBENCH_HOSTS
if [ "$GEOBENCH_HOST" = "$first" ]; then
  if [ ! -d "$db" ]; then
    rm -rf "$new"
    mariadb-install-db --no-defaults --datadir="$new" --auth-root-authentication-method=socket --skip-test-db --skip-name-resolve >/dev/null
    printf "FLUSH PRIVILEGES;\nCREATE DATABASE ` + galeraDatabase + `;\nCREATE USER bench@'%%' IDENTIFIED BY '%s';\nGRANT ALL ON *.* TO bench@'%%';\n" "$CLIENT_PASSWORD" |
      mariadbd --no-defaults --bootstrap --datadir="$new" --skip-name-resolve
    mv "$new" "$db"
  fi
  if [ ! -e "$db/grastate.dat" ] || grep -q '^safe_to_bootstrap: 1' "$db/grastate.dat"; then
    join=gcomm://
    for host in ${GEOBENCH_HOSTS//,/ }; do
      if [ "$host" != "$first" ] && answers "$host" 4567; then
        join=gcomm://$GEOBENCH_HOSTS
      fi
    done
  fi
elif [ ! -d "$db" ]; then
  until answers "$first" 3306; do sleep 1; done
  mkdir "$db"
fi
unset CLIENT_PASSWORD
for provider in /usr/lib/galera/libgalera_smm.so /usr/lib64/galera-4/libgalera_smm.so /usr/lib64/galera/libgalera_smm.so; do
  if [ -e "$provider" ]; then break; fi
done
exec mariadbd --no-defaults --datadir="$db" --socket=/data/socket --pid-file=/data/pid --tmpdir=/data --bind-address=0.0.0.0 --port=3306 --skip-name-resolve \
  --log-warnings=1 --binlog-format=ROW --default-storage-engine=InnoDB --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-provider="$provider" \
  --wsrep-cluster-name=geobench --wsrep-cluster-address="$join" --wsrep-node-name="$GEOBENCH_HOST" --wsrep-node-address="$GEOBENCH_HOST" --wsrep-sst-method=rsync "$@"
`
