package chaosaudit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/geobench/geobench/internal/net/emulation/chaosmesh"
)

// record returns a record of an object's status: phase, and the times of injection and recovery in seconds of the test,
// with -1 for never.
func record(zero time.Time, id, phase string, injected, recovered int) map[string]any {
	var events []any
	for _, e := range []struct {
		operation string
		at        int
	}{{"Apply", injected}, {"Recover", recovered}} {
		if e.at >= 0 {
			events = append(events, map[string]any{"type": "Succeeded", "operation": e.operation, "timestamp": zero.Add(time.Duration(e.at) * time.Second).Format(time.RFC3339)})
		}
	}
	return map[string]any{"id": id, "phase": phase, "events": events}
}

func object(name string, records ...map[string]any) *unstructured.Unstructured {
	var all []any
	for _, r := range records {
		all = append(all, r)
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"action": "delay"}, "status": map[string]any{"experiment": map[string]any{"containerRecords": all}},
	}}
	o.SetGroupVersionKind(chaosmesh.GroupVersion.WithKind(chaosmesh.NetworkChaos))
	o.SetNamespace("theirs")
	o.SetName(name)
	o.SetUID(types.UID(name))
	return o
}

// The effect of an object on a pod lasts from its injection to its end. The effect starts at the injection time in the
// object's record. Without such a time, it starts when the log first saw the effect.
func TestEffects(t *testing.T) {
	const yes, no = "Injected", "Not Injected"
	type step struct {
		at   int // in seconds of the test
		is   func(zero time.Time) *unstructured.Unstructured
		gone bool
	}
	one := func(phase string, injected, recovered int) func(time.Time) *unstructured.Unstructured {
		return func(zero time.Time) *unstructured.Unstructured {
			return object("slow", record(zero, "ours/d-0", phase, injected, recovered))
		}
	}
	for name, tc := range map[string]struct {
		steps []step
		want  string // period of the effect, from..to
	}{
		"nothing was chosen yet":            {steps: []step{{1, func(time.Time) *unstructured.Unstructured { return object("slow") }, false}}},
		"chosen, not injected":              {steps: []step{{1, one(no, -1, -1), false}}},
		"it lasts":                          {steps: []step{{5, one(yes, 4, -1), false}, {6, one(yes, 4, -1), false}}, want: "4s.."},
		"it has no times":                   {steps: []step{{5, one(yes, -1, -1), false}}, want: "5s.."},
		"it ends":                           {steps: []step{{5, one(yes, 4, -1), false}, {8, one(no, 4, 8), false}, {9, one(no, 4, 8), false}}, want: "4s..8s"},
		"it is deleted while it lasts":      {steps: []step{{5, one(yes, 4, -1), false}, {8, nil, true}}, want: "4s..8s"},
		"it is deleted later":               {steps: []step{{5, one(yes, 4, -1), false}, {8, one(no, 4, 8), false}, {20, nil, true}}, want: "4s..8s"},
		"it was over before the first look": {steps: []step{{30, one(no, 4, 8), false}}, want: "4s..9s"},
		"it comes again":                    {steps: []step{{5, one(yes, 4, -1), false}, {8, one(no, 4, 8), false}, {12, one(yes, 12, 8), false}}, want: "4s.."},
		"it came again between two looks":   {steps: []step{{5, one(yes, 4, -1), false}, {8, one(no, 4, 8), false}, {30, one(no, 12, 14), false}}, want: "4s..15s"},
		"another container of it comes first": {steps: []step{{5, func(zero time.Time) *unstructured.Unstructured {
			return object("slow", record(zero, "ours/d-0/node", yes, 4, -1), record(zero, "ours/d-0/geobench-wan", no, -1, -1))
		}, false}}, want: "4s.."},
	} {
		t.Run(name, func(t *testing.T) {
			zero := time.Now().Truncate(time.Second)
			clock := clocktesting.NewFakeClock(zero)
			l := &Log{Clock: clock}
			for _, s := range tc.steps {
				clock.SetTime(zero.Add(time.Duration(s.at) * time.Second))
				if s.is != nil {
					l.see(s.is(zero))
				}
				if s.gone {
					l.gone(chaosmesh.NetworkChaos, func(uid types.UID) bool { return uid == "slow" })
				}
			}
			got := ""
			for _, e := range l.Between([]string{"ours/d-0"}, zero, zero.Add(time.Hour), func(*Effect) bool { return false }) {
				got += e.From.Sub(zero).String() + ".."
				if !e.To.IsZero() {
					got += e.To.Sub(zero).String()
				}
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// Between returns only effects of foreign objects on the given pods in the given period.
func TestBetween(t *testing.T) {
	zero := time.Now().Truncate(time.Second)
	clock := clocktesting.NewFakeClock(zero)
	l := &Log{Clock: clock}
	own := object("own", record(zero, "ours/d-0", "Injected", 10, -1))
	own.SetOwnerReferences([]metav1.OwnerReference{{UID: "run", Controller: ptr.To(true)}})
	for _, o := range []*unstructured.Unstructured{
		own,
		object("early", record(zero, "ours/d-0", "Not Injected", 1, 5)),
		object("late", record(zero, "ours/d-0", "Injected", 40, -1)),
		object("elsewhere", record(zero, "ours/e-0", "Injected", 10, -1)),
		object("another", record(zero, "theirs/d-0", "Injected", 10, -1)),
		object("hit", record(zero, "ours/d-0", "Not Injected", 15, 16), record(zero, "ours/d-1", "Not Injected", 12, 16)),
	} {
		clock.SetTime(zero.Add(50 * time.Second))
		l.see(o)
	}
	var got []string
	for _, e := range l.Between([]string{"ours/d-0", "ours/d-1"}, zero.Add(10*time.Second), zero.Add(30*time.Second), func(e *Effect) bool { return e.Owner == "run" }) {
		got = append(got, e.String()+" "+e.Pod)
	}
	if want := "NetworkChaos theirs/hit (delay) ours/d-1, NetworkChaos theirs/hit (delay) ours/d-0"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The log has a bounded size, and keeps lasting effects in preference to past effects.
func TestLogIsBounded(t *testing.T) {
	zero := time.Now().Truncate(time.Second)
	l := &Log{Clock: clocktesting.NewFakeClock(zero.Add(time.Minute))}
	l.see(object("lasts", record(zero, "ours/d-0", "Injected", 1, -1)))
	var many []map[string]any
	for i := range most + 10 {
		many = append(many, record(zero, fmt.Sprintf("ours/x-%d", i), "Not Injected", 2, 3+i%5))
	}
	l.see(object("many", many...))
	if len(l.effects) != most || len(l.Between([]string{"ours/d-0"}, zero, zero.Add(time.Minute), func(*Effect) bool { return false })) != 1 {
		t.Errorf("%d effects are kept", len(l.effects))
	}
}
