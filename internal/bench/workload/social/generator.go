package social

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Indexes of SocialMix's shares, and of Social.Shares.
const (
	mixTimeline = iota
	mixPost
	mixFollow
	shareGlobal
	numShares
)

type generator struct {
	w         *Social
	region    geo.Region
	rng       *rand.Rand
	mix       workload.Mix
	counts    [numShares]workload.Count
	committed *workload.Committed
	wrong     int64 // number of implausible timelines
	slab      workload.Slab
}

// NewGenerator implements workload.Workload.
func (w *Social) NewGenerator(c workload.GeneratorConfig) workload.Generator {
	m := &w.spec.Mix
	return &generator{w: w, region: c.Region, rng: rand.New(rand.NewPCG(w.seed, uint64(c.Stream))),
		mix:       workload.NewMix(m.TimelinePermille, m.PostPermille, m.FollowPermille),
		committed: workload.NewCommitted(len(typeNames), c.Clients)}
}

// draw draws a user of a cell.
func (g *generator) draw(c geo.Cell) uint64 {
	return g.w.topology.Placement().ShardNumber(c, g.rng.Uint64N(uint64(g.w.spec.UsersPerPartition)))
}

// Next returns a transaction of a user whose home is the client's region.
func (g *generator) Next(client int, elapsed time.Duration, t *txn.Transaction) workload.Request {
	s := &g.w.spec
	share := g.mix.Draw(g.rng)
	global := share == mixFollow && g.rng.Int32N(100) < s.GlobalFollowPercent
	own, other := workload.DrawPair(g.rng, g.w.topology, g.region, global)
	user := g.draw(own)
	var kind int
	switch share {
	case mixTimeline:
		kind = typeTimeline
		args := binary.BigEndian.AppendUint64(g.args(timelineArgs), user)
		args = binary.BigEndian.AppendUint16(args, uint16(s.PostsPerTimeline))
		timeline.Call(t, binary.BigEndian.AppendUint16(args, uint16(s.PostBytes)))
	case mixPost:
		kind = typePost
		at := elapsed.Microseconds()
		args := binary.BigEndian.AppendUint64(make([]byte, 0, postArgs+int(s.PostBytes)), user)
		args = binary.BigEndian.AppendUint64(args, uint64(at))
		args = binary.BigEndian.AppendUint16(args, uint16(s.PostsPerUser))
		post.Call(t, appendMessage(args, user, at, int(s.PostBytes)))
	default:
		if kind = typeLocalFollow; global {
			kind = typeGlobalFollow
		}
		followed := g.draw(other)
		for followed == user {
			followed = g.draw(other)
		}
		args := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(g.args(followArgs), user), followed)
		follow.Call(t, binary.BigEndian.AppendUint32(args, uint32(s.ListLimit)))
	}
	g.committed.Begin(client, kind)
	if elapsed >= 0 {
		for i := range mixFollow + 1 {
			g.counts[i].Add(i == share)
		}
		if share == mixFollow {
			g.counts[shareGlobal].Add(global)
		}
	}
	return workload.Request{Type: uint8(kind), Class: g.w.topology.Placement().Class(t.Accesses)}
}

// args returns an empty slice with room for n bytes of arguments.
func (g *generator) args(n int) []byte { return g.slab.Room(n, 1024) }

// Done implements workload.Generator. It counts committed transactions and implausible timelines.
func (g *generator) Done(client int, o txn.Outcome) {
	s := &g.w.spec
	if kind := g.committed.Done(client, o); kind == typeTimeline && o.Status == txn.Committed &&
		!plausible(o.Result, int(min(s.ProducersPerUser, s.PostsPerTimeline)), int(s.PostBytes)) {
		g.wrong++
	}
}

// Late implements workload.Generator.
func (g *generator) Late(o txn.Outcome) { g.committed.Late(o) }

// Ledger returns the numbers of posts, follows and implausible timelines.
func (g *generator) Ledger() workload.Ledger {
	return workload.Ledger{
		ledgerPosts:          g.committed.Times(1, typePost),
		ledgerFollows:        g.committed.Times(1, typeLocalFollow, typeGlobalFollow),
		ledgerWrongTimelines: {Low: g.wrong, High: g.wrong},
	}
}

// Realised returns the counts for Social.Shares.
func (g *generator) Realised() []workload.Count { return g.counts[:] }
