package explore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
)

// Catch describes how a faulty variant was detected.
type Catch struct {
	broken.Database
	// Seeds is the number of seeds that ran. Caught is the number of seeds that failed.
	Seeds, Caught int
	// First is the first failing result; nil if there is none.
	First *Result
	// Anomalous is the first result whose history has an anomaly; nil if there is none.
	Anomalous *Result
	// Anomalies is the number of seeds by anomaly. Diverged is the number of seeds whose copies differed. Incomplete is
	// the number of seeds that did not finish or answered too late.
	Anomalies            map[history.Anomaly]int
	Diverged, Incomplete int
}

// ConfigOf returns the configuration of the scenarios in which a faulty variant fails.
func ConfigOf(d broken.Database) Config {
	return Config{Engine: d.Engine, Broken: true, OnePartition: d.OnePartition, Hostile: d.Hostile, Slow: d.Slow, Core: d.Core}
}

// Hunt runs seeds of a faulty variant with the configuration worlds (see ConfigOf). If each is not nil, Hunt calls it
// with every result.
func Hunt(ctx context.Context, d broken.Database, worlds Config, seeds Seeds, each func(*Result)) Catch {
	c := Catch{Database: d, Anomalies: map[history.Anomaly]int{}}
	Soak(ctx, worlds, seeds, func(r *Result) {
		c.Seeds++
		if !r.Passed() {
			c.Caught++
			if c.First == nil {
				c.First = r
			}
		}
		if r.Anomaly != "" {
			c.Anomalies[r.Anomaly]++
			if c.Anomalous == nil {
				c.Anomalous = r
			}
		}
		if r.Has(Diverged) {
			c.Diverged++
		}
		if r.Incomplete() {
			c.Incomplete++
		}
		if each != nil {
			each(r)
		}
	})
	return c
}

// String describes the variant's defect, the first seed that caught it, and the symptoms, in a few lines.
func (c *Catch) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", c.Name, c.Mistake)
	if c.First == nil {
		fmt.Fprintf(&b, "  NOT CAUGHT with %d seeds\n", c.Seeds)
		return b.String()
	}
	fmt.Fprintf(&b, "  caught by seed %d; by %d of %d seeds:", c.First.Seed, c.Caught, c.Seeds)
	for _, a := range slices.Sorted(maps.Keys(c.Anomalies)) {
		fmt.Fprintf(&b, " %s %d,", a, c.Anomalies[a])
	}
	fmt.Fprintf(&b, " copies differ %d, not completed %d\n", c.Diverged, c.Incomplete)
	for _, p := range c.First.Problems {
		b.WriteString(indent(p.Text))
	}
	fmt.Fprintf(&b, "  replay: %s\n", c.First.Replay())
	if a := c.Anomalous; a != nil && a != c.First {
		fmt.Fprintf(&b, "  its history is wrong with seed %d:\n", a.Seed)
		for _, p := range a.Problems {
			if p.Failure == Anomalous {
				b.WriteString(indent(p.Text))
			}
		}
	}
	return b.String()
}
