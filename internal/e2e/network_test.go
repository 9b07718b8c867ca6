//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/net/ping"
	"github.com/geobench/geobench/internal/net/wan"
)

// exec runs a command in a container and returns its output.
func (c *cluster) exec(t *testing.T, limit time.Duration, pod, container string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, "kubectl", append([]string{"-n", c.namespace, "exec", pod, "-c", container, "--"}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", pod, strings.Join(command, " "), err, out)
	}
	return string(out)
}

// echoes returns the number of pings that a container's kernel has received, including pings that it did not answer.
func (c *cluster) echoes(t *testing.T, pod, container string) int {
	t.Helper()
	out := c.exec(t, time.Minute, pod, container, "grep", "Icmp:", "/proc/net/snmp")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	names, values := strings.Fields(lines[0]), strings.Fields(lines[len(lines)-1])
	if i := slices.Index(names, "InEchos"); i >= 0 && i < len(values) {
		if n, err := strconv.Atoi(values[i]); err == nil {
			return n
		}
	}
	t.Fatal(out)
	return 0
}

// hears reports whether packets from the pod from to an address reach the pod to.
func (c *cluster) hears(t *testing.T, from, to, container, address string) bool {
	t.Helper()
	before := c.echoes(t, to, container)
	c.exec(t, time.Minute, from, container, "sh", "-c", "/usr/bin/ping -c 5 -i 0.2 -W 1 -q "+address+"; true")
	return c.echoes(t, to, container) > before
}

// privileged allows pods of the namespace to have the capability NET_ADMIN.
func (c *cluster) privileged(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`))
	if err := c.Patch(t.Context(), ns, patch); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) database(ctx context.Context, name string) (*v1alpha1.GeoDatabase, error) {
	db := &v1alpha1.GeoDatabase{}
	return db, c.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: name}, db)
}

// awaitVerified waits until the measured network of a database matches the declared network.
func (c *cluster) awaitVerified(t *testing.T, name string, limit time.Duration) *v1alpha1.GeoDatabase {
	t.Helper()
	ctx := within(t, limit)
	var db *v1alpha1.GeoDatabase
	c.eventually(t, ctx, "the network of "+name+" is verified", func() (ok bool, err error) {
		if db, err = c.database(ctx, name); err != nil {
			return false, err
		}
		v := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionNetworkVerified)
		if v == nil {
			return false, fmt.Errorf("conditions %+v", db.Status.Conditions)
		}
		return v.Status == metav1.ConditionTrue && v.ObservedGeneration == db.Generation, fmt.Errorf("%s: %s", v.Reason, v.Message)
	})
	return db
}

// postgres returns the GeoDatabase in experiments/postgres.yaml. If change is not nil, the database has its own network
// profile, modified by change.
func postgres(t *testing.T, change func(*v1alpha1.NetworkProfileSpec)) string {
	t.Helper()
	b, err := os.ReadFile("../../experiments/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	database, _, _ := strings.Cut(string(b), "---\n") // the run follows the database in the file
	if change == nil {
		return database
	}
	p := &v1alpha1.NetworkProfileSpec{Links: []v1alpha1.Link{
		{From: "us-east-1", To: "eu-west-1", RTT: v1alpha1.DurationOf(40 * time.Millisecond)},
		{From: "us-east-1", To: "ap-northeast-1", RTT: v1alpha1.DurationOf(60 * time.Millisecond)},
		{From: "eu-west-1", To: "ap-northeast-1", RTT: v1alpha1.DurationOf(80 * time.Millisecond)},
	}}
	change(p)
	inline, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	const ref = "    profileRef:\n      name: aws\n"
	if !strings.Contains(database, ref) {
		t.Fatal("experiments/postgres.yaml names no profile as this test expects it")
	}
	return strings.Replace(database, ref, "    profile: "+string(inline)+"\n", 1)
}

var postgresRegions = []string{"us-east-1", "eu-west-1", "ap-northeast-1"}

func postgresPod(region string) string { return "postgres-" + region + "-0" }

func (c *cluster) postgresHost(region string) string {
	return fmt.Sprintf("%s.postgres-%s.%s.svc", postgresPod(region), region, c.namespace)
}

// needsPostgres skips the test if GEOBENCH_POSTGRES is not set, because the image is then missing on the node.
func needsPostgres(t *testing.T) {
	t.Helper()
	if os.Getenv("GEOBENCH_POSTGRES") == "" {
		t.Skip("GEOBENCH_POSTGRES is not set: the image of images/postgres is not on the node; make e2e-network loads it")
	}
}

var (
	pingSummary = regexp.MustCompile(`min/avg/max/mdev = [0-9.]+/([0-9.]+)/`)
	psqlTiming  = regexp.MustCompile(`Time: ([0-9.]+) ms`)
)

// TestPostgresOverThreeRegions runs an unmodified PostgreSQL over three regions of the network profile aws. The
// latencies of its connections and of ping match the declared network. This also holds after a pod was deleted and
// created again.
func TestPostgresOverThreeRegions(t *testing.T) {
	needsPostgres(t)
	c := newCluster(t)
	c.privileged(t)
	c.apply(t, postgres(t, nil))
	db := c.awaitVerified(t, "postgres", 3*time.Minute)
	if db.Status.Emulation != v1alpha1.EmulationSidecar {
		t.Errorf("emulation %s", db.Status.Emulation)
	}
	declared := map[[2]string]time.Duration{}
	for _, l := range db.Status.Links {
		declared[[2]string{l.From, l.To}] = time.Duration(l.DeclaredRTTMicroseconds) * time.Microsecond
	}
	near := func(what, from, to string, got time.Duration) {
		t.Helper()
		want := declared[[2]string{from, to}]
		t.Logf("%s %s -> %s: declared %s, seen %s", what, from, to, want, got)
		if want == 0 || (got-want).Abs() > want/20+time.Millisecond {
			t.Errorf("%s %s -> %s: %s is not within 5%% + 1ms of %s", what, from, to, got, want)
		}
	}
	pings := func(from, to string) {
		t.Helper()
		// Use -U: without it, ping uses the kernel's timestamp of an answer's arrival, which does not include the sidecar's
		// delay.
		m := pingSummary.FindStringSubmatch(c.exec(t, time.Minute, postgresPod(from), "database", "ping", "-U", "-c", "15", "-i", "0.2", "-q", c.postgresHost(to)))
		if m == nil {
			t.Fatal("ping says nothing")
		}
		ms, _ := strconv.ParseFloat(m[1], 64)
		near("ping", from, to, time.Duration(ms*float64(time.Millisecond)))
	}
	for i, from := range postgresRegions {
		for j, to := range postgresRegions {
			if i == j {
				continue
			}
			pings(from, to)
			args := []string{"psql", "-h", c.postgresHost(to), "-U", "postgres", "-c", `\timing on`}
			for range 9 {
				args = append(args, "-c", "select 1")
			}
			var times []time.Duration
			for _, m := range psqlTiming.FindAllStringSubmatch(c.exec(t, time.Minute, postgresPod(from), "database", args...), -1) {
				ms, _ := strconv.ParseFloat(m[1], 64)
				times = append(times, time.Duration(ms*float64(time.Millisecond)))
			}
			if len(times) < 9 {
				t.Fatalf("%d timings", len(times))
			}
			slices.Sort(times)
			near("select", from, to, times[len(times)/2])
		}
	}

	before := len(db.Status.EmulationGaps)
	pod := &corev1.Pod{}
	key := types.NamespacedName{Namespace: c.namespace, Name: postgresPod("eu-west-1")}
	if err := c.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 2*time.Minute)
	c.eventually(t, ctx, "the gap is known", func() (bool, error) {
		now := &corev1.Pod{}
		if err := c.Get(ctx, key, now); err != nil || now.UID == pod.UID {
			return false, err
		}
		db, err := c.database(ctx, "postgres")
		if err != nil {
			return false, err
		}
		for _, g := range db.Status.EmulationGaps {
			if g.UID == string(now.UID) && g.To != nil {
				t.Logf("the pod that took its place ran for %s without all of its links (%d gaps before)", g.To.Sub(g.From.Time), before)
				return true, nil
			}
		}
		return false, fmt.Errorf("gaps %+v", db.Status.EmulationGaps)
	})
	c.awaitVerified(t, "postgres", 2*time.Minute)
	t.Logf("the network is verified again %s after the deletion", time.Since(deleted).Round(100*time.Millisecond))
	for _, other := range []string{"us-east-1", "ap-northeast-1"} {
		pings("eu-west-1", other)
		pings(other, "eu-west-1")
	}
}

// TestPostgresIsMeasured runs SmallBank on a PostgreSQL that the operator deploys. A steward loads and audits the
// database, and clients of three regions send statements to the primary over the emulated network. The history is
// serializable. Without its Secret, the run is rejected.
func TestPostgresIsMeasured(t *testing.T) {
	needsPostgres(t)
	c := newCluster(t)
	c.privileged(t)
	const password = "a-word-of-this-test-alone"
	b, err := os.ReadFile("../../experiments/postgres.yaml")
	if err != nil {
		t.Fatal(err)
	}
	database, run, _ := strings.Cut(string(b), "---\n")
	const shipped = "value: geobench}"
	if !strings.Contains(database, shipped) {
		t.Fatal("experiments/postgres.yaml has no password as this test expects it")
	}
	ready := time.Now()
	c.apply(t, strings.ReplaceAll(database, shipped, "value: "+password+"}"))
	c.awaitVerified(t, "postgres", 3*time.Minute)
	t.Logf("ready and verified after %s", time.Since(ready).Round(time.Second))

	const nobody = "  name: postgres\nspec:\n  databaseRef"
	if !strings.Contains(run, nobody) {
		t.Fatal("experiments/postgres.yaml names no run as this test expects it")
	}
	c.apply(t, strings.Replace(strings.Replace(run, nobody, "  name: early\nspec:\n  databaseRef", 1), "postgres-0001", "early-0001", 1))
	early := c.awaitEnd(t, "early", 3*time.Minute)
	if m := early.Status.Message; early.Status.Reason != "DataRefused" || !strings.Contains(m, "spec.pods.client.secretRef.name") || !strings.Contains(m, "postgres-login") {
		t.Errorf("without a Secret: %s: %s", early.Status.Reason, m)
	}

	c.apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: postgres-login}\nstringData: {username: postgres, password: "+password+"}\n")
	c.apply(t, run)
	r := c.awaitEnd(t, "postgres", 6*time.Minute)
	c.mustPass(t, r)
	d := c.document(t, r)
	if d.Target == nil || !strings.HasPrefix(d.Target.Server, "PostgreSQL 15") || d.Target.Isolation != "serializable" {
		t.Errorf("the result says of the server: %+v", d.Target)
	}
	paysTheDistance(t, d)
	d.Manifests = nil // the manifest contains the server's password
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"`+password+`"`) {
		t.Error("the password is in the result")
	}
}

// paysTheDistance checks a run whose primary is in us-east-1. A transaction with several statements must take at least
// two round trips, because clients send the statements one after another.
func paysTheDistance(t *testing.T, d *result.Document) {
	t.Helper()
	declared := map[string]int64{"us-east-1": 0}
	for _, l := range d.Links {
		if l.From == "us-east-1" {
			declared[l.To] = l.DeclaredRTTMicroseconds
		} else if l.To == "us-east-1" {
			declared[l.From] = l.DeclaredRTTMicroseconds
		}
	}
	for _, region := range d.Regions {
		p50 := region.LatencyMicroseconds.P50.Least()
		t.Logf("%s: declared round trip %.1f ms, p50 %.1f ms, %d committed", region.Name, float64(declared[region.Name])/1000, float64(p50)/1000, region.Committed)
		if p50 < 2*declared[region.Name] {
			t.Errorf("%s: a transaction of several statements takes %d us over a round trip of %d us", region.Name, p50, declared[region.Name])
		}
	}
}

// TestPostgresByItsName makes the operator deploy PostgreSQL from a manifest that contains little more than its name.
// There are a primary and two standbys, and a client gets the answer to its commit only after one standby has received
// the commit. A run on the database passes, and no result contains the generated passwords.
func TestPostgresByItsName(t *testing.T) {
	needsPostgres(t)
	c := newCluster(t)
	c.privileged(t)
	ready := time.Now()
	c.apply(t, `apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: named}
spec:
  engine:
    name: postgres
    parameters:
      image: `+os.Getenv("GEOBENCH_POSTGRES")+`
      user: "65532"
      primary: us-east-1
      synchronous: Quorum
      isolation: Serializable
      connections: "20"
      settings.shared_buffers: 64MB
  regions: [{name: us-east-1}, {name: eu-west-1}, {name: ap-northeast-1}]
  network: {profileRef: {name: aws}, emulation: Sidecar}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: named}
spec:
  databaseRef: {name: named}
  runID: named-0001
  workload:
    smallbank: {customers: 3000, multiHomePercent: 30}
  load: {clientsPerRegion: 20, warmup: 3s, duration: 15s, retry: {attempts: 20, causes: [Conflict]}}
  verify: [Isolation, Invariants]
`)
	c.awaitVerified(t, "named", 3*time.Minute)
	t.Logf("ready and verified after %s", time.Since(ready).Round(time.Second))
	r := c.awaitEnd(t, "named", 6*time.Minute)
	c.mustPass(t, r)
	d := c.document(t, r)
	paysTheDistance(t, d)
	// Half of the transactions only read. The other half wait for the nearest standby, which is 69.6 ms away.
	if p90 := d.Regions[0].LatencyMicroseconds.P90.Least(); p90 < 60_000 {
		t.Errorf("nine of ten of the primary's own clients hear of commits within %d us, before any standby can have them", p90)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"named-postgres-login", "named-postgres-replication"} {
		s := &corev1.Secret{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: name}, s); err != nil {
			t.Fatal(err)
		}
		if password := s.Data["password"]; len(password) < 16 || strings.Contains(string(text), string(password)) {
			t.Errorf("the password of %s has %d characters, or is in the result", name, len(password))
		}
	}
}

// TestPartitionCutsAndHeals cuts the traffic from one region to another, then in both directions, and then heals the
// link, while PostgreSQL and ping run. It does so by editing the files that sidecars read. The operator, which owns
// these files, is stopped during the test.
func TestPartitionCutsAndHeals(t *testing.T) {
	needsPostgres(t)
	c := newCluster(t)
	c.privileged(t)
	c.apply(t, postgres(t, func(*v1alpha1.NetworkProfileSpec) {}))
	c.awaitVerified(t, "postgres", 3*time.Minute)
	operator := &appsv1.DeploymentList{}
	if err := c.List(t.Context(), operator, client.InNamespace(operatorNamespace)); err != nil || len(operator.Items) != 1 {
		t.Fatalf("%d deployments of the operator (%v)", len(operator.Items), err)
	}
	scale := func(ctx context.Context, n int) error {
		return c.Patch(ctx, &operator.Items[0], client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)))
	}
	replicas := int(*operator.Items[0].Spec.Replicas)
	t.Cleanup(func() {
		if err := scale(context.Background(), replicas); err != nil {
			t.Error(err)
		}
	})
	if err := scale(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, within(t, time.Minute), "the operator is away", func() (bool, error) {
		pods := &corev1.PodList{}
		err := c.List(t.Context(), pods, client.InNamespace(operatorNamespace), client.MatchingLabels(operator.Items[0].Spec.Selector.MatchLabels))
		return len(pods.Items) == 0, err
	})
	const a, b = "us-east-1", "eu-west-1"
	// cut sets whether the link between two regions is cut, in the sidecar of the receiving region. It waits until the
	// sidecar confirms the change.
	cut := func(from, to string, is bool) {
		t.Helper()
		file := postgresPod(to) + ".json"
		cm := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "postgres-network-" + to}, cm); err != nil {
			t.Fatal(err)
		}
		config := &wan.Config{}
		if err := json.Unmarshal([]byte(cm.Data[file]), config); err != nil {
			t.Fatal(err)
		}
		for i := range config.Links {
			if config.Links[i].From == from {
				config.Links[i].Cut = is
			}
		}
		config.Generation += 1000
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		cm.Data[file] = string(text)
		if err := c.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		// A change of the pod makes the kubelet update the file immediately.
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: postgresPod(to), Namespace: c.namespace}}
		if err := c.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"e2e":"%d"}}}`, config.Generation))); err != nil {
			t.Fatal(err)
		}
		c.eventually(t, within(t, 2*time.Minute), "the sidecar of "+to+" follows", func() (bool, error) {
			generation, err := metric(pod, ports.WANStatus, "geobench_wan_config_generation")
			return err == nil && int64(generation) == config.Generation, err
		})
	}
	for _, step := range []struct {
		what string
		do   func()
		// ab is set if packets from a must reach b, and ba if packets from b must reach a. If asks is set, a client in a must
		// get answers from the server in b.
		ab, ba, asks bool
	}{
		{"before", func() {}, true, true, true},
		{"what " + a + " sends to " + b + " is cut", func() { cut(a, b, true) }, false, true, false},
		{"what " + b + " sends to " + a + " is cut, too", func() { cut(b, a, true) }, false, false, false},
		{"only what " + b + " sends is cut", func() { cut(a, b, false) }, true, false, false},
		{"healed", func() { cut(b, a, false) }, true, true, true},
	} {
		step.do()
		arrive := func(from, to string) bool {
			t.Helper()
			return c.hears(t, postgresPod(from), postgresPod(to), "database", c.postgresHost(to))
		}
		answer := c.exec(t, time.Minute, postgresPod(a), "database", "sh", "-c",
			"PGCONNECT_TIMEOUT=3 psql -h "+c.postgresHost(b)+" -U postgres -Atc 'select 40 + 2' 2>&1; true")
		asks := strings.TrimSpace(answer) == "42"
		ab, ba := arrive(a, b), arrive(b, a)
		t.Logf("%s: packets come from %s to %s %t, back %t; PostgreSQL answers %t", step.what, a, b, ab, ba, asks)
		if ab != step.ab || ba != step.ba || asks != step.asks {
			t.Errorf("%s: want %t, %t, %t", step.what, step.ab, step.ba, step.asks)
		}
		// The third region is not affected.
		if third := "ap-northeast-1"; !arrive(a, third) || !arrive(third, b) {
			t.Errorf("%s: region %s is cut off", step.what, third)
		}
	}
	if err := scale(t.Context(), replicas); err != nil {
		t.Fatal(err)
	}
	c.awaitVerified(t, "postgres", 2*time.Minute)
}

// TestLossRateAndPartition uses a profile with packet loss, a bandwidth limit and a partition, and checks that the
// emulation matches the profile.
func TestLossRateAndPartition(t *testing.T) {
	needsPostgres(t)
	c := newCluster(t)
	c.privileged(t)
	c.apply(t, postgres(t, func(p *v1alpha1.NetworkProfileSpec) {
		p.Links = append(p.Links, v1alpha1.Link{From: "eu-west-1", To: "us-east-1", RTT: v1alpha1.DurationOf(40 * time.Millisecond)})
		p.Links[0].LossPPM = 20_000    // us-east-1 -> eu-west-1, one way
		p.Links[1].BandwidthMbps = 50  // us-east-1 <-> ap-northeast-1
		p.Links[2].LossPPM = 1_000_000 // eu-west-1 <-> ap-northeast-1: a partition
		p.Links[2].BandwidthMbps = 0
	}))
	ctx := within(t, 3*time.Minute)
	c.eventually(t, ctx, "the network is emulated", func() (bool, error) {
		db, err := c.database(ctx, "postgres")
		if err != nil {
			return false, err
		}
		e := meta.FindStatusCondition(db.Status.Conditions, v1alpha1.ConditionNetworkEmulated)
		return e != nil && (e.Status == metav1.ConditionTrue || e.Reason == "NodesNotReady"), fmt.Errorf("%+v", e)
	})
	for _, r := range postgresRegions {
		c.eventually(t, ctx, "the probe of "+r+" runs", func() (bool, error) {
			p := &corev1.Pod{}
			err := c.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: postgresPod(r)}, p)
			return err == nil && p.Status.Phase == corev1.PodRunning, err
		})
	}
	measure := func(from, to string, args ...string) *ping.Figures {
		t.Helper()
		f := &ping.Figures{}
		out := c.exec(t, 3*time.Minute, postgresPod(from), "geobench-probe", append([]string{"/geobench", "ping", c.postgresHost(to)}, args...)...)
		if err := json.Unmarshal([]byte(out), f); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return f
	}
	f := measure("us-east-1", "eu-west-1", "--count", "20000", "--interval", "1ms")
	t.Logf("loss: %d of %d packets came back, %d ppm lost, p50 %d us", f.Received, f.Sent, f.LossPPM, f.RTTMicroseconds["p50"])
	if f.LossPPM < 17_000 || f.LossPPM > 23_000 {
		t.Errorf("%d ppm are lost, want 2%% +- 0.3 points", f.LossPPM)
	}
	if f := measure("eu-west-1", "ap-northeast-1", "--count", "50"); f.Received != 0 {
		t.Errorf("%d packets passed a partition", f.Received)
	}
	// A single connection may be slow for other reasons, so use four to keep the link busy.
	var payload atomic.Int64
	var streams sync.WaitGroup
	for range 4 {
		streams.Go(func() {
			var rate struct {
				BitsPerSecond int64 `json:"bitsPerSecond"`
			}
			out := c.exec(t, time.Minute, postgresPod("us-east-1"), "geobench-probe", "/geobench", "ping", c.postgresHost("ap-northeast-1"), "--stream", "15s")
			if err := json.Unmarshal([]byte(out), &rate); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			payload.Add(rate.BitsPerSecond)
		})
	}
	streams.Wait()
	// The bandwidth includes headers, which are 52 of the 1,500 bytes of a packet. The payload of TCP does not.
	wire := payload.Load() * 1500 / 1448
	t.Logf("rate: %d bit/s of payload, %d on the wire, of 50000000", payload.Load(), wire)
	if wire < 45_000_000 || wire > 55_000_000 {
		t.Errorf("%d bit/s on the wire, want 50 Mbit/s +- 10%%", wire)
	}
}
