package explore

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
)

// Reach tells which marks the worlds of some engines have hit: see package mark.
type Reach struct {
	rows map[*coverage.Mark]*reached
	// seeds counts the worlds of each engine, and all of them under the empty name.
	seeds map[string]int
	// engines are those that are explored.
	engines []string
	// points says that replicas are told to do what is rare, which has marks of its own: see package buggify.
	points bool
	// replaced says that lost nodes are replaced, which has marks of its own, too.
	replaced bool
}

type reached struct{ worlds, hits int64 }

// NewReach returns one of no worlds. The engines are all that will be explored, points says whether with Config.Buggify, and replaced
// whether with Config.Replace.
func NewReach(engines []string, points, replaced bool) *Reach {
	return &Reach{rows: map[*coverage.Mark]*reached{}, seeds: map[string]int{}, engines: engines, points: points, replaced: replaced}
}

// Add counts the hits of a world.
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

// marks are those that the worlds should hit: the engines' own, and with all engines those of what they are built of.
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

// Unhit returns the marks that no world has hit although it should: with all engines also those of what engines share.
func (c *Reach) Unhit(all bool) (unhit []*coverage.Mark) {
	for _, p := range c.marks(all) {
		if c.rows[p] == nil {
			unhit = append(unhit, p)
		}
	}
	return unhit
}

// Table is the marks as a table in Markdown, by name: how many of 1,000 worlds have hit each, and how often 1,000 worlds have. The
// worlds are those of the engine, or, for what engines share, of all.
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

// perThousand is n of so many, as of 1,000: with two digits below ten, so that a rare one is no 0.
func perThousand(n int64, of int) string {
	x := 1000 * float64(n) / float64(max(1, of))
	if x == 0 || x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
