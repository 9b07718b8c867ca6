//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/geobench/geobench/internal/bench/result"
)

// deployed is a database of another vendor that the operator can deploy.
type deployed struct {
	engine     string
	image      string // environment variable that contains the image
	parameters string
	server     string // name under which the server reports itself
	level      string // isolation level with which its histories are checked
	retry      string // spec.load.retry of its clients
	database   string // database name and port that clients use
	port       int
}

var deployedDatabases = []deployed{
	{"postgres", "GEOBENCH_POSTGRES", "{primary: us-east-1, isolation: Serializable, settings.shared_buffers: 64MB}", "PostgreSQL 15", "serializable", "{attempts: 20, causes: [Conflict]}", "postgres", 5432},
	{"galera", "GEOBENCH_GALERA", "{isolation: SnapshotIsolation, settings.innodb_buffer_pool_size: 64M, provider.gcache.size: 16M}", "MariaDB 10.11", "snapshot-isolation", "{attempts: 20, causes: [Conflict]}", "bench", 3306},
	{"etcd", "GEOBENCH_ETCD", "{maxTxnOps: \"512\", leader: \"0\"}", "etcd 3.7", "strict-serializable", "{attempts: 20, causes: [Conflict]}", "", 2379},
}

// needsImage returns the image in an environment variable. It skips the test if the variable is not set.
func needsImage(t *testing.T, variable string) string {
	t.Helper()
	image := os.Getenv(variable)
	if image == "" {
		t.Skipf("%s is not set: the image is not on the node; make e2e-databases loads it", variable)
	}
	return image
}

// TestDatabases makes the operator deploy each database over three regions, given only its name. It measures SmallBank
// while a region is temporarily isolated, and then TPC-C. It checks the histories against the level that the database
// promises.
func TestDatabases(t *testing.T) {
	for _, d := range deployedDatabases {
		t.Run(d.engine, func(t *testing.T) {
			image := needsImage(t, d.image)
			c := newCluster(t)
			c.privileged(t)
			begin := time.Now()
			c.apply(t, fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine:
    name: %s
    parameters: {image: %q, user: "65532", connections: "20", %s
  regions: [{name: us-east-1}, {name: eu-west-1}, {name: ap-northeast-1}]
  network: {profileRef: {name: aws}, emulation: Sidecar}
`, d.engine, image, strings.TrimPrefix(d.parameters, "{")))
			db := c.awaitVerified(t, "db", 4*time.Minute)
			ready := time.Since(begin).Round(time.Second)
			for _, l := range db.Status.Links {
				t.Logf("%s -> %s: declared %d us, measured %d us", l.From, l.To, l.DeclaredRTTMicroseconds, l.MeasuredRTTMicroseconds.P50)
			}

			smallbank := c.measure(t, "smallbank", "{smallbank: {customers: 3000, multiHomePercent: 30}}", "[Isolation, Invariants]", "20s", d.retry, `
  faults:
  - {name: cut, at: 8s, duration: 3s, networkPartition: {from: {regions: [ap-northeast-1]}}}`)
			checked := false
			for _, check := range smallbank.Checks {
				t.Logf("%s: %s", check.Name, check.Message)
				checked = checked || check.Name == d.level && check.Passed
			}
			if !checked {
				t.Errorf("its histories were not held to %s", d.level)
			}
			if smallbank.Target == nil || !strings.HasPrefix(smallbank.Target.Server, d.server) {
				t.Errorf("the result says of the server: %+v", smallbank.Target)
			}
			text, err := json.Marshal(smallbank)
			if err != nil {
				t.Fatal(err)
			}
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "db-" + d.engine + "-login"}, secret); err != nil {
				t.Fatal(err)
			}
			if password := string(secret.Data["password"]); len(password) < 16 || strings.Contains(string(text), password) {
				t.Errorf("the password has %d characters, or is in the result", len(password))
			}
			memory := c.memory(t)
			c.measuredFromOutside(t, &d)
			c.measure(t, "tpcc", "{tpcc: {remote: {newOrderPercent: 10, paymentPercent: 15, multiHomePercent: 100}}}", "[Invariants]", "15s", d.retry, "")
			t.Logf("%s: ready and verified after %s; memory of each server after SmallBank, in MiB: %v", d.engine, ready, memory)
		})
	}
}

// measuredFromOutside describes the servers of db as an external database, and measures it.
func (c *cluster) measuredFromOutside(t *testing.T, d *deployed) {
	t.Helper()
	var endpoints strings.Builder
	for _, region := range postgresRegions {
		at := region
		if d.engine == "postgres" {
			at = postgresRegions[0]
		}
		fmt.Fprintf(&endpoints, "    - {region: %s, address: \"db-%s-0.db-%s.%s.svc:%d\"}\n", region, at, at, c.namespace, d.port)
	}
	c.apply(t, fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: outside}
spec:
  engine: {name: %s, parameters: {tls: disable, connections: "10"}}
  regions: [{name: us-east-1}, {name: eu-west-1}, {name: ap-northeast-1}]
  external:
    database: %q
    secretRef: {name: db-%s-login}
    endpoints:
%s`, d.engine, d.database, d.engine, endpoints.String()))
	doc := c.measureOn(t, "outside", "outside", "{smallbank: {customers: 300}}", "[Isolation, Invariants]", "5s", d.retry, "")
	if doc.Target == nil || len(doc.Target.Endpoints) != 3 || doc.Target.Endpoints[1].RTTMicroseconds <= 0 || len(doc.Nodes)+len(doc.Links) != 0 {
		t.Errorf("the result says of the database %+v, nodes %+v, links %+v", doc.Target, doc.Nodes, doc.Links)
	}
	t.Log(doc.Target.Where())
}

// measure executes a run on the database db and returns its document. It fails the test if the run does not pass.
func (c *cluster) measure(t *testing.T, name, workload, verify, duration, retry, more string) *result.Document {
	t.Helper()
	return c.measureOn(t, "db", name, workload, verify, duration, retry, more)
}

func (c *cluster) measureOn(t *testing.T, database, name, workload, verify, duration, retry, more string) *result.Document {
	t.Helper()
	c.apply(t, fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: %[1]s}
spec:
  databaseRef: {name: %[7]s}
  runID: %[1]s-0001
  workload: %[2]s
  load: {clientsPerRegion: 10, warmup: 3s, duration: %[3]s, requestTimeout: 10s, retry: %[4]s}
  verify: %[5]s%[6]s
`, name, workload, duration, retry, verify, more, database))
	r := c.awaitEnd(t, name, 12*time.Minute) // TPC-C loads half a million rows per region
	c.mustPass(t, r)
	d := c.document(t, r)
	t.Logf("%s: %d committed, %d refused, %d unknown, causes %v", name, d.Summary.Committed, d.Summary.Refused, d.Summary.Unknown, d.Summary.Causes)
	for _, region := range d.Regions {
		t.Logf("%s, %s: p50 %.1f ms, %d committed", name, region.Name, float64(region.LatencyMicroseconds.P50.Least())/1000, region.Committed)
	}
	return d
}

// memory returns, for each pod of the namespace, the memory of its programs in MiB, as reported by the kubelet.
func (c *cluster) memory(t *testing.T) map[string]int64 {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := c.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, node := range nodes.Items {
		text, err := exec.CommandContext(t.Context(), "kubectl", "get", "--raw", "/api/v1/nodes/"+node.Name+"/proxy/metrics/resource").Output()
		if err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range families["container_memory_working_set_bytes"].GetMetric() {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["namespace"] == c.namespace && labels["container"] == "database" {
				out[labels["pod"]] = int64(m.GetGauge().GetValue()) >> 20
			}
		}
	}
	return out
}

// TestDatabaseOfRoles measures a user-defined database with two kinds of servers: a PostgreSQL primary in the first
// region, and standbys in all regions. Clients connect only to the primary, in which an init step creates a database.
// During the run a region is isolated, and then the pod of a standby is killed.
func TestDatabaseOfRoles(t *testing.T) {
	image := needsImage(t, "GEOBENCH_POSTGRES")
	c := newCluster(t)
	c.privileged(t)
	c.apply(t, fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: roles-login}
stringData: {username: postgres, password: "0123456789abcdef0123"}
---
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine:
    name: postgres
    parameters: {isolation: Serializable, connections: "20", tls: disable}
  regions: [{name: us-east-1}, {name: eu-west-1}, {name: ap-northeast-1}]
  network: {profileRef: {name: aws}, emulation: Sidecar}
  roles:
  - name: primary
    image: &image %[1]s
    user: 65532
    firstRegions: 1
    command: [sh, /entrypoint.sh]
    env: &env
    - {name: PGDATA, value: /data/db}
    - {name: POSTGRES_PASSWORD, secretKeyRef: {name: roles-login, key: password}}
    - {name: PGPASSWORD, secretKeyRef: {name: roles-login, key: password}}
    ports: &ports [{name: sql, port: 5432}]
    volumes: &volumes [{name: data, mountPath: /data, sizeLimit: 2Gi}]
    client: {database: bank, secretRef: {name: roles-login}}
  - name: standby
    image: *image
    user: 65532
    command: [sh, -c, 'export PRIMARY_HOST="$GEOBENCH_HOSTS_PRIMARY"; exec sh /entrypoint.sh']
    env: *env
    ports: *ports
    volumes: *volumes
    after: [{role: primary, hosts: First}]
  init:
  - name: bank
    role: primary
    command:
    - sh
    - -c
    - |
      ask() { psql -h "$GEOBENCH_HOSTS_PRIMARY" -U postgres -d postgres -q -A -t -c "$1"; }
      [ "$(ask "select count(*) from pg_database where datname = 'bank'")" = 1 ] || ask 'create database bank'
`, image))
	db := c.awaitVerified(t, "db", 4*time.Minute)
	if e := db.Status.Endpoints; len(e) != 3 || e[2].Address != fmt.Sprintf("db-us-east-1-primary-0.db-us-east-1-primary.%s.svc:5432", c.namespace) {
		t.Errorf("endpoints %+v", e)
	}
	doc := c.measure(t, "smallbank", "{smallbank: {customers: 3000, multiHomePercent: 30}}", "[Isolation, Invariants]", "20s", "{attempts: 20, causes: [Conflict]}", `
  faults:
  - {name: cut, at: 8s, duration: 3s, networkPartition: {from: {regions: [ap-northeast-1]}}}
  - {name: standby, at: 14s, podKill: {target: {regions: [eu-west-1]}}}`)
	if doc.Target == nil || !strings.HasPrefix(doc.Target.Server, "PostgreSQL 15") || len(doc.Links) != 9 {
		t.Errorf("the result says of the server: %+v, of links %+v", doc.Target, doc.Links)
	}
}
