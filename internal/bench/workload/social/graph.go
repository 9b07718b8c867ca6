package social

import (
	"math/rand/v2"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// graph is the initial follow relation: user u follows (u + o) mod users for each offset o. All users therefore have
// equally many producers and consumers, and each list can be computed separately, whichever cells are loaded.
type graph struct {
	users   uint64   // of the database; they are called 0 .. users-1
	offsets []uint64 // all different, and none 0
}

// newGraph draws the offsets: of them, as many in a hundred lead to another cell as follows are global, by turns to
// each.
func newGraph(s *v1alpha1.Social, seed uint64, t *geo.Topology) graph {
	cells := uint64(t.Placement().Cells())
	g := graph{users: uint64(s.UsersPerPartition) * cells}
	rng := rand.New(rand.NewPCG(seed, 0x50c1a1))
	taken := map[uint64]bool{0: true}
	global := (int(s.ProducersPerUser)*int(s.GlobalFollowPercent) + 50) / 100
	for i := range int(s.ProducersPerUser) {
		// Users whose numbers differ by a multiple of the number of cells lie in one cell.
		away := uint64(0)
		if i < global {
			away = 1 + uint64(i)%(cells-1)
		}
		o := uint64(0)
		for taken[o] {
			o = away + cells*rng.Uint64N(uint64(s.UsersPerPartition))
		}
		taken[o] = true
		g.offsets = append(g.offsets, o)
	}
	return g
}

// producer returns the i-th user that a user initially follows; consumer returns the i-th initial follower.
func (g *graph) producer(user uint64, i int) uint64 { return (user + g.offsets[i]) % g.users }
func (g *graph) consumer(user uint64, i int) uint64 { return (user + g.users - g.offsets[i]) % g.users }

// list returns the row of a user's producers, or of its consumers, at the beginning.
func (g *graph) list(user uint64, of func(user uint64, i int) uint64) list {
	l := make(list, listHead, listHead+listEntry*len(g.offsets))
	for i := range g.offsets {
		l = l.append(of(user, i))
	}
	return l
}

// edge numbers a pair of users, the first of whom follows the second.
func (g *graph) edge(follower, followed uint64) uint64 { return follower*g.users + followed }
