//go:build e2e

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
	"github.com/geobench/geobench/internal/net/emulation/kernel"
)

// needsChaosMesh skips the test if Chaos Mesh is not installed.
func needsChaosMesh(t *testing.T) {
	t.Helper()
	if os.Getenv("GEOBENCH_CHAOS") == "" {
		t.Skip("GEOBENCH_CHAOS is not set: Chaos Mesh is not on the node; make cluster-chaos puts it there")
	}
	needsPostgres(t)
}

// daemonImage is an image with Chaos Mesh's daemon and the tools that inspect network namespaces.
const daemonImage = "localhost/chaos-daemon:local"

// look is a shell script that prints the state of the pod with UID $1, as seen from the pod's node. It prints the
// queueing disciplines, devices and packet rules of the pod's network namespace. It also prints the processes in the
// pod's control groups with their CPU time (clock ticks), memory (KiB) and bytes written.
const look = `
files=$(grep -l "pod$1" /proc/[0-9]*/cgroup 2>/dev/null)
set -- $files
[ $# -gt 0 ] || exit 0
pid=${1#/proc/}
inside="nsenter --net=/proc/${pid%/cgroup}/ns/net"
$inside tc qdisc show | sed 's/^/qdisc: /'
$inside ip -d -o link | sed 's/^/device: /'
$inside iptables-save 2>/dev/null | sed 's/^/rule: /'
for file; do
  p=${file%cgroup}
  read -r name <"${p}comm" || continue
  set -- $(sed 's/.*) //' "${p}stat")
  echo "process: $name $((${12} + ${13})) $(sed -n 's/VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "${p}status") $(sed -n 's/^wchar: //p' "${p}io")"
done 2>/dev/null`

// traces are the visible effects of active faults on a pod, as seen from its node.
type traces struct {
	// Qdiscs lists the queueing disciplines that delay or drop packets. Rules lists the packet rules that packets reach.
	// Devices lists the network devices that a program created.
	Qdiscs, Rules, Devices []string
	// Stressors lists the processes that Chaos Mesh started in the pod.
	Stressors []stressor
}

type stressor struct {
	name                             string
	ticks, residentKiB, writtenBytes int64
}

func (s *traces) String() string { return fmt.Sprintf("%+v", *s) }

func (s *traces) none() bool { return len(s.Qdiscs)+len(s.Rules)+len(s.Devices)+len(s.Stressors) == 0 }

// inspector starts a pod that sees the processes and network namespaces of its node. It returns a function that
// inspects the pod with a given UID.
func (c *cluster) inspector(t *testing.T) func(uid types.UID) *traces {
	t.Helper()
	c.pod(t, "inspector", func(p *corev1.PodSpec) {
		p.HostPID = true
		p.Containers[0].Image = daemonImage
		p.Containers[0].Command = []string{"sleep", "3600"}
		p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true), RunAsUser: ptr.To[int64](0)}
	})
	return func(uid types.UID) *traces {
		t.Helper()
		out := &traces{}
		chains := map[string][]string{}
		for _, line := range strings.Split(c.exec(t, time.Minute, "inspector", "main", "sh", "-c", look, "sh", string(uid)), "\n") {
			kind, text, _ := strings.Cut(line, ": ")
			switch f := strings.Fields(text); {
			case kind == "qdisc" && !strings.Contains(text, "qdisc noqueue"):
				out.Qdiscs = append(out.Qdiscs, text)
			case kind == "device" && strings.Contains(text, " tun "):
				out.Devices = append(out.Devices, text)
			case kind == "rule" && strings.HasPrefix(text, "-A "):
				chains[f[1]] = append(chains[f[1]], text)
			case kind == "process" && len(f) == 4 && (strings.HasPrefix(f[0], "stress-ng") || f[0] == "memStress"):
				s := stressor{name: f[0]}
				_, _ = fmt.Sscan(strings.Join(f[1:], " "), &s.ticks, &s.residentKiB, &s.writtenBytes)
				out.Stressors = append(out.Stressors, s)
			}
		}
		// Follow the chains from the built-in chains, because Chaos Mesh does not remove chains that packets no longer reach.
		var walk func(chain string)
		walk = func(chain string) {
			for _, rule := range chains[chain] {
				f := strings.Fields(rule)
				if to := f[len(f)-1]; f[len(f)-2] == "-j" && to != "DROP" && to != "ACCEPT" {
					walk(to)
					continue
				}
				out.Rules = append(out.Rules, rule)
			}
		}
		for _, chain := range []string{"INPUT", "OUTPUT", "FORWARD"} {
			walk(chain)
		}
		return out
	}
}

// pod creates a pod and waits until it is ready. The pod has a single container, main, with the image of PostgreSQL
// unless change replaces it.
func (c *cluster) pod(t *testing.T, name string, change func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](0),
		Containers:                    []corev1.Container{{Name: "main", Image: os.Getenv("GEOBENCH_POSTGRES")}},
	}}
	change(&p.Spec)
	ctx := within(t, time.Minute)
	if err := c.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, ctx, "pod "+name+" runs", func() (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(p), p)
		return err == nil && p.Status.Phase == corev1.PodRunning && p.Status.ContainerStatuses[0].Ready, err
	})
	return p
}

// TestChaosAuto: if Chaos Mesh is installed, Auto first probes the kernel. If the kernel has netem, Auto uses Chaos
// Mesh. Otherwise Auto uses a sidecar, states the kernel's answer as the reason, and never creates a NetworkChaos
// object.
func TestChaosAuto(t *testing.T) {
	needsChaosMesh(t)
	c := newCluster(t)
	c.privileged(t)
	c.apply(t, strings.Replace(postgres(t, nil), "emulation: Sidecar", "emulation: Auto", 1))
	made := 0
	ctx := within(t, 3*time.Minute)
	var db *v1alpha1.GeoDatabase
	c.eventually(t, ctx, "a backend is chosen and the network verified", func() (ok bool, err error) {
		made = max(made, len(c.chaos(t, chaosmesh.NetworkChaos)))
		if db, err = c.database(ctx, "postgres"); err != nil {
			return false, err
		}
		for _, cond := range db.Status.Conditions {
			if cond.Type == v1alpha1.ConditionNetworkVerified && cond.Status == "True" {
				return true, nil
			}
		}
		return false, fmt.Errorf("%s: %+v", db.Status.Emulation, db.Status.Conditions)
	})
	t.Logf("%s: %s", db.Status.Emulation, db.Status.EmulationReason)
	switch db.Status.Emulation {
	case v1alpha1.EmulationChaosMesh:
		if made == 0 {
			t.Error("verified without an object")
		}
	case v1alpha1.EmulationSidecar:
		if made != 0 || !strings.Contains(db.Status.EmulationReason, "no queueing discipline netem") {
			t.Errorf("%d delay objects were made; the reason is %q", made, db.Status.EmulationReason)
		}
	default:
		t.Errorf("emulation %s", db.Status.Emulation)
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.InNamespace(c.namespace)); err != nil || len(pods.Items) != 3 {
		t.Errorf("%d pods, %v: the probes are left", len(pods.Items), err)
	}
}

// chaos lists Chaos Mesh's objects of a kind.
func (c *cluster) chaos(t *testing.T, kind string) []unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(kind + "List"))
	if err := c.List(t.Context(), list, client.InNamespace(c.namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// inject creates a Chaos Mesh object and waits until its status reports that the fault is injected in all pods.
func (c *cluster) inject(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	made := time.Now()
	if err := c.Create(t.Context(), u); err != nil {
		t.Fatalf("%s: %v", u.GetKind(), err)
	}
	ctx := within(t, time.Minute)
	c.eventually(t, ctx, u.GetKind()+" is injected", func() (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
			return false, err
		}
		s := chaosmesh.ReadStatus(u)
		return s.AllInjected, fmt.Errorf("%+v", s)
	})
	t.Logf("%s %v injected after %s", u.GetKind(), u.Object["spec"].(map[string]any)["action"], time.Since(made).Round(100*time.Millisecond))
}

func (c *cluster) recover(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	ctx := within(t, time.Minute)
	if err := c.Delete(ctx, u); err != nil {
		t.Fatal(err)
	}
	c.eventually(t, ctx, u.GetKind()+" is gone", func() (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(u), u)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// TestChaosObjects applies the objects that Geobench builds to the real Chaos Mesh. It inspects the affected pods from
// outside, independently of both. Each fault has its effect, ends, and leaves no trace.
func TestChaosObjects(t *testing.T) {
	needsChaosMesh(t)
	c := newCluster(t)
	c.privileged(t)
	see := c.inspector(t)
	database := c.pod(t, "database", func(p *corev1.PodSpec) {
		p.Containers[0].Env = []corev1.EnvVar{{Name: "POSTGRES_HOST_AUTH_METHOD", Value: "trust"}}
		p.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"pg_isready", "-h", "127.0.0.1"}}}}
	})
	// The pod other counts the bytes sent to its port 9 and answers with their number.
	other := c.pod(t, "other", func(p *corev1.PodSpec) {
		p.Containers[0].Command = []string{"busybox", "nc", "-ll", "-p", "9", "-e", "/usr/bin/busybox", "wc", "-c"}
	})
	one := func(p *corev1.Pod) chaosmesh.Pods {
		return chaosmesh.Pods{Namespace: c.namespace, Named: []string{p.Name}}
	}
	m := func(name string) chaosmesh.Meta {
		return chaosmesh.Meta{Namespace: c.namespace, Name: chaosmesh.ObjectName(c.namespace, name), Ceiling: 5 * time.Minute}
	}
	clean := func(t *testing.T) {
		t.Helper()
		for _, p := range []*corev1.Pod{database, other} {
			c.eventually(t, within(t, 20*time.Second), "nothing is left in pod "+p.Name, func() (bool, error) {
				s := see(p.UID)
				return s.none(), fmt.Errorf("%s", s)
			})
		}
	}
	clean(t)
	// answers returns the number of answered pings, out of 5.
	answers := func(t *testing.T) (n int) {
		t.Helper()
		out := c.exec(t, time.Minute, other.Name, "main", "sh", "-c", "/usr/bin/ping -c 5 -i 0.2 -W 1 -q "+database.Status.PodIP+" || true")
		if _, after, ok := strings.Cut(out, "transmitted, "); !ok {
			t.Fatal(out)
		} else if _, err := fmt.Sscan(after, &n); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return n
	}
	// asks reports whether a client in the pod other gets an answer from the pod database.
	asks := func(t *testing.T) bool {
		t.Helper()
		out := c.exec(t, time.Minute, other.Name, "main", "sh", "-c",
			"PGCONNECT_TIMEOUT=2 psql -h "+database.Status.PodIP+" -U postgres -Atc 'select 40 + 2' 2>&1 || true")
		return strings.TrimSpace(out) == "42"
	}
	hears := func(t *testing.T, from, to *corev1.Pod) bool {
		return c.hears(t, from.Name, to.Name, "main", to.Status.PodIP)
	}
	t.Run("partition", func(t *testing.T) {
		if n := answers(t); n != 5 || !asks(t) {
			t.Fatalf("%d of 5 pings come back before the cut, and the database should answer", n)
		}
		u := chaosmesh.Partition(m("partition"), one(database), one(other), false)
		c.inject(t, u)
		c.eventually(t, within(t, 30*time.Second), "pings are lost", func() (bool, error) { return answers(t) == 0, nil })
		if asks(t) {
			t.Error("the database answers through the cut")
		}
		if s := see(database.UID); len(s.Rules) != 2 {
			t.Errorf("%s, want a rule for either direction", s)
		}
		c.recover(t, u)
		c.eventually(t, within(t, 30*time.Second), "pings come back", func() (bool, error) { return answers(t) == 5, nil })
		if !asks(t) {
			t.Error("the database does not answer after the cut")
		}
		clean(t)
	})
	t.Run("bandwidth", func(t *testing.T) {
		const bytes = 10_000_000
		rate := func() float64 {
			t.Helper()
			start := time.Now()
			out := c.exec(t, time.Minute, database.Name, "main", "sh", "-c", fmt.Sprintf("busybox head -c %d /dev/zero | busybox nc %s 9", bytes, other.Status.PodIP))
			took := time.Since(start)
			if strings.TrimSpace(out) != fmt.Sprint(bytes) {
				t.Fatalf("%s bytes came, want %d", out, bytes)
			}
			return bytes * 8 / took.Seconds() / 1e6
		}
		before := rate()
		u := chaosmesh.Bandwidth(m("bandwidth"), one(database), chaosmesh.Pods{}, 20)
		c.inject(t, u)
		if s := see(database.UID); len(s.Qdiscs) != 1 || !strings.Contains(s.Qdiscs[0], "qdisc tbf") {
			t.Errorf("%s, want a token bucket", s)
		}
		during := rate()
		c.recover(t, u)
		clean(t)
		after := rate()
		t.Logf("%.0f Mbit/s before, %.1f of 20 during, %.0f after", before, during, after)
		if during > 22 || during < 16 || before < 25 || after < 25 {
			t.Error("want 20 Mbit/s less headers, and more before and after")
		}
	})
	t.Run("bandwidth between two", func(t *testing.T) {
		// Use another pod: if Chaos Mesh keeps a record of a failed fault, the pod cannot be used for later objects.
		third := c.pod(t, "third", func(p *corev1.PodSpec) { p.Containers[0].Command = []string{"sleep", "3600"} })
		u := chaosmesh.Bandwidth(m("targeted"), one(third), one(other), 20)
		if a := kernel.Probe(); a.Missing["prio"] == "" {
			c.inject(t, u)
			c.recover(t, u)
			clean(t)
			return
		}
		// Without prio, the kernel rejects the fault. The object disappears when its deletion is forced, and leaves no trace.
		ctx := within(t, time.Minute)
		if err := c.Create(ctx, u); err != nil {
			t.Fatal(err)
		}
		c.eventually(t, ctx, "the kernel refuses", func() (bool, error) {
			err := c.Get(ctx, client.ObjectKeyFromObject(u), u)
			return strings.Contains(chaosmesh.ReadStatus(u).Problem(), "unable to set tcs"), err
		})
		t.Logf("this kernel has no prio: %s", chaosmesh.ReadStatus(u).Problem())
		if err := c.Delete(ctx, u); err != nil {
			t.Fatal(err)
		}
		c.eventually(t, ctx, "it is gone", func() (bool, error) {
			err := c.Patch(ctx, u, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			return apierrors.IsNotFound(err), err
		})
		if s := see(third.UID); !s.none() {
			t.Errorf("%s is left", s)
		}
		clean(t)
	})
	t.Run("clock", func(t *testing.T) {
		behind := func() time.Duration {
			t.Helper()
			out := c.exec(t, time.Minute, other.Name, "main", "psql", "-h", database.Status.PodIP, "-U", "postgres", "-Atc", "select extract(epoch from clock_timestamp())::bigint")
			var seconds int64
			if _, err := fmt.Sscan(out, &seconds); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			return time.Since(time.Unix(seconds, 0)).Round(time.Minute)
		}
		u := chaosmesh.ClockSkew(m("clock"), one(database), -time.Hour, "main")
		c.inject(t, u)
		if got := behind(); got != time.Hour {
			t.Errorf("the database is %s behind, want 1h", got)
		}
		c.recover(t, u)
		c.eventually(t, within(t, 20*time.Second), "the clock is right again", func() (bool, error) { return behind() == 0, nil })
		clean(t)
	})
	for name, f := range map[string]struct {
		object *unstructured.Unstructured
		seen   func(s []stressor) bool
	}{
		"cpu": {chaosmesh.StressCPU(m("cpu"), one(database), 1, 50, "main"), func(all []stressor) bool {
			return slices.ContainsFunc(all, func(s stressor) bool { return s.name == "stress-ng-cpu" && s.ticks >= 50 })
		}},
		"memory": {chaosmesh.StressMemory(m("memory"), one(database), 200<<20, "main"), func(all []stressor) bool {
			return slices.ContainsFunc(all, func(s stressor) bool { return s.name == "memStress" && s.residentKiB >= 200<<10 })
		}},
		"disk writes": {chaosmesh.StressDisk(m("disk"), one(database), true, "main"), func(all []stressor) bool {
			return slices.ContainsFunc(all, func(s stressor) bool { return s.name == "stress-ng-hdd" && s.writtenBytes >= 1<<20 })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.inject(t, f.object)
			c.eventually(t, within(t, 30*time.Second), "a stressor of the pod works", func() (bool, error) {
				s := see(database.UID)
				return f.seen(s.Stressors), fmt.Errorf("%s", s)
			})
			t.Logf("%+v", see(database.UID).Stressors)
			c.recover(t, f.object)
			clean(t)
		})
	}
	t.Run("one-way partition", func(t *testing.T) {
		if !hears(t, database, other) {
			t.Fatal("what the database sends is lost before the cut")
		}
		u := chaosmesh.Partition(m("one-way"), one(database), one(other), true)
		c.inject(t, u)
		c.eventually(t, within(t, 30*time.Second), "what the database sends is lost", func() (bool, error) { return !hears(t, database, other), nil })
		if !hears(t, other, database) {
			t.Error("what the other sends is lost, too")
		}
		c.recover(t, u)
		c.eventually(t, within(t, 30*time.Second), "what the database sends comes again", func() (bool, error) { return hears(t, database, other), nil })
		clean(t)
	})
	t.Run("container kill", func(t *testing.T) {
		u := chaosmesh.ContainerKill(m("container"), one(database), "main")
		c.inject(t, u)
		c.eventually(t, within(t, time.Minute), "the container was restarted, in the same pod", func() (bool, error) {
			p := &corev1.Pod{}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(database), p)
			return err == nil && p.UID == database.UID && p.Status.ContainerStatuses[0].RestartCount > 0 && p.Status.ContainerStatuses[0].Ready, err
		})
		c.recover(t, u)
		if !asks(t) {
			t.Error("the database does not answer after its restart")
		}
		clean(t)
	})
	t.Run("pod kill", func(t *testing.T) {
		u := chaosmesh.PodKill(m("pod"), one(database))
		c.inject(t, u)
		c.eventually(t, within(t, time.Minute), "the pod is gone", func() (bool, error) {
			err := c.Get(t.Context(), client.ObjectKeyFromObject(database), &corev1.Pod{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		c.recover(t, u)
	})
}

// chaosDatabase is a GeoDatabase that remains available without one of its nodes, and whose nodes restart with their
// state.
const chaosDatabase = `apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: {name: calvin, parameters: {ordering: consensus}}
  durability: Journal
  regions: [{name: us-east-1}, {name: eu-west-1}, {name: ap-northeast-1}]
  network: {profileRef: {name: aws}, emulation: BuiltIn}
`

func chaosRun(name, duration, faults string) string {
	r := strings.Replace(runOn("db", name, 5, "2s", duration), "multiPartitionPercent: 25", "multiPartitionPercent: 0", 1)
	return strings.Replace(r, "verify:", "faultInjection: ChaosMesh\n  faults:"+faults+"\n  verify:", 1)
}

// faulty is a run on chaosDatabase, together with a function that inspects pods from outside.
type faulty struct {
	*cluster
	run string
	see func(types.UID) *traces
}

// is waits until a fault is in a state, and returns the fault's entry in the status of the run.
func (f *faulty) is(t *testing.T, name string, state fault.State) v1alpha1.FaultStatus {
	t.Helper()
	var out v1alpha1.FaultStatus
	f.eventually(t, within(t, 3*time.Minute), fmt.Sprintf("fault %s is %s", name, state), func() (bool, error) {
		r, err := f.cluster.run(t.Context(), f.run)
		if err != nil {
			return false, err
		}
		for _, s := range r.Status.Faults {
			if s.Name == name {
				out = s
			}
		}
		if r.Status.Finished() && out.State != string(state) {
			t.Fatalf("run %s ended %s: %s: %s; fault %+v", f.run, r.Status.Stage, r.Status.Reason, r.Status.Message, out)
		}
		return out.State == string(state), fmt.Errorf("stage %s, fault %+v", r.Status.Stage, out)
	})
	return out
}

// node returns the pod of the database's node in a region.
func (f *faulty) node(t *testing.T, region string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := f.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: "db-" + region + "-0"}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// clean waits until no Chaos Mesh object exists and no node shows a trace of a fault.
func (f *faulty) clean(t *testing.T, limit time.Duration) {
	t.Helper()
	f.eventually(t, within(t, limit), "nothing is injected", func() (bool, error) {
		for _, kind := range []string{chaosmesh.NetworkChaos, chaosmesh.PodChaos, chaosmesh.StressChaos, chaosmesh.TimeChaos} {
			if objects := f.chaos(t, kind); len(objects) > 0 {
				return false, fmt.Errorf("%s %s", kind, objects[0].GetName())
			}
		}
		for _, region := range postgresRegions {
			p := &corev1.Pod{}
			if err := f.Get(t.Context(), types.NamespacedName{Namespace: f.namespace, Name: "db-" + region + "-0"}, p); err != nil {
				return false, err
			}
			if s := f.see(p.UID); !s.none() {
				return false, fmt.Errorf("%s: %s", p.Name, s)
			}
			if d := ahead(t, p); d != 0 {
				return false, fmt.Errorf("%s: its clock is %s ahead", p.Name, d)
			}
		}
		return true, nil
	})
}

// ahead returns the offset of a node's clock from the clock of this machine, rounded to ten seconds. It uses the Date
// header of a response, and returns an hour if the node does not answer.
func ahead(t *testing.T, p *corev1.Pod) time.Duration {
	t.Helper()
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://%s:7001/healthz", p.Status.PodIP))
	if err != nil {
		return time.Hour
	}
	defer resp.Body.Close()
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(date).Round(10 * time.Second)
}

func (c *cluster) startFaulty(t *testing.T, manifest, run string) *faulty {
	t.Helper()
	c.privileged(t)
	f := &faulty{c, run, c.inspector(t)}
	c.apply(t, manifest)
	return f
}

// lastingFaults are three faults of 40 s. They may start up to 10 s late, because Chaos Mesh takes seconds to inject
// them on a busy machine.
const lastingFaults = `
  - {name: cut, at: 5s, duration: 40s, tolerance: 10s, networkPartition: {from: {regions: [eu-west-1]}}}
  - {name: full, at: 5s, duration: 40s, tolerance: 10s, memoryStress: {target: {regions: [us-east-1]}, size: 64Mi}}
  - {name: wrong, at: 5s, duration: 40s, tolerance: 10s, clockSkew: {target: {regions: [us-east-1]}, offset: 60s}}`

// injected waits until lastingFaults are active, and checks their effects.
func (f *faulty) injected(t *testing.T) {
	t.Helper()
	for _, name := range []string{"cut", "full", "wrong"} {
		f.is(t, name, fault.Active)
	}
	cut, full := f.see(f.node(t, "eu-west-1").UID), f.see(f.node(t, "us-east-1").UID)
	if len(cut.Rules) == 0 || len(full.Stressors) == 0 || ahead(t, f.node(t, "us-east-1")) != time.Minute {
		t.Fatalf("the faults have no effect: %s, %s", cut, full)
	}
	t.Logf("eu-west-1: %s", cut)
	t.Logf("us-east-1: %s", full)
}

// TestChaosTimeline makes the real Chaos Mesh inject the faults of a BenchmarkRun. While the run reports a fault as
// active, its effect is visible from outside. After the run reports the end of the fault, the effect is gone.
func TestChaosTimeline(t *testing.T) {
	needsChaosMesh(t)
	f := newCluster(t).startFaulty(t, chaosDatabase+separator+chaosRun("timeline", "100s", lastingFaults+`
  - {name: busy, at: 5s, duration: 40s, tolerance: 10s, cpuStress: {target: {regions: [ap-northeast-1]}, workers: 1, loadPercent: 60}}
  - {name: thin, at: 5s, duration: 40s, networkBandwidth: {between: {from: [us-east-1], to: [ap-northeast-1]}, bandwidthMbps: 5}}
  - {name: restart, at: 75s, tolerance: 10s, containerKill: {target: {regions: [ap-northeast-1]}}}
  - {name: kill, at: 90s, tolerance: 10s, podKill: {target: {regions: [eu-west-1]}}}`), "timeline")
	f.injected(t)
	f.is(t, "busy", fault.Active)
	f.eventually(t, within(t, 10*time.Second), "a stressor works", func() (bool, error) {
		s := f.see(f.node(t, "ap-northeast-1").UID)
		return slices.ContainsFunc(s.Stressors, func(s stressor) bool { return s.name == "stress-ng-cpu" && s.ticks > 20 }), fmt.Errorf("%s", s)
	})
	for _, name := range []string{"cut", "full", "wrong", "busy", "thin"} {
		f.is(t, name, fault.Done)
	}
	f.clean(t, 10*time.Second)
	restarts := f.node(t, "ap-northeast-1").Status.ContainerStatuses[0].RestartCount
	f.is(t, "restart", fault.Done)
	if p := f.node(t, "ap-northeast-1"); p.Status.ContainerStatuses[0].RestartCount != restarts+1 {
		t.Errorf("the container has been started %d times more, want 1", p.Status.ContainerStatuses[0].RestartCount-restarts)
	}
	killed := f.node(t, "eu-west-1").UID
	f.is(t, "kill", fault.Done)
	if f.node(t, "eu-west-1").UID == killed {
		t.Error("the pod is still there")
	}

	r := f.awaitEnd(t, "timeline", 3*time.Minute)
	f.mustPass(t, r)
	doc := f.document(t, r)
	for _, d := range doc.Faults {
		if d.Problem != "" || d.FromMicroseconds == nil || d.InjectedMicroseconds == nil {
			t.Errorf("%+v", d)
			continue
		}
		over := "lasting"
		if d.ToMicroseconds != nil {
			over = fmt.Sprintf("%.1f s", float64(*d.ToMicroseconds)/1e6)
		}
		t.Logf("%-8s %-16s by %-10s from %.1f s, injected %.1f s, over %s", d.Name, d.Kind, d.Injector,
			float64(*d.FromMicroseconds)/1e6, float64(*d.InjectedMicroseconds)/1e6, over)
		want := string(v1alpha1.InjectorChaosMesh)
		if d.Name == "thin" { // a fault of a link, which the nodes emulate
			want = string(v1alpha1.InjectorBuiltIn)
		}
		if d.Injector != want {
			t.Errorf("fault %s was injected by %s, want %s", d.Name, d.Injector, want)
		}
	}
	f.clean(t, 30*time.Second)
}

// TestChaosRunDeleted deletes a run during its faults. The faults end, and the database continues to serve.
func TestChaosRunDeleted(t *testing.T) {
	needsChaosMesh(t)
	f := newCluster(t).startFaulty(t, chaosDatabase+separator+chaosRun("deleted", "50s", lastingFaults), "deleted")
	f.injected(t)
	before := map[string]types.UID{}
	for _, region := range postgresRegions {
		before[region] = f.node(t, region).UID
	}
	start := time.Now()
	f.deleteRun(t, "deleted")
	f.clean(t, 10*time.Second)
	t.Logf("nothing is left %s after the deletion", time.Since(start).Round(100*time.Millisecond))
	for region, uid := range before {
		if f.node(t, region).UID != uid {
			t.Errorf("the pod of %s was replaced", region)
		}
	}
	f.awaitVerified(t, "db", time.Minute)
}

// TestChaosUninstalled removes Chaos Mesh during faults, so that nothing can end them. The operator replaces the
// affected pods and reports the run as Invalid. This must be the last test that needs Chaos Mesh.
func TestChaosUninstalled(t *testing.T) {
	needsChaosMesh(t)
	f := newCluster(t).startFaulty(t, chaosDatabase+separator+chaosRun("orphaned", "50s", lastingFaults), "orphaned")
	f.injected(t)
	if out, err := exec.Command("helm", "uninstall", "chaos-mesh", "--namespace", "chaos-mesh", "--wait", "--timeout", "1m").CombinedOutput(); err != nil {
		t.Fatalf("helm uninstall: %v: %s", err, out)
	}
	gone := time.Now()
	r := f.awaitEnd(t, "orphaned", 5*time.Minute)
	t.Logf("%s: %s: %s", r.Status.Verdict, r.Status.Reason, r.Status.Message)
	if r.Status.Verdict == v1alpha1.VerdictPassed {
		t.Error("a run whose faults nobody could end has passed")
	}
	f.clean(t, 4*time.Minute)
	t.Logf("nothing is left %s after Chaos Mesh has gone", time.Since(gone).Round(time.Second))
	f.awaitVerified(t, "db", 3*time.Minute)
	f.deleteRun(t, "orphaned")
}
