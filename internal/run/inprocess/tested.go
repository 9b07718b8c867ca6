package inprocess

import (
	"fmt"

	"github.com/geobench/geobench/internal/bench/acceptance"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/result"
)

// Tested plays the functional tests of a plan and, if they pass, the plan itself. If a test does not pass, it returns
// an acceptance.NotPassedError. It always returns all documents that were created, in order.
func Tested(p *plan.Plan, play func(*plan.Plan) (*result.Document, error)) (docs []*result.Document, err error) {
	one := func(p *plan.Plan) (*result.Document, error) {
		d, err := play(p)
		if d != nil {
			docs = append(docs, d)
		}
		return d, err
	}
	var outcomes []acceptance.Outcome
	for i, t := range p.Tests {
		d, err := one(t)
		// An error here means that the test could not be played. If a test was played but did not pass, its outcome reports
		// this instead.
		if err != nil {
			return docs, fmt.Errorf("functional test %s: %w", t.Run.Name, err)
		}
		outcomes = append(outcomes, acceptance.OutcomeOf(p.Run.Spec.FunctionalTests[i], d))
	}
	passed, err := acceptance.Passed(p.Run.Name, outcomes)
	if err != nil {
		return docs, err
	}
	d, err := one(p)
	if d != nil {
		d.FunctionalTests = passed
	}
	return docs, err
}
