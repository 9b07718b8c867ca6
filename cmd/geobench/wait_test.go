//go:build full

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/ops/health"
)

// waitedRun returns a run as the operator leaves it, with the conditions that the operator derives from the other
// status fields.
func waitedRun(name string, stage v1alpha1.Stage, verdict v1alpha1.Verdict, reason string) *v1alpha1.BenchmarkRun {
	run := &v1alpha1.BenchmarkRun{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", UID: types.UID(name), Generation: 1},
		Status: v1alpha1.BenchmarkRunStatus{ObservedGeneration: 1, Stage: stage, Verdict: verdict, Reason: reason, Message: "as it was"}}
	if stage == v1alpha1.StageCompleted {
		run.Status.ReportRef = &v1alpha1.LocalReference{Name: name + "-result"}
	}
	health.Apply(&run.Status.Conditions, nil, health.Run(run), metav1.Now())
	return run
}

func waitedExperiment(name string, conditions ...metav1.Condition) *v1alpha1.Experiment {
	e := &v1alpha1.Experiment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", UID: types.UID(name), Generation: 1},
		Status: v1alpha1.ExperimentStatus{ObservedGeneration: 1, Conditions: conditions}}
	health.Apply(&e.Status.Conditions, nil, health.Experiment(e, time.Now()), metav1.Now())
	return e
}

func waitCluster(objects ...client.Object) client.WithWatch {
	scheme := runtime.NewScheme()
	_ = v1alpha1.AddToScheme(scheme)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestWait(t *testing.T) {
	claims := func(reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionCompleted, Status: metav1.ConditionTrue, Reason: reason, Message: "1 of 2 claims hold"}
	}
	differ := metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "ClaimsDiffer", Message: "1 of 2 claims hold"}
	refused := metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: "InvalidSpec", Message: "spec.sweep[0].path: no"}
	again := waitedRun("again", v1alpha1.StageCompleted, v1alpha1.VerdictPassed, "ObjectivesHold")
	again.Generation, again.Spec.RunID = 2, "two"
	held := waitedRun("held", "", "", "")
	held.Spec.Suspend = true
	health.Apply(&held.Status.Conditions, nil, health.Run(held), metav1.Now())
	c := waitCluster(
		waitedRun("passed", v1alpha1.StageCompleted, v1alpha1.VerdictPassed, "ObjectivesHold"),
		waitedRun("failed", v1alpha1.StageCompleted, v1alpha1.VerdictFailed, "ObjectiveMissed"),
		waitedRun("invalid", v1alpha1.StageFailed, v1alpha1.VerdictInvalid, "NodeLost"),
		waitedRun("underway", v1alpha1.StageMeasure, "", ""),
		waitedRun("both", v1alpha1.StageCompleted, v1alpha1.VerdictPassed, "ObjectivesHold"),
		again, held,
		waitedExperiment("holds", claims("ClaimsHold")), waitedExperiment("differs", claims("ClaimsDiffer")),
		waitedExperiment("gate", claims("ClaimsDiffer"), differ), waitedExperiment("refused", refused), waitedExperiment("both", claims("ClaimsHold")),
	)
	real := connect
	connect = func(f clusterFlags) (*cluster, error) { return &cluster{c, f.namespace}, nil }
	t.Cleanup(func() { connect = real })
	for name, tc := range map[string]struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		"passed":                   {[]string{"passed"}, 0, "benchmarkrun.geobench.dev/passed Succeeded: Passed: ObjectivesHold: as it was\n", ""},
		"failed":                   {[]string{"failed"}, exit.Failed, "benchmarkrun.geobench.dev/failed Failed: Failed: ObjectiveMissed: as it was\n", "1 of 1 did not succeed: failed"},
		"invalid":                  {[]string{"invalid"}, exit.Failed, "Invalid: NodeLost: as it was\n", ""},
		"several":                  {[]string{"passed", "invalid", "holds"}, exit.Failed, "experiment.geobench.dev/holds Succeeded: Passed: ClaimsHold: 1 of 2 claims hold\n", "1 of 3 did not succeed: invalid"},
		"all of several":           {[]string{"passed", "run/passed", "holds"}, 0, "benchmarkrun.geobench.dev/passed Succeeded: Passed: ObjectivesHold: as it was\nexperiment.", ""},
		"a finding":                {[]string{"differs"}, 0, "Passed: ClaimsDiffer", ""},
		"a gate":                   {[]string{"gate"}, exit.Failed, "Failed: ClaimsDiffer: 1 of 2 claims hold", ""},
		"refused":                  {[]string{"refused"}, exit.Failed, "InvalidSpec: spec.sweep[0].path: no", ""},
		"shared name":              {[]string{"both"}, exit.Usage, "", "write run/both or experiment/both"},
		"shared name, told":        {[]string{"experiment/both"}, 0, "experiment.geobench.dev/both Succeeded", ""},
		"as kubectl says it":       {[]string{"benchmarkrun.geobench.dev/both"}, 0, "benchmarkrun.geobench.dev/both Succeeded", ""},
		"kind that does not end":   {[]string{"geodatabase/calvin"}, exit.Usage, "", "geodatabase is neither run nor experiment: write run/calvin"},
		"misspelt":                 {[]string{"pased"}, exit.Usage, "", "there is no BenchmarkRun or Experiment pased in namespace bench; did you mean passed?"},
		"misspelt experiment":      {[]string{"exp/differ"}, exit.Usage, "", "there is no Experiment differ in namespace bench; did you mean differs?"},
		"no name":                  {nil, exit.Usage, "", "requires at least 1 arg"},
		"format":                   {[]string{"passed", "-o", "yaml"}, exit.Usage, "", `--output: "yaml" is not one of text, json`},
		"negative time":            {[]string{"passed", "--timeout", "-1s"}, exit.Usage, "", "--timeout: -1s is negative"},
		"too long":                 {[]string{"underway", "--timeout", "1ms"}, exit.Broken, "underway Underway: Measure", "the time is over of --timeout 1ms: underway goes on"},
		"too long, and one failed": {[]string{"underway", "failed", "--timeout", "1ms"}, exit.Failed, "", "1 of 2 did not succeed: failed"},
		"verdict of before":        {[]string{"again", "--timeout", "1ms"}, exit.Broken, "Underway: the operator has not seen it yet", ""},
		"suspended":                {[]string{"held", "--timeout", "1ms"}, exit.Broken, "", "held: Suspended: the run begins when spec.suspend is taken back"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := geobench(t, "", append([]string{"wait", "-n", "bench"}, tc.args...)...)
			if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
				t.Errorf("exit code %d, want %d\nstdout %q, want %q\nstderr %q, want %q", code, tc.code, stdout, tc.stdout, stderr, tc.stderr)
			}
		})
	}
	code, stdout, _ := geobench(t, "", "wait", "-n", "bench", "-q", "-o", "json", "invalid", "passed")
	var got []waited
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exit.Failed || len(got) != 2 {
		t.Fatalf("exit code %d, %v: %s", code, err, stdout)
	}
	want := waited{Kind: "BenchmarkRun", Namespace: "bench", Name: "passed", Outcome: health.Succeeded, Verdict: v1alpha1.VerdictPassed,
		Message: "Passed: ObjectivesHold: as it was", ResultConfigMap: "passed-result"}
	if got[1] != want || got[0].Verdict != v1alpha1.VerdictInvalid || got[0].Outcome != health.Failed {
		t.Errorf("got %+v", got)
	}
}

// end replaces the existing run with a finished run.
func end(t *testing.T, c client.Client, run *v1alpha1.BenchmarkRun) error {
	t.Helper()
	now := &v1alpha1.BenchmarkRun{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(run), now); err != nil {
		return err
	}
	run.ResourceVersion = now.ResourceVersion
	return c.Update(t.Context(), run)
}

// Objects change during the wait: runs finish, are deleted, and are created again under another UID. The API server is
// unavailable, temporarily or permanently.
func TestWaitLooksAgain(t *testing.T) {
	away := errors.New("dial tcp: connection refused")
	for name, tc := range map[string]struct {
		// at changes the cluster before the lookup with number look, counted from 1.
		at   func(look int, c client.WithWatch) error
		code int
		says string
	}{
		"passes": {at: func(look int, c client.WithWatch) error {
			if look == 3 {
				return end(t, c, waitedRun("r", v1alpha1.StageCompleted, v1alpha1.VerdictPassed, "ObjectivesHold"))
			}
			return nil
		}},
		"deleted": {at: func(look int, c client.WithWatch) error {
			if look == 3 {
				return c.Delete(t.Context(), waitedRun("r", "", "", ""))
			}
			return nil
		}, code: exit.Broken, says: "deleted before the end: r"},
		"made anew": {at: func(look int, c client.WithWatch) error {
			if look != 3 {
				return nil
			}
			other := waitedRun("r", v1alpha1.StageCompleted, v1alpha1.VerdictPassed, "ObjectivesHold")
			other.UID = "another"
			return errors.Join(c.Delete(t.Context(), waitedRun("r", "", "", "")), c.Create(t.Context(), other))
		}, code: exit.Broken, says: "deleted before the end: r"},
		"away for a while": {at: func(look int, c client.WithWatch) error {
			switch {
			case look == 1 || look == waitFailures+1:
				return nil
			case look < waitFailures+1:
				return away
			case look == waitFailures+3:
				return end(t, c, waitedRun("r", v1alpha1.StageCompleted, v1alpha1.VerdictFailed, "ObjectiveMissed"))
			}
			return away
		}, code: exit.Failed, says: "1 of 1 did not succeed: r"},
		"away for good": {at: func(look int, _ client.WithWatch) error {
			if look == 1 {
				return nil
			}
			return away
		}, code: exit.Broken, says: "gave up waiting for r: dial tcp: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			looks := 0
			c := interceptor.NewClient(waitCluster(waitedRun("r", v1alpha1.StageMeasure, "", "")), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if _, ok := obj.(*v1alpha1.BenchmarkRun); ok {
						looks++
						if err := tc.at(looks, c); errors.Is(err, away) {
							return err
						} else if err != nil {
							t.Error(err)
							cancel()
						}
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			w := &waiter{cluster: &cluster{c, "bench"}, screen: newScreen(io.Discard, true), every: time.Microsecond}
			if err := w.find(t.Context(), []string{"run/r"}); err != nil {
				t.Fatal(err)
			}
			err := w.verdict(w.wait(ctx))
			code, coded := 0, (*codedError)(nil)
			if errors.As(err, &coded) {
				code = coded.code
			} else if err != nil {
				code = exit.Broken
			}
			if code != tc.code || !strings.Contains(fmt.Sprint(err), tc.says) {
				t.Errorf("exit code %d, want %d with %q: %v", code, tc.code, tc.says, err)
			}
		})
	}
}

func TestWaitIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &waiter{cluster: &cluster{waitCluster(), "bench"}, screen: newScreen(io.Discard, true), every: time.Hour,
		objects: []*waited{{Name: "failed", Outcome: health.Failed}, {Name: "r", Outcome: health.Underway}}}
	if err := w.verdict(w.wait(ctx)); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped waiting for r") {
		t.Errorf("got %v", err)
	}
}
