//go:build !full

package plot

import "github.com/geobench/geobench/internal/experiment"

// CanDraw tells whether this build draws plots.
const CanDraw = false

// Draw writes plots in a build with -tags full. The libraries that draw take long to compile, which `go run
// ./cmd/geobench run` has no use for.
func Draw(*experiment.Experiment, *experiment.Results, string) ([]string, error) {
	return nil, ErrNoPlots
}
