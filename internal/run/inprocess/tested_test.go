package inprocess_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// A run is played only if all its functional tests pass. All tests are played, regardless of each other's outcomes.
func TestTested(t *testing.T) {
	t.Parallel()
	named := func(name string) *plan.Plan {
		p := &plan.Plan{Run: &v1alpha1.BenchmarkRun{}}
		p.Run.Name = name
		return p
	}
	p := named("r")
	p.Run.Spec.FunctionalTests = []v1alpha1.FunctionalTest{v1alpha1.FunctionalGlobalDeadlock, v1alpha1.FunctionalGlobalSnapshot}
	p.Tests = []*plan.Plan{named("r-deadlock"), named("r-snapshot")}
	for name, tc := range map[string]struct {
		verdicts map[string]v1alpha1.Verdict
		fails    string // name of a run that cannot be played
		played   []string
		err      string
	}{
		"all pass":      {nil, "", []string{"r-deadlock", "r-snapshot", "r"}, ""},
		"the first":     {map[string]v1alpha1.Verdict{"r-deadlock": v1alpha1.VerdictFailed}, "", []string{"r-deadlock", "r-snapshot"}, "r-deadlock is Failed: so it is"},
		"the second":    {map[string]v1alpha1.Verdict{"r-snapshot": v1alpha1.VerdictInvalid}, "", []string{"r-deadlock", "r-snapshot"}, "r-snapshot is Invalid: so it is"},
		"the run":       {map[string]v1alpha1.Verdict{"r": v1alpha1.VerdictFailed}, "", []string{"r-deadlock", "r-snapshot", "r"}, ""},
		"is broken off": {nil, "r-snapshot", []string{"r-deadlock"}, "functional test r-snapshot: context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, err := inprocess.Tested(p, func(p *plan.Plan) (*result.Document, error) {
				if p.Run.Name == tc.fails {
					return nil, context.Canceled
				}
				d := &result.Document{Name: p.Run.Name, Verdict: v1alpha1.VerdictPassed}
				d.Summary.Committed = 7
				if v, ok := tc.verdicts[d.Name]; ok {
					d.Verdict, d.Reasons = v, []result.Reason{{Message: "so it is"}}
				}
				return d, nil
			})
			var played []string
			for _, d := range docs {
				played = append(played, d.Name)
			}
			if !slices.Equal(played, tc.played) {
				t.Errorf("%v were played, want %v", played, tc.played)
			}
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if unfit := (*acceptance.NotPassedError)(nil); errors.As(err, &unfit) != (len(tc.verdicts) > 0 && len(tc.played) == 2) {
				t.Errorf("%v tells of tests", err)
			}
			if d := docs[len(docs)-1]; d.Name == "r" && (len(d.FunctionalTests) != 2 ||
				d.FunctionalTests[1] != result.FunctionalTest{Name: v1alpha1.FunctionalGlobalSnapshot, Run: "r-snapshot", Committed: 7}) {
				t.Errorf("the document has the tests %+v", d.FunctionalTests)
			}
		})
	}
}
