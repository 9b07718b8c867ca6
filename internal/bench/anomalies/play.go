// Package anomalies plays the classic anomalies of isolation between clients in different regions: a few small
// transactions each, after Hermitage (M. Kleppmann 2014) and Adya's thesis, and a few more of replicated databases. It
// says which of them a database lets happen, and holds it to the level that it promises.
//
// Engines run whole procedures, so that no client can hold a transaction between two statements. A case is therefore
// played many times in the simulator. Each play has separate rows, and its transactions are sent within a random time
// of 1 ms up to twice the longest round trip. The regions of its clients and rows change from play to play. The
// clients' observations of a play form a separate history, which package history judges. A case that was observed can
// therefore happen. A case that was not observed in all these plays may still happen: only the guarantee excludes it.
//
// Running databases accept transactions statement by statement. There, a case is played in an order of statements in
// which it shows unless the database prevents it: see Live and package script.
package anomalies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

const (
	settle = 3 * time.Second        // leaders are elected before the first play
	apart  = 100 * time.Millisecond // between the beginnings of two plays
	// patience is the time allowed for the last play, from its start on.
	patience = time.Minute
	step0    = 100 * time.Millisecond // virtual time between two checks of the context
)

// Database is the database on which the cases are played.
type Database struct {
	Engine   *protocol.Engine
	Params   protocol.Params
	Topology *geo.Topology
}

// Promises returns the level that the database promises.
func (d *Database) Promises() isolation.Level { return d.Engine.Promises(d.Params) }

// Finding is the result of a case on a database.
type Finding struct {
	Case  string `json:"case"`
	Class string `json:"class"`
	// Forbidden says that the level which the database promises rules the case out.
	Forbidden bool `json:"forbidden"`
	// Plays is the number of plays of the case. Aborted counts the plays in which the database aborted a transaction for a
	// conflict, and Seen the plays with the anomaly.
	Plays   int `json:"plays"`
	Aborted int `json:"aborted"`
	Seen    int `json:"seen"`
	// Overlapped counts the plays in which the transactions overlapped so that the anomaly could have occurred: see
	// play.overlapped. If it is 0, nothing was prevented.
	Overlapped int `json:"overlapped"`
	// Other counts the plays without the anomaly in which the case's level was violated by another anomaly.
	Other int `json:"other,omitempty"`
	// Broken counts the plays whose history, for any reason, does not have the database's guaranteed level.
	Broken int `json:"broken"`
	// Example describes the first broken play, or else the first play with the anomaly, or else another play.
	Example string `json:"example,omitempty"`
}

// Word summarizes the finding: prevented (never seen, and the promised level rules it out), not seen (no level rules it
// out), allowed, BROKEN, or never overlapped (never seen, and no play could have shown it).
func (f *Finding) Word() string {
	switch {
	case f.Broken > 0:
		return "BROKEN"
	case f.Seen > 0:
		return "allowed"
	case f.Overlapped == 0:
		return "never overlapped"
	case f.Forbidden:
		return "prevented"
	}
	return "not seen"
}

// String is the word with the figures that stand for it.
func (f *Finding) String() string {
	switch {
	case f.Broken > 0:
		return fmt.Sprintf("BROKEN (%d of %d)", f.Broken, f.Plays)
	case f.Seen > 0:
		return fmt.Sprintf("allowed (%d of %d)", f.Seen, f.Plays)
	}
	text := f.Word()
	if f.Overlapped > 0 {
		text += fmt.Sprintf(" (overlapped in %d of %d)", f.Overlapped, f.Plays)
	}
	if f.Aborted > 0 {
		text += fmt.Sprintf(", aborts in %d", f.Aborted)
	}
	if f.Other > 0 {
		text += fmt.Sprintf(", another anomaly in %d", f.Other)
	}
	return text
}

// Play plays a case so often, at least once. The same database, case, number and seed give the same finding. It fails
// when the context ends, and when the database does not answer.
func Play(ctx context.Context, d *Database, c *Case, plays int, seed uint64) (*Finding, error) {
	s := sim.New(sim.Config{
		Topology: d.Topology, Engine: d.Engine, Params: d.Params, Procedures: simload.Traced, Seed: seed, Costs: sim.DefaultCosts,
	})
	g := &game{c: c, topology: d.Topology, placement: d.Topology.Placement(), lag: c.lag(d.Topology.LongestRTT()), calls: map[txn.ID]call{}, rng: rand.New(rand.NewPCG(seed, 0))}
	layout := d.Engine.Layout(d.Topology, d.Params)
	for n := range plays {
		p := g.deal(n)
		for _, k := range []uint64{p.x, p.y} {
			for _, m := range layout.Group(layout.Shard(simload.Key(k))).Members {
				s.Store(m).Load(simload.Key(k), make([]byte, 8))
			}
		}
	}
	for r := range d.Topology.Regions {
		s.AddClient(geo.Region(r), func(env protocol.ClientEnv) protocol.Client {
			region := &region{game: g, n: geo.Region(r)}
			tap := history.NewTap(env, history.TapConfig{
				Placement: g.placement, Procedures: simload.Traced, Client: func(id txn.ID) uint32 { return uint32(g.calls[id].client()) },
				Record: func(t *history.Txn) { g.record(r, t) },
			})
			region.env = tap
			g.regions, g.taps = append(g.regions, region), append(g.taps, tap)
			return tap.Attach(region)
		})
	}
	for end := settle + time.Duration(plays)*apart + patience; g.answered < plays*len(c.txns); s.Run(s.Now() + step0) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.Now() > end {
			return nil, fmt.Errorf("engine %s, case %s: %d of %d transactions are not answered %v after the last play has begun",
				d.Engine.Name, c.Name, plays*len(c.txns)-g.answered, plays*len(c.txns), patience)
		}
	}
	for _, tap := range g.taps {
		if err := tap.Finish(); err != nil {
			return nil, fmt.Errorf("engine %s, case %s: %w", d.Engine.Name, c.Name, err)
		}
	}
	return g.find(d.Promises()), nil
}

// game is a case that is played.
type game struct {
	c         *Case
	topology  *geo.Topology
	placement geo.Placement
	// lag is the time after the answer to a write for which others may not see it yet.
	lag      time.Duration
	rng      *rand.Rand
	first    uint64 // number of rows that earlier games have used
	plays    []*play
	calls    map[txn.ID]call
	regions  []*region
	taps     []*history.Tap
	ids      uint64
	answered int
}

// play is one of its plays.
type play struct {
	n       int
	x, y, g uint64 // numbers of two rows and a group
	within  time.Duration
	ids     []txn.ID // of the transactions that are sent
	done    []bool
	// conflict says which transactions the database aborted for a conflict.
	conflict []bool
	history  history.History
	txns     []history.Txn // by transaction
}

// call is a transaction of a play.
type call struct {
	p   *play
	txn int
	g   *game
}

// client numbers the clients of all plays within their regions.
func (c call) client() int { return c.p.n*len(c.g.c.txns) + c.g.c.txns[c.txn].client }

// deal makes play n. The homes of rows and the clients' regions change from play to play: all pairs of regions occur.
func (g *game) deal(n int) *play {
	regions, partitions := g.placement.Regions, g.placement.Partitions
	number := func(offset int) uint64 {
		cell := geo.Cell{Home: geo.Region((n + offset) % regions), Partition: (n + offset) % partitions}
		return g.placement.ShardNumber(cell, g.first+uint64(3*n+offset))
	}
	longest := 2 * g.topology.LongestRTT()
	within := time.Millisecond
	for within < longest && g.rng.IntN(6) > 0 {
		within *= 2
	}
	count := len(g.c.txns)
	p := &play{n: n, x: number(0), y: number(1), g: number(2), within: min(within, max(longest, time.Millisecond)), ids: make([]txn.ID, count),
		done: make([]bool, count), conflict: make([]bool, count), txns: make([]history.Txn, count)}
	p.history.KeyName = func(k txn.Key) string {
		switch {
		case k.Ordered() && len(k) > 10:
			return fmt.Sprintf("row %d of the group", k[len(k)-1])
		case k.Ordered():
			return "the group"
		case k == simload.Key(p.x):
			return "x"
		}
		return "y"
	}
	g.plays = append(g.plays, p)
	return p
}

// sender is the region whose client sends a transaction.
func (g *game) sender(p *play, txn int) geo.Region {
	n := len(g.topology.Regions)
	return geo.Region((g.c.txns[txn].client + p.n/n) % n)
}

// ready reports whether a transaction can be sent: the transactions that it waits for are answered.
func (g *game) ready(p *play, txn int) bool {
	for before := range txn {
		if !p.done[before] && g.waits(txn, before) {
			return false
		}
	}
	return true
}

// waits reports whether a transaction waits for the answer of another transaction.
func (g *game) waits(txn, before int) bool {
	t := &g.c.txns[txn]
	return before < txn && (t.client == g.c.txns[before].client || slices.Contains(t.after, before))
}

// region is the clients of a region.
type region struct {
	*game
	n   geo.Region
	env protocol.ClientEnv
}

// Start implements protocol.Client.
func (r *region) Start() {
	for _, p := range r.plays {
		for i := range r.c.txns {
			if r.sender(p, i) == r.n && r.ready(p, i) {
				r.later(p, i, settle+time.Duration(p.n)*apart)
			}
		}
	}
}

// later sends a transaction a while after d.
func (r *region) later(p *play, txn int, d time.Duration) {
	d += time.Microsecond + time.Duration(r.rng.Int64N(int64(p.within)))
	r.env.After(d, protocol.Timer{Arg: uint64(p.n*len(r.c.txns) + txn)})
}

// Fire implements protocol.Client: it sends.
func (r *region) Fire(t protocol.Timer) {
	n := len(r.c.txns)
	p, i := r.plays[int(t.Arg)/n], int(t.Arg)%n
	r.ids++
	p.ids[i] = txn.MakeID(uint32(r.n)+1, r.ids)
	r.calls[p.ids[i]] = call{p, i, r.game}
	x := simload.Txn(p.ids[i], p.ops(r.c.txns[i].ops))
	x.Home = uint16(r.n)
	r.env.Submit(x)
}

// Complete implements protocol.Client.
func (r *region) Complete(o txn.Outcome) {
	c := r.calls[o.ID]
	c.p.done[c.txn] = true
	c.p.conflict[c.txn] = o.Status != txn.Committed && o.Cause == txn.CauseConflict
	r.answered++
	for i := range r.c.txns {
		if r.waits(i, c.txn) && r.ready(c.p, i) {
			r.regions[r.sender(c.p, i)].later(c.p, i, 0)
		}
	}
}

// record stores a client's knowledge of a transaction.
func (g *game) record(region int, t *history.Txn) {
	c := g.calls[t.ID]
	g.add(c.p, c.txn, region, t)
}

// add adds a transaction to a play.
func (g *game) add(p *play, n, region int, t *history.Txn) {
	for _, name := range g.topology.Regions { // regions are numbered as in the topology
		p.history.Region(name)
	}
	p.history.Add(region, t)
	p.txns[n] = *t
	p.txns[n].Ops = slices.Clone(t.Ops)
}

// find judges the plays.
func (g *game) find(promised isolation.Level) *Finding {
	f := &Finding{Case: g.c.Name, Class: g.c.Class, Forbidden: isolation.Implies(promised, g.c.Level), Plays: len(g.plays)}
	for _, p := range g.plays {
		if slices.Contains(p.conflict, true) {
			f.Aborted++
		}
		if p.overlapped(g.c, g.lag) {
			f.Overlapped++
		}
		v := history.Check(&p.history, g.c.Level)
		text := v.Explanation
		seen := !v.Passed && slices.Contains(g.c.anomalies, v.Anomaly)
		if g.c.reader > 0 {
			seen = p.reversed(g.c.reader)
		}
		switch {
		case seen:
			if f.Seen++; f.Seen == 1 && f.Broken == 0 {
				f.Example = text
			}
		case !v.Passed:
			if f.Other++; f.Example == "" {
				f.Example = text
			}
		}
		if v := history.Check(&p.history, promised); !v.Passed {
			if f.Broken++; f.Broken == 1 {
				f.Example = v.Check().Message
			}
		}
	}
	return f
}

// reversed reports whether a reader, from the first on, has seen the second transaction's write of y, but x from before
// the first transaction. The first transaction was answered before the second was sent.
func (p *play) reversed(first int) bool {
	return p.txns[0].Status == txn.Committed && slices.ContainsFunc(p.txns[first:], func(t history.Txn) bool {
		old, young := false, false
		for _, o := range t.Ops {
			old = old || o.Key == simload.Key(p.x) && o.Known && o.Version != p.ids[0]
			young = young || o.Key == simload.Key(p.y) && o.Known && o.Version == p.ids[1]
		}
		return old && young
	})
}

// overlapped reports whether the transactions of the case overlapped in one of its dangers. In each meeting, the two
// transactions were in flight at the same time from their clients' view, or the second was sent up to lag after the
// first was answered. If the anomaly is caused by copies that lag, the write must be committed. A transaction that
// failed for another reason than a conflict, or whose outcome is unknown, overlapped no transaction. At least one of
// the overlapping transactions must be committed: a database that refuses every transaction prevents nothing.
func (p *play) overlapped(c *Case, lag time.Duration) bool {
	replicated := c.replicated()
	return slices.ContainsFunc(c.dangers, func(d danger) bool {
		committed := false
		for _, m := range d {
			a, b := &p.txns[m[0]], &p.txns[m[1]]
			if !p.took(c, m[0]) || !p.took(c, m[1]) || replicated && a.Status != txn.Committed ||
				b.Invoked > a.Answered+lag || a.Invoked > b.Answered {
				return false
			}
			committed = committed || a.Status == txn.Committed || b.Status == txn.Committed
		}
		return committed
	})
}

// took reports whether the database processed a transaction: it committed the transaction, or aborted it for a conflict
// or as intended by the case.
func (p *play) took(c *Case, n int) bool {
	return p.txns[n].Status == txn.Committed || p.conflict[n] || p.txns[n].Status == txn.Aborted && c.txns[n].fails()
}
