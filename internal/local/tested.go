package local

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/plan"
	"github.com/geobench/geobench/internal/result"
)

// NotPassedError says that a run was not begun, because not all of its functional tests passed.
type NotPassedError struct {
	Run string
	// Tests that did not pass.
	Tests []*result.Document
}

func (e *NotPassedError) Error() string {
	var why []string
	for _, d := range e.Tests {
		var reasons []string
		for _, r := range d.Reasons {
			reasons = append(reasons, r.Message)
		}
		why = append(why, fmt.Sprintf("%s is %s: %s", d.Name, d.Verdict, strings.Join(reasons, ", and ")))
	}
	return fmt.Sprintf("BenchmarkRun %s was not begun, because not all of spec.functionalTests passed: %s", e.Run, strings.Join(why, "; "))
}

// Tested plays a plan by play after its functional tests, if they pass: otherwise the error is a NotPassedError. It returns all documents
// that there are, in the order in which they were made, whatever the error.
func Tested(p *plan.Plan, play func(*plan.Plan) (*result.Document, error)) (docs []*result.Document, err error) {
	one := func(p *plan.Plan) (*result.Document, error) {
		d, err := play(p)
		if d != nil {
			docs = append(docs, d)
		}
		return d, err
	}
	var passed []result.FunctionalTest
	unfit := &NotPassedError{Run: p.Run.Name}
	for i, t := range p.Tests {
		d, err := one(t)
		switch {
		case err != nil:
			return docs, fmt.Errorf("functional test %s: %w", t.Run.Name, err)
		case d.Verdict != v1alpha1.VerdictPassed:
			unfit.Tests = append(unfit.Tests, d)
		default:
			passed = append(passed, result.FunctionalTest{Name: p.Run.Spec.FunctionalTests[i], Run: d.Name, Committed: d.Summary.Committed})
		}
	}
	if len(unfit.Tests) > 0 {
		return docs, unfit
	}
	d, err := one(p)
	if d != nil {
		d.FunctionalTests = passed
	}
	return docs, err
}
