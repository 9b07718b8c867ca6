package social

import (
	"math/rand/v2"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// graph is the initial follow relation: user u follows (u + o) mod users for each offset o. All users therefore have
// the same number of producers and consumers, and each list can be computed on its own, regardless of the loaded cells.
type graph struct {
	users   uint64   // number of users in the database, numbered from 0
	offsets []uint64 // distinct and nonzero
}

// newGraph draws the offsets. The share of offsets that lead to another cell is the share of global follows. These
// offsets cover the other cells in turn.
func newGraph(s *v1alpha1.Social, seed uint64, t *geo.Topology) graph {
	cells := uint64(t.Placement().Cells())
	g := graph{users: uint64(s.UsersPerPartition) * cells}
	rng := rand.New(rand.NewPCG(seed, 0x50c1a1))
	taken := map[uint64]bool{0: true}
	global := (int(s.ProducersPerUser)*int(s.GlobalFollowPercent) + 50) / 100
	for i := range int(s.ProducersPerUser) {
		// Users whose numbers differ by a multiple of the number of cells are in the same cell.
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

// list returns the initial row of a user's producers or consumers.
func (g *graph) list(user uint64, of func(user uint64, i int) uint64) list {
	l := make(list, listHead, listHead+listEntry*len(g.offsets))
	for i := range g.offsets {
		l = l.append(of(user, i))
	}
	return l
}

// edge returns a number that identifies the pair of users.
func (g *graph) edge(follower, followed uint64) uint64 { return follower*g.users + followed }
