// Package anomalies tests databases for the classic isolation anomalies between clients in different regions. Each case
// consists of a few small transactions, after Hermitage (M. Kleppmann 2014) and Adya's thesis; some cases are specific
// to replicated databases. The package reports which anomalies a database allows, and checks the database against the
// level that it promises.
//
// Engines run whole procedures, so a client cannot pause a transaction between two statements. A case is therefore
// executed many times in the simulator; one execution is called a play. Each play has separate rows, and sends its
// transactions within a random time between 1 ms and twice the longest round trip. The regions of its clients and rows
// change from play to play. The observations of the clients in a play form a separate history, which package history
// checks. If the anomaly is observed, the database allows it. If the anomaly is not observed in any play, it may still
// be possible; only the promised level rules it out.
//
// Running databases accept transactions statement by statement. There, the statements of a case are executed in an
// order that shows the anomaly unless the database prevents it: see Live and package script.
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
	settle = 3 * time.Second        // time for leader elections before the first play
	apart  = 100 * time.Millisecond // between the starts of consecutive plays
	// patience is the time allowed for the last play, counted from the start of this play.
	patience = time.Minute
	step0    = 100 * time.Millisecond // virtual time between two checks of the context
)

// Database is a database on which the cases are executed.
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
	// Forbidden is set if the promised level of the database rules the case out.
	Forbidden bool `json:"forbidden"`
	// Plays is the number of plays. Aborted counts the plays in which the database aborted a transaction because of a
	// conflict, and Seen the plays with the anomaly.
	Plays   int `json:"plays"`
	Aborted int `json:"aborted"`
	Seen    int `json:"seen"`
	// Overlapped counts the plays in which the transactions overlapped such that the anomaly could have occurred: see
	// play.overlapped. If it is 0, the database prevented nothing.
	Overlapped int `json:"overlapped"`
	// Other counts the plays in which another anomaly violated the level of the case.
	Other int `json:"other,omitempty"`
	// Broken counts the plays whose history violates the promised level of the database, for any reason.
	Broken int `json:"broken"`
	// Example describes the first broken play, else the first play with the anomaly, else the first with another anomaly.
	Example string `json:"example,omitempty"`
}

// Word summarizes the finding. BROKEN means that a play violated the promised level, and allowed that the anomaly was
// seen. Never overlapped means that no play could have shown the anomaly. In all other cases the anomaly was possible
// but not seen. The word is then prevented if the promised level rules the anomaly out, and not seen if it does not.
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

// String returns Word with the supporting figures.
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

// Play executes a case the given number of times, which must be at least 1. The same arguments yield the same finding.
// Play fails if the context is cancelled or the database does not answer.
func Play(ctx context.Context, d *Database, c *Case, plays int, seed uint64) (*Finding, error) {
	s := sim.New(sim.Config{
		Topology: d.Topology, Engine: d.Engine, Params: d.Params, Procedures: simload.Traced, Seed: seed, Costs: sim.DefaultCosts,
	})
	g := &game{c: c, topology: d.Topology, placement: d.Topology.Placement(), lag: c.lag(d.Topology.LongestRTT()), calls: map[txn.ID]call{}, rng: rand.New(rand.NewPCG(seed, 0))}
	layout := d.Engine.Layout(d.Topology, d.Params)
	for n := range plays {
		p := g.deal(n)
		// All copies of the rows must be loaded before the first transaction runs.
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

// game is the state of a case during its plays.
type game struct {
	c         *Case
	topology  *geo.Topology
	placement geo.Placement
	// lag is the time after the answer to a write during which other transactions may not see the write.
	lag      time.Duration
	rng      *rand.Rand
	first    uint64 // number of rows used by earlier games
	plays    []*play
	calls    map[txn.ID]call
	regions  []*region
	taps     []*history.Tap
	ids      uint64
	answered int
}

// play is one execution of a case.
type play struct {
	n       int
	x, y, g uint64 // numbers of two rows and a group
	within  time.Duration
	ids     []txn.ID // IDs of the transactions that were sent
	done    []bool
	// conflict marks the transactions that the database aborted because of a conflict.
	conflict []bool
	history  history.History
	txns     []history.Txn // by transaction
}

// call identifies a transaction of a play.
type call struct {
	p   *play
	txn int
	g   *game
}

// client returns a number for the client that is unique among the clients of all plays.
func (c call) client() int { return c.p.n*len(c.g.c.txns) + c.g.c.txns[c.txn].client }

// deal creates play n. The homes of rows and the regions of clients change from play to play, so that all pairs of
// regions occur.
func (g *game) deal(n int) *play {
	regions, partitions := g.placement.Regions, g.placement.Partitions
	number := func(offset int) uint64 {
		cell := geo.Cell{Home: geo.Region((n + offset) % regions), Partition: (n + offset) % partitions}
		return g.placement.ShardNumber(cell, g.first+uint64(3*n+offset))
	}
	longest := 2 * g.topology.LongestRTT()
	within := time.Millisecond
	// Short and long times are both likely: some anomalies need transactions within a millisecond, others within a round
	// trip.
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

// sender returns the region whose client sends a transaction.
func (g *game) sender(p *play, txn int) geo.Region {
	n := len(g.topology.Regions)
	return geo.Region((g.c.txns[txn].client + p.n/n) % n)
}

// ready reports whether all transactions that transaction txn must wait for are answered.
func (g *game) ready(p *play, txn int) bool {
	for before := range txn {
		if !p.done[before] && g.waits(txn, before) {
			return false
		}
	}
	return true
}

// waits reports whether a transaction must wait for the answer of another transaction.
func (g *game) waits(txn, before int) bool {
	t := &g.c.txns[txn]
	return before < txn && (t.client == g.c.txns[before].client || slices.Contains(t.after, before))
}

// region holds the clients of a region.
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

// later sends a transaction at a random time after d.
func (r *region) later(p *play, txn int, d time.Duration) {
	// The extra microsecond ensures that the transaction is sent strictly after the answers that it waits for.
	d += time.Microsecond + time.Duration(r.rng.Int64N(int64(p.within)))
	r.env.After(d, protocol.Timer{Arg: uint64(p.n*len(r.c.txns) + txn)})
}

// Fire implements protocol.Client. It sends the transaction of the timer.
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
	// Other transactions may wait for this answer, so they are scheduled only now.
	for i := range r.c.txns {
		if r.waits(i, c.txn) && r.ready(c.p, i) {
			r.regions[r.sender(c.p, i)].later(c.p, i, 0)
		}
	}
}

// record adds a transaction to its play, as observed by the client.
func (g *game) record(region int, t *history.Txn) {
	c := g.calls[t.ID]
	g.add(c.p, c.txn, region, t)
}

// add adds a transaction to a play.
func (g *game) add(p *play, n, region int, t *history.Txn) {
	for _, name := range g.topology.Regions { // number the regions as in the topology
		p.history.Region(name)
	}
	p.history.Add(region, t)
	p.txns[n] = *t
	p.txns[n].Ops = slices.Clone(t.Ops)
}

// find checks all plays and returns the finding.
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
		// Another anomaly in the same history does not count as this case.
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
		// The history must satisfy the promised level as a whole, not only without the anomaly of the case.
		if v := history.Check(&p.history, promised); !v.Passed {
			if f.Broken++; f.Broken == 1 {
				f.Example = v.Check().Message
			}
		}
	}
	return f
}

// reversed reports whether a transaction has seen transaction 1's write of y, but a version of x from before
// transaction 0. Only transactions with index first or higher count. Transaction 0 was answered before transaction 1
// was sent.
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

// overlapped reports whether the transactions overlapped in one of the dangers of the case. In each conflict of the
// danger, both transactions must have been in flight at the same time from the clients' view. A conflict also counts if
// the second transaction was sent at most lag after the first transaction was answered. If lagging copies cause the
// anomaly, the write must have committed.
//
// A transaction that failed for a reason other than a conflict, or whose outcome is unknown, does not count. At least
// one transaction must have committed: a database that refuses everything prevents nothing.
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

// took reports whether the database processed a transaction: the transaction committed, was aborted because of a
// conflict, or aborted itself as the case intends.
func (p *play) took(c *Case, n int) bool {
	return p.txns[n].Status == txn.Committed || p.conflict[n] || p.txns[n].Status == txn.Aborted && c.txns[n].fails()
}
