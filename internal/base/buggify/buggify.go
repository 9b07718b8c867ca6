// Package buggify has protocols do on purpose what they may do and rarely do, for those who explore them, as
// FoundationDB's macro of that name does (Zhou et al., FoundationDB: A Distributed Unbundled Transactional Key Value
// Store, SIGMOD 2021, section 4): suspect a peer that is merely slow, hold back a batch, take the slow path although
// the fast one is open.
//
// A replica asks its world at a point of its package:
//
//	var impatient = buggify.New("spanner.impatient", "A coordinator that speaks is taken for lost")
//
//	if silentForLong || r.env.Buggify(impatient) {
//
// The simulator answers as a Plan says; a node in a process always answers no. Whatever the answer, what the replica
// does then must be right: a point may make it slow, wasteful or abort transactions, and must never be the reason for a
// wrong answer.
package buggify

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
)

// Point is a place where a replica may be told to do what is rare. Its mark counts how often it was.
type Point struct{ *coverage.Mark }

var points []*Point

// New registers a point, and a mark of its name. It is called where a package's variables are made, and panics as
// coverage.New does.
func New(name, doc string) *Point {
	p := &Point{coverage.New(name, doc)}
	points = append(points, p)
	return p
}

// NewReplaced registers a point that is asked for only in worlds in which lost nodes are replaced.
func NewReplaced(name, doc string) *Point {
	p := New(name, doc)
	p.Replaced = true
	return p
}

// All returns the points of all packages of the program, by name.
func All() []*Point {
	all := slices.Clone(points)
	slices.SortFunc(all, func(a, b *Point) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Is reports whether a mark is that of a point.
func Is(p *coverage.Mark) bool {
	return slices.ContainsFunc(points, func(q *Point) bool { return q.Mark == p })
}

// Plan says which points are switched on in a world, and how often they fire. Both are those of the seed and of the
// point's name, so that new points change nothing about the others.
type Plan struct {
	seed  uint64
	until time.Duration
}

// NewPlan returns the plan of a seed. No point fires from until on, so that everything can come to an end.
func NewPlan(seed uint64, until time.Duration) *Plan { return &Plan{seed, until} }

// Rates are the shares of the times that a point is asked at which it fires, in percent: of those that are switched on.
var rates = [...]int{2, 10, 50}

// Rate is how often a point fires when it is asked, in percent. Half of the points never do.
func (p *Plan) Rate(q *Point) int {
	r := rand.New(p.source(q, 0))
	if r.IntN(2) == 0 {
		return 0
	}
	return rates[r.IntN(len(rates))]
}

// source is a source for a point; stream 0 says whether it is on, and how often it fires.
func (p *Plan) source(q *Point, stream uint64) *rand.PCG {
	h := fnv.New64a()
	_, _ = h.Write([]byte(q.Name)) // which never fails
	return rand.NewPCG(p.seed^h.Sum64(), stream)
}

// Node is a node's part of the plan. One that starts again from its log gets a new one, which answers alike.
type Node struct {
	plan  *Plan
	id    geo.NodeID
	dices map[*Point]*dice
}

type dice struct {
	percent int
	source  *rand.PCG
}

// Node returns the part of a node; nil, which never fires, if there is no plan.
func (p *Plan) Node(id geo.NodeID) *Node {
	if p == nil {
		return nil
	}
	return &Node{p, id, map[*Point]*dice{}}
}

// Clone returns a node's part that answers as this one does from now on.
func (n *Node) Clone() *Node {
	if n == nil {
		return nil
	}
	c := &Node{n.plan, n.id, map[*Point]*dice{}}
	for q, d := range n.dices {
		source := *d.source
		c.dices[q] = &dice{d.percent, &source}
	}
	return c
}

// Fires reports whether the node is to do what the point says, at a time.
func (n *Node) Fires(q *Point, now time.Duration) bool {
	if n == nil || now >= n.plan.until {
		return false
	}
	d := n.dices[q]
	if d == nil {
		d = &dice{n.plan.Rate(q), n.plan.source(q, uint64(n.id)+1)}
		n.dices[q] = d
	}
	return d.percent > 0 && rand.New(d.source).IntN(100) < d.percent
}
