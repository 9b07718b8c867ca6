// Package coverage marks rare and interesting code paths of protocols, such as a slow path or an election. The explorer
// reports which marks its scenarios have reached. A test that never elects a second leader passes, but says nothing
// about elections.
//
// A replica hits a mark of its package through its environment:
//
//	var slowPath = coverage.New("janus.slow-path", "Replicas report different dependencies")
//
//	r.env.Mark(slowPath)
//
// The simulator counts the hits of a scenario, except hits that a replay repeats. A real node counts nothing. A mark
// does not change the behaviour of a replica, draws no random numbers and sends nothing. Marks are placed only on code
// paths that few transactions take.
package coverage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Mark is a coverage mark.
type Mark struct {
	// Name consists of the component and the event, such as "janus.slow-path".
	Name string
	// Doc describes the event in a line.
	Doc string
	// Replaced is set for marks that are hit only in scenarios in which lost nodes are replaced.
	Replaced bool

	number int
}

// Part returns the component in the name, which is an engine or a building block.
func (p *Mark) Part() string { return p.Name[:strings.IndexByte(p.Name, '.')] }

var (
	registry  []*Mark
	wellNamed = regexp.MustCompile(`^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$`)
)

// New registers a mark. It must be called during package initialization. It panics if the name is taken or malformed.
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

// NewReplaced registers a mark that is hit only in scenarios in which lost nodes are replaced.
func NewReplaced(name, doc string) *Mark {
	p := New(name, doc)
	p.Replaced = true
	return p
}

// All returns the marks of all packages of the program, sorted by name.
func All() []*Mark {
	all := slices.Clone(registry)
	slices.SortFunc(all, func(a, b *Mark) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Hits counts the hits of marks. The zero value is ready to use. It is not safe for concurrent use.
type Hits struct{ counts []int64 }

// Hit counts a hit of p.
func (h *Hits) Hit(p *Mark) {
	if h.counts == nil {
		// Marks are registered during initialization, so all of them are registered by now.
		h.counts = make([]int64, len(registry))
	}
	h.counts[p.number]++
}

// Of returns the number of hits of a mark.
func (h *Hits) Of(p *Mark) int64 {
	if h.counts == nil {
		return 0
	}
	return h.counts[p.number]
}
