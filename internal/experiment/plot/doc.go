// Package plot draws what an experiment says is to be drawn, its curves and its timeline, as SVG and PNG. It knows no
// metric and no claim.
package plot

import "errors"

// ErrNoPlots is what Draw returns in a build without plots: see CanDraw.
var ErrNoPlots = errors.New("this binary was built without plots; build with `make build` or `go build -tags full ./cmd/geobench`")
