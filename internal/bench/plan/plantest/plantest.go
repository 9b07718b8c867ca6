// Package plantest creates plans for tests.
package plantest

import (
	"errors"
	"strings"

	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
)

// Tests must not fail because the machine is busy.
func init() { load.IgnoreLateness() }

// Of returns the plan of the first run in text, which contains manifests. It checks the manifests with the given
// abilities.
func Of(text string, abilities check.Abilities) (*plan.Plan, error) {
	b, err := manifest.Load(strings.NewReader(text), abilities, "-")
	if err != nil {
		return nil, err
	}
	if len(b.Runs) == 0 {
		return nil, errors.New("there is no BenchmarkRun")
	}
	db, profile, err := b.Resolve(b.Runs[0])
	if err != nil {
		return nil, err
	}
	return plan.New(b.Runs[0], db, profile)
}
