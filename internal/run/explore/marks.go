package explore

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Reach records the marks that the scenarios of some engines have hit: see package mark.
type Reach struct {
	rows map[*coverage.Mark]*reached
	// seeds counts the scenarios of each engine, and all of them under the empty name.
	seeds map[string]int
	// engines are the engines that are explored.
	engines []string
	// points means that replicas take rare actions on purpose, which have separate marks: see package buggify.
	points bool
	// replaced means that lost nodes are replaced, which has separate marks, too.
	replaced bool
}

type reached struct{ worlds, hits int64 }

// NewReach returns a Reach without scenarios. engines are all engines that will be explored, points means with
// Config.Buggify, and replaced with Config.Replace.
func NewReach(engines []string, points, replaced bool) *Reach {
	return &Reach{rows: map[*coverage.Mark]*reached{}, seeds: map[string]int{}, engines: engines, points: points, replaced: replaced}
}

// Add counts the hits of a scenario.
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

// marks returns the marks that the scenarios should hit: the engines' own, and with all engines the marks of their
// shared packages.
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

// Unhit returns the marks that no scenario has hit although it should; with all engines also the marks of shared
// packages.
func (c *Reach) Unhit(all bool) (unhit []*coverage.Mark) {
	for _, p := range c.marks(all) {
		if c.rows[p] == nil {
			unhit = append(unhit, p)
		}
	}
	return unhit
}

// Table returns the marks as a table in Markdown, by name: the number of 1,000 scenarios that have hit each, and the
// number of hits in 1,000 scenarios. The scenarios are the engine's or, for marks of shared packages, the scenarios of
// all engines.
func (c *Reach) Table(all bool) string {
	var b strings.Builder
	b.WriteString("| mark | what has happened | of 1,000 worlds | hits in 1,000 worlds |\n|---|---|---|---|\n")
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

// perThousand returns n of `of` per 1,000: with two digits below ten, so that a rare mark is not shown as 0.
func perThousand(n int64, of int) string {
	x := 1000 * float64(n) / float64(max(1, of))
	if x == 0 || x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
