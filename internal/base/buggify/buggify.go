// Package buggify triggers behaviour that a protocol allows but rarely shows. For example, a replica suspects a peer
// that is merely slow, delays a batch, or takes the slow path although the fast path is possible. The explorer uses
// this package to reach rare states. The model is FoundationDB's macro of that name (Zhou et al., FoundationDB: A
// Distributed Unbundled Transactional Key Value Store, SIGMOD 2021, section 4).
//
// A replica declares a point and asks its environment whether the point fires:
//
//	var impatient = buggify.New("spanner.impatient", "A coordinator that still sends messages is suspected")
//
//	if silentForLong || r.env.Buggify(impatient) {
//
// The simulator answers according to a Plan; a real node always answers false. The replica's reaction must be correct
// for either answer. A point may slow the replica down, waste work or abort transactions, but must never cause a wrong
// answer.
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

// Point is a place in a replica's code where the simulator can trigger rare behaviour. The embedded mark counts how
// often the point has fired.
type Point struct{ *coverage.Mark }

var points []*Point

// New registers a point, and a mark with the same name. It must be called during package initialization. It panics in
// the same cases as coverage.New.
func New(name, doc string) *Point {
	p := &Point{coverage.New(name, doc)}
	points = append(points, p)
	return p
}

// NewReplaced registers a point that is reached only in scenarios in which lost nodes are replaced.
func NewReplaced(name, doc string) *Point {
	p := New(name, doc)
	p.Replaced = true
	return p
}

// All returns the points of all packages of the program, sorted by name.
func All() []*Point {
	all := slices.Clone(points)
	slices.SortFunc(all, func(a, b *Point) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Is reports whether a mark belongs to a point.
func Is(p *coverage.Mark) bool {
	return slices.ContainsFunc(points, func(q *Point) bool { return q.Mark == p })
}

// Plan decides which points are enabled in a scenario, and how often they fire. Both depend only on the seed and the
// name of the point, so that a new point does not affect existing points.
type Plan struct {
	seed  uint64
	until time.Duration
}

// NewPlan returns the plan of a seed. No point fires at or after until, so that the scenario can finish.
func NewPlan(seed uint64, until time.Duration) *Plan { return &Plan{seed, until} }

// rates are the possible rates at which an enabled point fires, in percent of its evaluations.
var rates = [...]int{2, 10, 50}

// Rate returns the percentage of evaluations at which a point fires. For half of the points it is 0.
func (p *Plan) Rate(q *Point) int {
	r := rand.New(p.source(q, 0))
	if r.IntN(2) == 0 {
		return 0
	}
	return rates[r.IntN(len(rates))]
}

// source returns a random generator for a point. Stream 0 determines the point's rate; stream 1 + id determines when
// the point fires at node id.
func (p *Plan) source(q *Point, stream uint64) *rand.PCG {
	h := fnv.New64a()
	_, _ = h.Write([]byte(q.Name)) // Write on a hash never fails
	return rand.NewPCG(p.seed^h.Sum64(), stream)
}

// Node decides when the points of a single node fire. A node that restarts from its log gets a new Node, which repeats
// the decisions from the start.
type Node struct {
	plan  *Plan
	id    geo.NodeID
	dices map[*Point]*dice
}

type dice struct {
	percent int
	source  *rand.PCG
}

// Node returns the decisions of the plan for node id. If p is nil, the result is nil, and no point fires.
func (p *Plan) Node(id geo.NodeID) *Node {
	if p == nil {
		return nil
	}
	return &Node{p, id, map[*Point]*dice{}}
}

// Clone returns an independent copy of n, which makes the same decisions from then on.
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

// Fires reports whether a point fires at the node at time now.
func (n *Node) Fires(q *Point, now time.Duration) bool {
	if n == nil || now >= n.plan.until {
		return false
	}
	d := n.dices[q]
	if d == nil {
		d = &dice{n.plan.Rate(q), n.plan.source(q, uint64(n.id)+1)}
		n.dices[q] = d
	}
	// A disabled point never fires, so it needs no random number.
	return d.percent > 0 && rand.New(d.source).IntN(100) < d.percent
}
