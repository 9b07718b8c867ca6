//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/fault"
)

// awaitFault waits until a fault of a run is in a state.
func (c *cluster) awaitFault(t *testing.T, run, name string, state fault.State, limit time.Duration) {
	t.Helper()
	ctx := within(t, limit)
	c.eventually(t, ctx, fmt.Sprintf("fault %s of run %s is in state %s", name, run, state), func() (bool, error) {
		r, err := c.run(ctx, run)
		if err != nil {
			return false, err
		}
		if r.Status.Finished() {
			t.Fatalf("run %s ended: %s %s", run, r.Status.Reason, r.Status.Message)
		}
		for _, f := range r.Status.Faults {
			if f.Name == name {
				return f.State == string(state), fmt.Errorf("it is in state %s: %s", f.State, f.Message)
			}
		}
		return false, fmt.Errorf("the run is in stage %s", r.Status.Stage)
	})
}

// nodes returns the pods of all database nodes in the namespace.
func (c *cluster) nodes(t *testing.T) []corev1.Pod {
	t.Helper()
	pods := &corev1.PodList{}
	if err := c.List(t.Context(), pods, client.InNamespace(c.namespace), client.MatchingLabels{kube.LabelRole: kube.RoleNode}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// disturbed returns the nodes whose metrics report a disturbance.
func (c *cluster) disturbed(t *testing.T) (out []string) {
	t.Helper()
	for _, pod := range c.nodes(t) {
		v, err := metric(&pod, 7001, "geobench_node_disturbed")
		if err != nil {
			t.Fatal(err)
		}
		if v != 0 {
			out = append(out, pod.Name)
		}
	}
	return out
}

// metric returns the value of a pod's metric that has a single series.
func metric(pod *corev1.Pod, port int, name string) (float64, error) {
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get(fmt.Sprintf("http://%s:%d/metrics", pod.Status.PodIP, port))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		}
	}
	return 0, fmt.Errorf("pod %s has no metric %s", pod.Name, name)
}

// TestFaults injects a timeline of faults into a database whose nodes emulate their links, and kills the operator
// during the first fault. Each fault affects the throughput while it lasts, and not afterwards. The operator itself
// carries out the node shutdown, and may do so late on a busy machine.
func TestFaults(t *testing.T) {
	c := newCluster(t)
	c.apply(t, database("calvin")+separator+run("faulty", 50, "2s", "27s")+`  objectives: [{metric: unknownPPM, max: 1000000}]
  faults:
  - {name: slow, at: 2s, duration: 6s, networkDelay: {between: {}, delay: 100ms}}
  - {name: cut, at: 12s, duration: 2s, networkPartition: {from: {role: leader}}}
  - {name: busy, at: 19s, duration: 2s, cpuStress: {target: {}, workers: 256}}
  - {name: down, at: 24s, duration: 2s, tolerance: 2s, nodeShutdown: {target: {regions: [ap-northeast-1], partitions: [1]}}}
`)
	c.awaitFault(t, "faulty", "slow", fault.Active, 3*time.Minute)
	c.killOperator(t)
	if left := c.disturbed(t); len(left) != 4 {
		t.Errorf("%v are disturbed, want all 4 nodes", left)
	}
	c.awaitFault(t, "faulty", "down", fault.Done, time.Minute)
	pod := &corev1.Pod{}
	c.eventually(t, within(t, 5*time.Second), "the pod is replaced by one that stays down", func() (bool, error) {
		err := c.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: "calvin-ap-northeast-1-1"}, pod)
		return err == nil && pod.Status.Phase == corev1.PodPending && len(pod.Spec.SchedulingGates) == 1, err
	})
	r := c.awaitEnd(t, "faulty", 2*time.Minute)
	c.mustPass(t, r)
	d := c.document(t, r)
	if len(d.Faults) != 4 {
		t.Fatalf("%d faults, want 4", len(d.Faults))
	}
	if off := d.Faults[3]; off.Problem != "" || off.Injector != string(v1alpha1.InjectorKubernetes) || !off.Lasting ||
		!slices.Equal(off.Lost, []string{"ap-northeast-1/1/0"}) || off.InjectedMicroseconds == nil {
		t.Errorf("%+v", off)
	}
	for _, check := range d.Checks {
		t.Logf("%s: %s", check.Name, check.Message)
	}
	for i, f := range d.Faults[:3] {
		a := f.Availability
		if f.Problem != "" || f.Injector != string(v1alpha1.InjectorBuiltIn) || f.ToMicroseconds == nil || a == nil {
			t.Errorf("%+v, availability %+v", f, a)
			continue
		}
		recovery := "never"
		if a.RecoverMicroseconds != nil {
			recovery = (time.Duration(*a.RecoverMicroseconds) * time.Microsecond).String()
		}
		t.Logf("%s: planned for %d ms, from %d ms, injected %d ms, recovering %d ms, to %d ms; %d/s before, %d/s during, recovered after %s", f.Name, f.AtMicroseconds/1000,
			*f.FromMicroseconds/1000, *f.InjectedMicroseconds/1000, *f.RecoveringMicroseconds/1000, *f.ToMicroseconds/1000, a.NormalPerSecond, a.FaultPerSecond, recovery)
		if f.Kind != fault.NetworkDelay && a.FaultPerSecond*10 > a.NormalPerSecond*8 {
			t.Errorf("%s left %d of %d transactions per second", f.Name, a.FaultPerSecond, a.NormalPerSecond)
		}
		if a.RecoverMicroseconds == nil && a.TPPM != nil { // T is unknown if the next fault started too early
			t.Errorf("%s has no recovery: %+v", f.Name, a)
		}
		if i > 0 && *f.FromMicroseconds-f.AtMicroseconds > 3_000_000 {
			t.Errorf("%s began %d us late", f.Name, *f.FromMicroseconds-f.AtMicroseconds)
		}
	}
	// During the fault, the round trip between the regions exceeds 300 ms instead of 100 ms. This affects the slowest
	// transactions of every second.
	slowest := func(from, to int) (p99 int64) {
		p99 = d.Timeline[from].P99.Least()
		for _, tick := range d.Timeline[from:to] {
			p99 = min(p99, tick.P99.Least())
		}
		return p99
	}
	if slow, normal := slowest(4, 8), slowest(9, 12); slow < 300_000 || normal > 300_000 {
		t.Errorf("the least p99 of a second is %d us while the links are slow, and %d us after", slow, normal)
	}
	// If a run is deleted during a fault, no effect of the fault remains.
	c.apply(t, run("deleted", 10, "1s", "40s")+"  faults: [{name: cut, at: 1s, duration: 35s, networkPartition: {from: {role: leader}}}]\n")
	c.awaitFault(t, "deleted", "cut", fault.Active, time.Minute)
	if left := c.disturbed(t); len(left) != 4 {
		t.Errorf("%v are disturbed, want all 4 nodes", left)
	}
	c.deleteRun(t, "deleted")
	if left := c.disturbed(t); len(left) > 0 {
		t.Errorf("%v are still disturbed", left)
	}
}
