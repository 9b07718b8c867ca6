package servers

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// oceanbase consists of identical servers. Each region is a zone whose servers store a copy of all rows. Clients have a
// separate tenant. Servers identify each other by IP address, so each server has a Service with a permanent address.
// The facts come from OceanBase's documentation, its operator and its images.
var oceanbase = cluster{
	facts: Facts{
		Product: "OceanBase", Protocol: "MySQL", Port: 2881, User: "bench@bench, of the tenant bench, created when the cluster is initialised; root has no password",
		Isolation: []string{"SnapshotIsolation (REPEATABLE READ; OceanBase's SERIALIZABLE is the same level)", "ReadCommitted"},
		Retry:     []string{"6235", "6002", "6224", "1213", "1205"}, Ambiguous: []string{"4012", "6225"},
		Tolerates: "one region of three, two of five; an observer whose pod is deleted restarts at the same address without its files, and the others continue without it",
		Placement: "LOCALITY and PRIMARY_ZONE of a tenant; tables and rows have no region of their own",
		Licence:   "Mulan PubL 2.0",
	},
	logins: []login{{"login", oceanbaseTenant + "@" + oceanbaseTenant}}, database: oceanbaseTenant,
	leader: "observer",
	parts: []part{{
		name: "observer", image: "docker.io/oceanbase/oceanbase-cloud-native:4.3.5.3-103000092025080818", user: 65532, client: true, memory: "8Gi", disk: "24Gi",
		secret: "BENCH_PASSWORD", servicePerPod: true,
		// The default probe only connects. A server accepts connections before the cluster starts, which is sufficient for
		// the steps.
		ports: []v1alpha1.PodPort{{Name: "sql", Port: 2881}, {Name: "rpc", Port: 2882}},
		settings: map[string]*regexp.Regexp{
			"cpu_count": someInteger, "datafile_size": shortSize, "log_disk_size": shortSize, "memory_limit": shortSize, "rpc_timeout": someDuration, "system_memory": shortSize,
		},
		// The vendor's defaults are shares of the machine. cpu_count is the minimum that the vendor's operator sets for a
		// server, whatever the server's CPU limit is, so that the server has enough threads.
		defaults: map[string]string{"cpu_count": "16", "datafile_size": "5G", "log_disk_size": "12G", "memory_limit": "6G", "system_memory": "1G"},
		shell:    "bash", script: oceanbaseServer, args: oceanbaseOptions,
	}},
	knobs: func(r *reading, set map[string]string) {
		fill(set, "rpc_timeout", milliseconds(max(2*time.Second, 10*r.longest))+"ms")
		if n := len(r.regions); n > oceanbaseZones {
			r.problems = append(r.problems, Problem{Field: "spec.regions", Value: strconv.Itoa(n),
				Message: fmt.Sprintf("each region has a copy that votes, and OceanBase takes at most %d of these: name fewer regions", oceanbaseZones)})
		}
	},
	steps: func(r *reading) []v1alpha1.InitStep {
		perRegion := "1"
		if n := r.words["perRegion.observer"]; n != "" {
			perRegion = n
		}
		var locality, others []string
		for i := range r.regions {
			locality = append(locality, "F@"+zone(i))
			if r.regions[i] != leaderOf(r) {
				others = append(others, zone(i))
			}
		}
		primary := zone(slices.Index(r.regions, leaderOf(r)))
		if len(others) > 0 {
			primary += ";" + strings.Join(others, ",")
		}
		return []v1alpha1.InitStep{
			step("cluster", "observer", "bash", "-c", oceanbaseCluster, "cluster", perRegion),
			step("tenant", "observer", "bash", "-c", oceanbaseMakesTenant, "tenant", perRegion, strings.Join(locality, ","), primary),
		}
	},
}

const (
	// oceanbaseTenant is the name of the clients' tenant, its database and its user.
	oceanbaseTenant = "bench"
	// oceanbaseZones is the maximum number of voting copies of a row.
	oceanbaseZones = 7
)

// zone returns the name of the OceanBase zone for the region with this index. Region names cannot be used, because they
// contain dashes.
func zone(region int) string { return fmt.Sprintf("z%d", region+1) }

// oceanbaseOptions returns the settings as a single argument. The options also permit resource units of 2 GiB, and
// limit the logs so that they do not fill the disk.
func oceanbaseOptions(settings map[string]string) []string {
	all := map[string]string{"__min_full_resource_pool_memory": "2147483648", "enable_syslog_recycle": "true", "max_syslog_file_count": "4"}
	maps.Copy(all, settings)
	var options []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		options = append(options, name+"="+all[name])
	}
	return []string{strings.Join(options, ",")}
}

// oceanbaseServer starts an observer, which announces the permanent address of its Service and listens on all
// addresses. An observer with existing files reads its options from them.
const oceanbaseServer = `set -eu
unset BENCH_PASSWORD
home=/home/admin/oceanbase
export LD_LIBRARY_PATH="$home/lib" HOME=/data
until own=$(getent ahostsv4 "$GEOBENCH_HOST"); do sleep 1; done
mkdir -p /data/store/clog /data/store/ilog /data/store/slog /data/store/sstable /data/store/sort_dir
cd /data
if [ -e /data/etc/observer.config.bin ]; then
  exec "$home/bin/observer" --nodaemon
fi
exec "$home/bin/observer" --nodaemon --appname geobench --cluster_id 1 --zone "z$((GEOBENCH_REGION_INDEX + 1))" -I "${own%% *}" \
  -p 2881 -P 2882 -d /data/store -l WARN -o "$1"
`

// oceanbaseSQL defines the shell function sql, which sends statements from standard input to the first server, as the
// given user. Passwords never appear in arguments, which other processes could read.
const oceanbaseSQL = `client=$(command -v obclient || command -v mysql) || { echo "the image has neither obclient nor mysql, by which the step asks the servers"; exit 1; }
sql() { "$client" --connect-timeout=10 -h "${GEOBENCH_HOSTS%%,*}" -P 2881 -u "$1" -N -B; }`

// oceanbaseCluster starts a cluster with the first server of each region unless a cluster exists, and then adds the
// missing servers.
const oceanbaseCluster = `set -eu
` + oceanbaseSQL + `
hosts=(${GEOBENCH_HOSTS//,/ }) regions=(${GEOBENCH_REGIONS//,/ }) first= more=()
for i in "${!hosts[@]}"; do
  until found=$(getent ahostsv4 "${hosts[i]}"); do sleep 2; done
  address=${found%% *}:2882 n=$((i / $1))
  if [ $((i % $1)) = 0 ]; then
    first="$first, REGION \"${regions[n]}\" ZONE \"z$((n + 1))\" SERVER \"$address\""
  else
    more+=("$address z$((n + 1))")
  fi
done
until known=$(echo "SELECT CONCAT(svr_ip, ':', svr_port) FROM oceanbase.DBA_OB_SERVERS;" | sql root); do
  echo "SET SESSION ob_query_timeout = 1000000000; ALTER SYSTEM BOOTSTRAP${first#,};" | sql root || sleep 2
done
for server in "${more[@]}"; do
  case " "${known//$'\n'/ }" " in
  *" ${server% *} "*) ;;
  *) echo "ALTER SYSTEM ADD SERVER '${server% *}' ZONE '${server#* }';" | sql root ;;
  esac
done
`

// oceanbaseMakesTenant creates the clients' tenant with a unit on each server, and then the tenant's database and user.
// It does not change existing objects.
const oceanbaseMakesTenant = `set -eu
` + oceanbaseSQL + `
zones=${2//F@/} zones="'${zones//,/\',\'}'"
until sql root <<END
SET SESSION ob_query_timeout = 1000000000;
CREATE RESOURCE UNIT IF NOT EXISTS ` + oceanbaseTenant + ` MAX_CPU 4, MIN_CPU 4, MEMORY_SIZE '2G', LOG_DISK_SIZE '6G';
CREATE RESOURCE POOL IF NOT EXISTS ` + oceanbaseTenant + ` UNIT '` + oceanbaseTenant + `', UNIT_NUM $1, ZONE_LIST ($zones);
CREATE TENANT IF NOT EXISTS ` + oceanbaseTenant + ` RESOURCE_POOL_LIST = ('` + oceanbaseTenant + `'), LOCALITY = '$2', PRIMARY_ZONE = '$3' SET ob_tcp_invited_nodes = '%', ob_compatibility_mode = 'mysql';
END
do sleep 2; done
until sql root@` + oceanbaseTenant + ` <<END
CREATE DATABASE IF NOT EXISTS ` + oceanbaseTenant + `;
CREATE USER IF NOT EXISTS '` + oceanbaseTenant + `'@'%' IDENTIFIED BY '$BENCH_PASSWORD';
GRANT ALL ON ` + oceanbaseTenant + `.* TO '` + oceanbaseTenant + `'@'%';
END
do sleep 2; done
`
