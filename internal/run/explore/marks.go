package explore

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Reach records which coverage marks the scenarios of some engines have hit (package coverage).
type Reach struct {
	rows map[*coverage.Mark]*reached
	// seeds is the number of scenarios by engine; the empty name holds the total.
	seeds map[string]int
	// engines are the names of the explored engines.
	engines []string
	// points is set if the scenarios use Config.Buggify. Its rare actions have their own marks.
	points bool
	// replaced is set if the scenarios use Config.Replace. Replacements of nodes have their own marks.
	replaced bool
}

type reached struct{ worlds, hits int64 }

// NewReach returns an empty Reach. engines are the names of all engines that will be explored. points and replaced
// state whether the scenarios use Config.Buggify and Config.Replace.
func NewReach(engines []string, points, replaced bool) *Reach {
	return &Reach{rows: map[*coverage.Mark]*reached{}, seeds: map[string]int{}, engines: engines, points: points, replaced: replaced}
}

// Add adds the hits in a scenario.
func (c *Reach) Add(r *Result) {
	c.seeds[r.Engine]++
	c.seeds[""]++
	for _, p := range coverage.All() {
		n := r.Marks.Of(p)
		if n == 0 {
			continue
		}
		if c.rows[p] == nil {
			c.rows[p] = &reached{}
		}
		c.rows[p].worlds++
		c.rows[p].hits += n
	}
}

// marks returns the marks that the scenarios should hit: the marks of the explored engines and, if all is set, the
// marks of shared packages. It also returns every other mark that was hit.
func (c *Reach) marks(all bool) (marks []*coverage.Mark) {
	known := map[string]bool{}
	for _, e := range c.engines {
		known[e] = true
	}
	for _, p := range coverage.All() {
		if (known[p.Part()] || all || c.rows[p] != nil) && (c.points || !buggify.Is(p)) && (c.replaced || !p.Replaced) {
			marks = append(marks, p)
		}
	}
	return marks
}

// Unhit returns the marks that the scenarios should hit but did not. If all is set, it includes the marks of shared
// packages.
func (c *Reach) Unhit(all bool) (unhit []*coverage.Mark) {
	for _, p := range c.marks(all) {
		if c.rows[p] == nil {
			unhit = append(unhit, p)
		}
	}
	return unhit
}

// Table returns the marks, sorted by name, as a Markdown table. For each mark, the table contains the number of
// scenarios with a hit and the number of hits, both per 1,000 scenarios. The base is the number of scenarios of the
// mark's engine or, for marks of shared packages, of all scenarios.
func (c *Reach) Table(all bool) string {
	var b strings.Builder
	b.WriteString("| mark | event | scenarios in 1,000 that hit the mark | hits in 1,000 scenarios |\n|---|---|---|---|\n")
	for _, p := range c.marks(all) {
		r, seeds := c.rows[p], c.seeds[p.Part()]
		if seeds == 0 {
			seeds = c.seeds[""]
		}
		if r == nil {
			r = &reached{}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.Doc, perThousand(r.worlds, seeds), perThousand(r.hits, seeds))
	}
	return b.String()
}

// perThousand formats n/of as a number per 1,000. Values below ten have two significant digits, so that a rare mark is
// not shown as 0.
func perThousand(n int64, of int) string {
	x := 1000 * float64(n) / float64(max(1, of))
	if x == 0 || x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
