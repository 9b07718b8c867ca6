package controllers_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
)

// hostileClaims are expressions in Experiments that any tenant can write. The first two once crashed the operator: one
// call allocated 2.28 GB, and the other made 5 * 10^11 comparisons.
var hostileClaims = map[string]string{
	"replace":    "'aaaaaaaaaa'" + strings.Repeat(".replace('a','"+strings.Repeat("a", 180)+"')", 16) + ".size() > 0",
	"distinct":   "lists.range(1000000).distinct().size() > 0",
	"range":      "lists.range(2000000000).size() > 0",
	"ranges":     "lists.range(100000).map(x, lists.range(100000)).size() > 0",
	"sort":       "lists.range(1000000).sort().size() > 0",
	"format":     "'%.99f'.format([1.0])" + strings.Repeat(".replace('0','"+strings.Repeat("0", 200)+"')", 10) + ".size() > 0",
	"join":       "lists.range(100000).map(x, string(x)).join('" + strings.Repeat("x", 2000) + "').size() > 0",
	"split":      "('" + strings.Repeat("a", 1000) + "')" + strings.Repeat(".split('').join('aaaaaaaaaaaaaaaa')", 20) + ".size() > 0",
	"matches":    "('" + strings.Repeat("a", 1000) + "').matches('((((a{1,100}){1,100}){1,100}){1,100})')",
	"sets":       "sets.contains(lists.range(1000000), lists.range(1000000))",
	"loops":      "systems.all(s, lists.range(1000).all(a, lists.range(1000).all(b, lists.range(1000).all(c, a + b + c >= 0))))",
	"doubled":    "[[1.0]]" + strings.Repeat(".map(x, x + x)", 40) + ".size() > 0",
	"flatten":    "lists.range(10000).map(x, lists.range(10000)).flatten().size() > 0",
	"in":         "lists.range(100000).all(x, x in lists.range(100000))",
	"equal":      "lists.range(10000).all(x, lists.range(10000) == lists.range(10000))",
	"figures":    "lists.range(10000).all(x, lists.range(1000).all(y, max(tput('d')) > 0.0))",
	"errors":     "lists.range(100000).all(x, lists.range(1000).all(y, tput('nobody') == [] || true))",
	"text":       "lists.range(100000).map(x, text(lists.range(100000))).size() > 0",
	"at the end": "lists.range(440).all(x, lists.range(440).all(y, x * y >= 0))", // close to the limit
}

// hostileExperimentsOf returns Experiments that cause as much work for the operator as possible: hostileClaims, and
// large sweeps.
func hostileExperimentsOf(namespace string) (all []*v1alpha1.Experiment) {
	few := "[{path: spec.load.clientsPerRegion, values: [1, 2]}]"
	add := func(sweep, claims string) *v1alpha1.Experiment {
		x := experimentOf(fmt.Sprintf("hostile-%d", len(all)), namespace, sweep, claims)
		all = append(all, x)
		return x
	}
	for _, expression := range hostileClaims {
		add(few, fmt.Sprintf("[{id: c, says: something, expression: %q}]", expression))
	}
	most := `[{path: spec.load.clientsPerRegion, values: [` + numbers(1, 100) + `]}, {path: spec.seed, values: [` + numbers(1, 100) + `]}]`
	add(most, "[]")
	faults := add(most, "[]")
	for i := range 32 {
		faults.Spec.Run.Spec.Faults = append(faults.Spec.Run.Spec.Faults, v1alpha1.Fault{Name: fmt.Sprintf("f%d", i),
			At: v1alpha1.DurationOf(time.Duration(i) * time.Millisecond), Duration: new(v1alpha1.DurationOf(time.Millisecond)), CPUStress: &v1alpha1.CPUStressFault{Workers: 1}})
	}
	var claims []string
	for i := range 64 {
		claims = append(claims, fmt.Sprintf("{id: c%d, says: something, expression: %q, measured: %q}", i, hostileClaims["at the end"], hostileClaims["at the end"]))
	}
	add(few, "["+strings.Join(claims, ", ")+"]")
	add(`[{path: spec.workload.smallbank.customers, values: ["`+strings.Repeat("1", 500_000)+`", "2"]}]`, "[]")
	return all
}

// TestHostileExperiments: with the memory limit of the chart, the released operator survives the Experiments of a
// malicious tenant. It accepts other tenants' Experiments promptly, and stops working on deleted Experiments.
// GEOBENCH_OPERATOR names its binary (make hostile).
func TestHostileExperiments(t *testing.T) {
	w := newWorldOfProcess(t, nil)
	operator := startOperator(t, w.Namespace)
	_, enemy := worldtest.NewNamespace(t)
	accepts := func(name string, within time.Duration) {
		t.Helper()
		x := experimentOf(name, w.Namespace, "[{path: spec.seed, values: [1, 2]}]", `[{id: c, says: something, expression: "max(tput('d')) > 0.0"}]`)
		w.Must(w.Client.Create(w.Ctx, x))
		begun := time.Now()
		w.Play("experiment "+name+" is accepted", func() bool {
			w.Must(w.Client.Get(w.Ctx, client.ObjectKeyFromObject(x), x))
			return meta.IsStatusConditionTrue(x.Status.Conditions, v1alpha1.ConditionAccepted)
		})
		took := time.Since(begun)
		t.Logf("experiment %s was accepted after %v", name, took.Round(10*time.Millisecond))
		if took > within {
			t.Errorf("experiment %s was accepted after %v, want %v", name, took, within)
		}
	}
	accepts("before", time.Minute) // the operator may have to start
	for _, x := range hostileExperimentsOf(enemy) {
		w.Must(w.Client.Create(w.Ctx, x))
	}
	for i := range 5 {
		accepts(fmt.Sprintf("meanwhile-%d", i), 10*time.Second)
	}
	refused, deadline := 0, time.Now().Add(time.Minute)
	w.Play("those that are too much were refused", func() bool {
		list := &v1alpha1.ExperimentList{}
		w.Must(w.Client.List(w.Ctx, list, client.InNamespace(enemy)))
		refused = 0
		for i := range list.Items {
			if meta.IsStatusConditionFalse(list.Items[i].Status.Conditions, v1alpha1.ConditionAccepted) {
				refused++
			}
		}
		return refused >= len(hostileClaims)-1 || time.Now().After(deadline)
	})
	t.Logf("%d experiments were refused", refused)
	w.Must(w.Client.DeleteAllOf(w.Ctx, &v1alpha1.Experiment{}, client.InNamespace(enemy), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	for second, last := 1, operator.cpu(); ; second++ {
		begun := time.Now()
		w.Play("a second is over", func() bool { return time.Since(begun) > time.Second })
		took := operator.cpu() - last
		last += took
		t.Logf("second %d after the deletion: the operator took %v of CPU", second, took)
		if took < 200*time.Millisecond {
			break
		}
		if second == 6 {
			t.Errorf("the operator goes on with what was deleted")
			break
		}
	}
	if n := operator.restarted(); n > 0 {
		t.Errorf("the operator was started again %d times", n)
	}
	_, peak := operator.memory()
	t.Logf("the operator took %d MiB at most", peak>>20)
}

// cpu returns the processor time that the operator's process has used.
func (o *operatorProcess) cpu() time.Duration {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", o.process.Pid))
	if err != nil {
		o.t.Fatal(err)
	}
	// Fields after the name, which may contain spaces: the state, and from the 12th field on the ticks in user and kernel
	// mode.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			o.t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
