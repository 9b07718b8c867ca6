// Package coverage marks the rare and interesting places of protocols, such as a slow path or an election, so that
// those who explore a protocol know which of them their worlds have reached. A test that never elects a second leader
// says nothing about elections, and passes.
//
// A replica hits a mark of its package through its world:
//
//	var slowPath = coverage.New("janus.slow-path", "replicas have named different dependencies, which are written to majorities first")
//
//	r.env.Mark(slowPath)
//
// The simulator counts the hits of a world, and leaves those out that a replay repeats. A node in a process counts
// nothing. A mark changes nothing that a replica does, draws no chance and sends nothing, and stands where few
// transactions pass.
package coverage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mark is a mark.
type Mark struct {
	// Name is the part that it belongs to and what has happened there, such as "janus.slow-path".
	Name string
	// Doc says in a line what has happened.
	Doc string
	// Replaced says that it is hit only in worlds in which lost nodes are replaced.
	Replaced bool

	number int
}

// Part is the first half of the name: an engine, or a building block.
func (p *Mark) Part() string { return p.Name[:strings.IndexByte(p.Name, '.')] }

var (
	registry  []*Mark
	wellNamed = regexp.MustCompile(`^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$`)
)

// New registers a mark. It is called where a package's variables are made, and panics when the name is taken or is
// none.
func New(name, doc string) *Mark {
	if !wellNamed.MatchString(name) || doc == "" || strings.ContainsAny(doc, "\n|") {
		panic(fmt.Sprintf("coverage: %q (%q) should be named like janus.slow-path and described in a line without a bar", name, doc))
	}
	if slices.ContainsFunc(registry, func(p *Mark) bool { return p.Name == name }) {
		panic(fmt.Sprintf("coverage: there are two of the name %q", name))
	}
	p := &Mark{Name: name, Doc: doc, number: len(registry)}
	registry = append(registry, p)
	return p
}

// NewReplaced registers a mark that is hit only in worlds in which lost nodes are replaced.
func NewReplaced(name, doc string) *Mark {
	p := New(name, doc)
	p.Replaced = true
	return p
}

// All returns the marks of all packages of the program, by name.
func All() []*Mark {
	all := slices.Clone(registry)
	slices.SortFunc(all, func(a, b *Mark) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Hits counts how often marks were hit. The zero value has counted none; it is for one goroutine.
type Hits struct{ counts []int64 }

// Hit counts one.
func (h *Hits) Hit(p *Mark) {
	if h.counts == nil {
		h.counts = make([]int64, len(registry))
	}
	h.counts[p.number]++
}

// Of returns how often a mark was hit.
func (h *Hits) Of(p *Mark) int64 {
	if h.counts == nil {
		return 0
	}
	return h.counts[p.number]
}
