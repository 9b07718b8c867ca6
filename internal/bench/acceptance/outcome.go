package acceptance

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// Outcome is the result of a test.
type Outcome struct {
	Test v1alpha1.FunctionalTest
	// Run is the name of the BenchmarkRun that performed the test.
	Run       string
	Verdict   v1alpha1.Verdict
	Committed int64
	// Why explains the verdict; empty if the test passed.
	Why string
}

// OutcomeOf returns the outcome of a test from the document of its run.
func OutcomeOf(test v1alpha1.FunctionalTest, d *result.Document) Outcome {
	var reasons []string
	for _, r := range d.Reasons {
		reasons = append(reasons, r.Message)
	}
	return Outcome{Test: test, Run: d.Name, Verdict: d.Verdict, Committed: d.Summary.Committed, Why: strings.Join(reasons, ", and ")}
}

// Passed returns the tests in the form of the run's result if all have passed. Otherwise it returns a NotPassedError.
func Passed(run string, outcomes []Outcome) ([]result.FunctionalTest, error) {
	var passed []result.FunctionalTest
	unfit := &NotPassedError{Run: run}
	for _, o := range outcomes {
		if o.Verdict != v1alpha1.VerdictPassed {
			unfit.Tests = append(unfit.Tests, o)
			continue
		}
		passed = append(passed, result.FunctionalTest{Name: o.Test, Run: o.Run, Committed: o.Committed})
	}
	if len(unfit.Tests) > 0 {
		return nil, unfit
	}
	return passed, nil
}

// NotPassedError is returned if a run was not started because some of its functional tests did not pass.
type NotPassedError struct {
	Run string
	// Tests are the tests that did not pass.
	Tests []Outcome
}

func (e *NotPassedError) Error() string {
	var why []string
	for _, o := range e.Tests {
		why = append(why, fmt.Sprintf("%s is %s: %s", o.Run, o.Verdict, o.Why))
	}
	return fmt.Sprintf("BenchmarkRun %s was not begun, because not all of spec.functionalTests passed: %s", e.Run, strings.Join(why, "; "))
}
