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

// Catch tells how a database that is wrong on purpose was found out.
type Catch struct {
	broken.Database
	// Seeds were run, Caught of them failed.
	Seeds, Caught int
	// First is the first result whose history or whose copies are wrong, or that did not complete; nil if there is none.
	First *Result
	// Anomalous is the first result whose history is wrong; nil if there is none.
	Anomalous *Result
	// Anomalies counts the failing seeds by the anomaly of their history; Diverged those whose copies differ, Incomplete
	// those in which something had no end.
	Anomalies            map[history.Anomaly]int
	Diverged, Incomplete int
}

// ConfigOf makes the worlds in which the mistake of a database that is wrong on purpose shows.
func ConfigOf(d broken.Database) Config {
	return Config{Engine: d.Engine, Broken: true, OnePartition: d.OnePartition, Hostile: d.Hostile, Slow: d.Slow, Core: d.Core}
}

// Hunt runs seeds of a database that is wrong on purpose, whose worlds ConfigOf makes.
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

// String says in a few lines what is wrong with the database, within how many seeds that was found, and how it showed.
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
