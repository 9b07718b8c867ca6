// Package plantest makes the plans of tests.
package plantest

import (
	"errors"
	"strings"

	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/plan"
)

// Runs of tests are not judged by how busy the machine is.
func init() { load.IgnoreLateness() }

// Of plans the first run of a text of manifests, which is checked as abilities say.
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
