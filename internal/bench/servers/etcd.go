package servers

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// goDuration matches a duration in Go's format.
var goDuration = regexp.MustCompile(`^[0-9]+(ms|s|m|h)$`)

// etcd is a cluster in which every pod is a member. The clients of each region connect to the region's first member.
// The image is the official one, which has no shell. Members require no authentication. The login exists only because
// every database in this package has a login.
var etcd = server{
	product: "etcd",
	settings: map[string]*regexp.Regexp{
		"settings.auto-compaction-mode":      regexp.MustCompile(`^(periodic|revision)$`),
		"settings.auto-compaction-retention": regexp.MustCompile(`^[0-9]+(m|h)?$`),
		"settings.backend-batch-interval":    goDuration,
		"settings.backend-batch-limit":       integer,
		"settings.election-timeout":          integer,
		"settings.heartbeat-interval":        integer,
		"settings.max-request-bytes":         integer,
		"settings.quota-backend-bytes":       integer,
		"settings.snapshot-count":            integer,
		"settings.pre-vote":                  trueOrFalse,
		"settings.unsafe-no-fsync":           trueOrFalse,
	},
	image: "quay.io/coreos/etcd:v3.6.5", user: 65532,
	logins: []login{{"login", "geobench"}},
	own:    func(*reading, string, string) bool { return false },
	pods:   etcdPods,
}

var trueOrFalse = regexp.MustCompile(`^(true|false)$`)

// Heartbeat interval and election timeout, in milliseconds. With etcd's defaults, 100 and 1000, members across a slow
// link would consider the leader dead. etcd's tuning guide recommends about one and ten round trips.
const (
	etcdHeartbeat = "300"
	etcdElection  = "3000"
)

// etcdReady is the path of the readiness probe. A member answers the probe only after it has joined the cluster, which
// takes a majority. From then on, it answers from its local state. A partitioned member or a member without free space
// therefore stays ready, because runs measure its behavior.
const etcdReady = "/health?serializable=true&exclude=NOSPACE"

func etcdPods(r *reading) *v1alpha1.Pods {
	var members []string
	for _, host := range r.hosts() {
		members = append(members, host+"=http://"+host+":2380")
	}
	flags := map[string]string{
		"heartbeat-interval": etcdHeartbeat, "election-timeout": etcdElection,
		// the clients build requests up to this limit, so the servers must accept it
		"max-txn-ops": cmp.Or(r.clients["maxTxnOps"], "128"),
	}
	for name, value := range r.settings {
		flags[strings.TrimPrefix(name, "settings.")] = value
	}
	heartbeat, _ := strconv.Atoi(flags["heartbeat-interval"])
	// etcd refuses to start with an election timeout below five heartbeats or above 50 s.
	if election, _ := strconv.Atoi(flags["election-timeout"]); election < 5*heartbeat || election > 50_000 {
		name := "settings.election-timeout"
		r.bad(name, r.settings[name], "%d ms is not at least five times the heartbeat-interval of %d ms and at most 50000 ms, as etcd asks", election, heartbeat)
	}
	args := []string{
		"--name=$(GEOBENCH_HOST)", "--data-dir=/data/etcd", "--initial-cluster-state=new", "--initial-cluster-token=" + r.Namespace + "-" + r.Name,
		"--listen-client-urls=http://0.0.0.0:2379", "--advertise-client-urls=http://$(GEOBENCH_HOST):2379",
		"--listen-peer-urls=http://0.0.0.0:2380", "--initial-advertise-peer-urls=http://$(GEOBENCH_HOST):2380",
		"--initial-cluster=" + strings.Join(members, ","), "--logger=zap", "--log-level=warn",
	}
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, "--"+name+"="+flags[name])
	}
	return &v1alpha1.Pods{
		Program: v1alpha1.Program{
			Command: []string{"etcd"},
			Args:    args,
			Ports:   []v1alpha1.PodPort{{Name: "clients", Port: 2379}, {Name: "members", Port: 2380}},
			Ready:   &v1alpha1.PodReady{HTTP: &v1alpha1.PodReadyHTTP{Port: 2379, Path: etcdReady}},
		},
		Client: &v1alpha1.PodsClient{},
	}
}
