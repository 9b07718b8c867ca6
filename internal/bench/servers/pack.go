package servers

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// pack describes, as data, a vendor's database whose servers are identical. The servers find each other by the list of
// hosts, and distribute the rows themselves. Neither these databases nor their clients have been run in Geobench yet.
type pack struct {
	facts Facts
	// image is pinned to a version. user is the numeric user ID that the server runs as.
	image string
	user  int64
	// login is the clients' user, and database the name of the clients' database.
	login    login
	database string
	// ports are the servers' ports, the clients' port first.
	ports []v1alpha1.PodPort
	// ready is the probe that succeeds once the server accepts clients.
	ready *v1alpha1.PodReady
	// env are additional environment variables, which are the same in all pods.
	env []v1alpha1.PodEnv
	// script is a bash script whose arguments are the flags. It makes the servers form one cluster, regardless of the
	// order in which they start. It ends with an exec of the server.
	script string
	// flags are the flags that the parameters settings.NAME may set, with the pattern of their values. defaults replace
	// vendor defaults that assume a dedicated machine.
	flags    map[string]*regexp.Regexp
	defaults map[string]string
}

// server returns the server that renders the pack.
func (p pack) server() server {
	settings := map[string]*regexp.Regexp{}
	for name, rule := range p.flags {
		settings["settings."+name] = rule
	}
	return server{
		product: p.facts.Product, logins: []login{p.login}, facts: &p.facts, settings: settings, image: p.image, user: p.user, shared: true,
		own: func(r *reading, name, value string) bool {
			return r.unknown(name, value, append(slices.Sorted(maps.Keys(settings)), "image", "user"))
		},
		pods: func(r *reading) *v1alpha1.Pods {
			flags := maps.Clone(p.defaults)
			for name, value := range r.settings {
				flags[strings.TrimPrefix(name, "settings.")] = value
			}
			var args []string
			for _, name := range slices.Sorted(maps.Keys(flags)) {
				args = append(args, "--"+name+"="+flags[name])
			}
			return &v1alpha1.Pods{Client: &v1alpha1.PodsClient{ProgramClient: v1alpha1.ProgramClient{Database: p.database}}, Program: v1alpha1.Program{
				Command: []string{"bash", "-c", p.script, r.Spec.Engine.Name}, Args: args, Env: slices.Clone(p.env), Ports: slices.Clone(p.ports), Ready: p.ready.DeepCopy(),
			}}
		},
	}
}

var (
	// binarySize matches a size in CockroachDB's format.
	binarySize = regexp.MustCompile(`^[1-9][0-9]*(MiB|GiB)$`)
	// someDuration matches a goDuration longer than 0.
	someDuration = regexp.MustCompile(`^[1-9][0-9]*(ms|s)$`)
)

// cockroachdb is a cluster of servers that know their region (--locality), without certificates and passwords. The
// facts come from CockroachDB's documentation of cockroach start and its Helm chart.
var cockroachdb = pack{
	facts: Facts{
		Product: "CockroachDB", Protocol: "PostgreSQL", Port: 26257, User: "root, without a password",
		Isolation: []string{"Serializable", "ReadCommitted"},
		Retry:     []string{"40001"}, Ambiguous: []string{"40003"},
		Tolerates: "one region of three; a server whose pod is deleted joins as a new server",
		Placement: "ALTER DATABASE SET PRIMARY REGION, SURVIVE REGION FAILURE; tables REGIONAL BY ROW, REGIONAL BY TABLE, GLOBAL",
		Licence:   "CockroachDB's own: limited to five concurrent transactions after seven days without a key",
	},
	image: "docker.io/cockroachdb/cockroach:v25.4.11", user: 1000, login: login{"login", "root"}, database: "defaultdb",
	ports: []v1alpha1.PodPort{{Name: "sql", Port: 26257}, {Name: "http", Port: 8080}},
	ready: &v1alpha1.PodReady{HTTP: &v1alpha1.PodReadyHTTP{Port: 8080, Path: "/health?ready=1"}},
	env:   []v1alpha1.PodEnv{{Name: "COCKROACH_SKIP_ENABLING_DIAGNOSTIC_REPORTING", Value: "true"}},
	flags: map[string]*regexp.Regexp{
		"cache":          binarySize,
		"max-offset":     someDuration,
		"max-sql-memory": binarySize,
	},
	// The vendor's defaults are shares of the machine's memory, which are too large if several servers share a machine.
	defaults: map[string]string{"cache": "128MiB", "max-sql-memory": "128MiB"},
	script:   cockroachScript,
}

// cockroachScript runs a server. On the first host it also initializes the cluster, but only while all servers report
// that they belong to no cluster. If the first server initialized a cluster after losing its files, this second cluster
// would run next to the other servers' cluster.
const cockroachScript = `set -eu
export PATH="/cockroach:$PATH" HOME=/data
until getent hosts "$GEOBENCH_HOST" >/dev/null; do sleep 1; done
health() {
  timeout 10 bash -c 'exec 3<>"/dev/tcp/$1/8080" && printf "GET /health?ready=1 HTTP/1.0\r\n\r\n" >&3 && cat <&3' health "$1" 2>/dev/null || true
}
begin() {
  while true; do
    waiting=yes
    for host in ${GEOBENCH_HOSTS//,/ }; do
      case $(health "$host") in
      *'waiting for cluster initialization'*) ;;
      *' 200 '*) return ;;
      *) waiting= ;;
      esac
    done
    if [ "$waiting" ]; then
      cockroach init --insecure --host="$GEOBENCH_HOST:26257" || true
    fi
    sleep 1
  done
}
if [ "$GEOBENCH_HOST" = "${GEOBENCH_HOSTS%%,*}" ]; then
  begin &
fi
exec cockroach start --insecure --store=path=/data/store --join="$GEOBENCH_HOSTS" --locality="region=$GEOBENCH_REGION" \
  --listen-addr=:26257 --advertise-addr="$GEOBENCH_HOST:26257" --http-addr=:8080 --logtostderr=WARNING "$@"
`
