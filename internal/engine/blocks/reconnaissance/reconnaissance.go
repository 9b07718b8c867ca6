// Package reconnaissance finds the footprints of transactions whose procedures cannot declare them, for engines that
// need footprints to order transactions. It runs a reconnaissance query (Thomson et al., Calvin, SIGMOD 2012, section
// 3.2.1). The coordinator runs the procedure on the current rows of its copy, without locks, and discards the result.
// The rows that the run touched become the transaction's footprint.
//
// When the transaction executes, the procedure may need other rows. All copies detect this alike and discard the
// writes, and the coordinator runs another reconnaissance.
package reconnaissance

import (
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Parameter is the engine parameter that bounds the number of reconnaissances of a transaction.
var Parameter = protocol.Parameter{
	Name: "reconnaissances", Default: "10", Integer: true, MinInt: 1, MaxInt: 1000,
	Doc: "How often the rows of a transaction that cannot name them beforehand are looked for, before it is given up as a conflict.",
}

// Config describes the reconnaissance of a node.
type Config struct {
	protocol.Config
	// Layout maps the rows of this node's copy to nodes.
	Layout geo.Layout
	// Order handles a transaction whose footprint was found.
	Order func(t *txn.Transaction)
	// Answer handles the outcome of a transaction that touches no rows and therefore is not ordered.
	Answer func(o txn.Outcome)
	// Timer is the kind of the reconnaissance's timer; the engine must pass that timer to Fire.
	Timer uint8
}

// againAfter is the time between a stale footprint and the next reconnaissance. A row that has changed its home may not
// have arrived there yet, and a step of the engine may be in progress.
const againAfter = time.Millisecond

// Reconnaissance finds the footprints of the transactions of a node's clients.
type Reconnaissance struct {
	c    Config
	most int64
	open map[txn.ID]*mission
	out  map[geo.NodeID]*Look
	// again holds the transactions that wait for the timer.
	again []*mission
	// paused is set while this node has no rows to read. looks holds the requests of other nodes that wait for rows.
	paused bool
	looks  []heldLook

	found, stale int64
}

// heldLook is another node's request that waits for rows.
type heldLook struct {
	from geo.NodeID
	*Look
}

// mission is the state of a transaction from its submission to its outcome.
type mission struct {
	t       *txn.Transaction
	task    *rerun.Task // nil while no reconnaissance is in progress
	looks   int64
	waiting int // number of nodes with an outstanding answer
}

// New returns a reconnaissance. The engine must declare Parameter.
func New(c Config) *Reconnaissance {
	return &Reconnaissance{c: c, most: c.Params.Int(Parameter.Name), open: map[txn.ID]*mission{}, out: map[geo.NodeID]*Look{}}
}

// Begin starts to find the footprint of a transaction, and then passes the transaction to Config.Order. The caller must
// call Flush afterwards.
func (r *Reconnaissance) Begin(t *txn.Transaction) {
	m := &mission{t: t}
	r.open[t.ID] = m
	if r.paused {
		r.again = append(r.again, m)
		return
	}
	r.look(m)
}

// Outcome handles the outcome of a transaction of this node's clients. It reports whether the outcome is final; if not,
// the transaction needs another reconnaissance.
func (r *Reconnaissance) Outcome(o *txn.Outcome) bool {
	m := r.open[o.ID]
	if m == nil {
		return true
	}
	switch o.Cause {
	case txn.CauseStale:
	case txn.CauseMoved: // the coordinator resends it unchanged, with the same footprint
		r.c.Env.Mark(moved)
		return true
	default:
		delete(r.open, o.ID)
		return true
	}
	r.stale++
	r.c.Env.Mark(stale)
	// Without this bound, a transaction on contended rows could find a stale footprint forever.
	if m.looks < r.most {
		if len(r.again) == 0 {
			r.c.Env.After(againAfter, protocol.Timer{Kind: r.c.Timer})
		}
		r.again = append(r.again, m)
		return false
	}
	delete(r.open, o.ID)
	r.c.Env.Mark(givenUp)
	o.Status, o.Cause = txn.Aborted, txn.CauseConflict
	return true
}

// Fire repeats the reconnaissance of transactions with stale footprints. The caller must call Flush afterwards.
func (r *Reconnaissance) Fire() {
	again := r.again
	r.again = nil
	for _, m := range again {
		r.look(m)
	}
}

// look starts a reconnaissance.
func (r *Reconnaissance) look(m *mission) {
	m.looks++
	m.task = rerun.New(r.c.Procedures, m.t, r.c.Store, false)
	r.step(m)
}

// step runs the procedure as far as the available rows allow, and requests the missing rows.
func (r *Reconnaissance) step(m *mission) {
	for {
		needs := m.task.Step()
		if len(needs) == 0 {
			break
		}
		for _, n := range needs {
			to := r.c.Layout.Node(r.c.Layout.CopyOf(r.c.Self), r.c.Layout.Shard(n.Range.From))
			if to == r.c.Self {
				m.supply(r.read(&n.Range))
				continue
			}
			l := r.out[to]
			if l == nil {
				l = &Look{}
				r.out[to] = l
			}
			// A transaction adds its ranges consecutively, so if it already has a request in this message, that request is the
			// last. All ranges then share one request and one answer.
			if k := len(l.For); k == 0 || l.For[k-1].ID != m.t.ID {
				l.For = append(l.For, LookFor{ID: m.t.ID, Look: uint64(m.looks)})
				m.waiting++
			}
			last := &l.For[len(l.For)-1]
			last.Ranges = append(last.Ranges, n.Range)
		}
		if m.waiting > 0 {
			r.c.Env.Mark(lookedElsewhere)
			return
		}
	}
	r.end(m)
}

// read returns the rows of a range that this node stores.
func (r *Reconnaissance) read(g *txn.Range) SeenRange {
	s := SeenRange{Range: *g}
	r.c.Store.Scan(*g, func(k txn.Key, rec store.Record) bool {
		s.Rows = append(s.Rows, txn.Row{Key: k, Value: rec.Value})
		return true
	})
	return s
}

// supply passes rows to the task, without versions: execution validates their values.
func (m *mission) supply(s SeenRange) {
	rows := make([]rerun.Row, len(s.Rows))
	for i, w := range s.Rows {
		rows[i] = rerun.Row{Key: w.Key, Record: store.Record{Value: w.Value}}
	}
	m.task.Supply(rerun.Read{Range: s.Range, Rows: rows})
}

// end orders a transaction whose footprint is known.
func (r *Reconnaissance) end(m *mission) {
	if m.looks < r.most && r.c.Env.Buggify(looksTwice) {
		r.look(m)
		return
	}
	f := m.task.Footprint()
	result, err := m.task.Result()
	m.task = nil
	r.found++
	// A transaction without accesses conflicts with no other transaction, so its result is final without ordering.
	if len(f.Accesses) == 0 {
		delete(r.open, m.t.ID)
		o := txn.Outcome{ID: m.t.ID, Status: txn.Committed, Result: result}
		if err != nil {
			o = txn.AbortOutcome(m.t.ID, err)
		}
		r.c.Answer(o)
		return
	}
	t := *m.t // the client's transaction is immutable
	t.Found, t.Footprint = true, f
	r.c.Order(&t)
}

// Receive handles a message of this package and reports whether m was one. The caller must call Flush afterwards.
func (r *Reconnaissance) Receive(from geo.NodeID, m protocol.Message) bool {
	switch m := m.(type) {
	case *Look:
		if r.paused {
			r.looks = append(r.looks, heldLook{from, m})
			return true
		}
		seen := &Seen{}
		for _, q := range m.For {
			s := SeenFor{ID: q.ID, Look: q.Look}
			for i := range q.Ranges {
				s.Reads = append(s.Reads, r.read(&q.Ranges[i]))
			}
			seen.For = append(seen.For, s)
		}
		r.c.Env.Send(from, seen)
	case *Seen:
		for i := range m.For {
			r.seen(&m.For[i])
		}
	default:
		return false
	}
	return true
}

// Pause makes the reconnaissance wait for rows. It must be called before Begin and Receive.
func (r *Reconnaissance) Pause() { r.paused = true }

// Resume must be called when the node has received its rows. It handles everything that waited for them. The caller
// must call Flush afterwards.
func (r *Reconnaissance) Resume() {
	r.paused = false
	looks := r.looks
	r.looks = nil
	for _, l := range looks {
		r.Receive(l.from, l.Look)
	}
	r.Fire()
}

// Replaced records that node n has lost its state, and restarts every reconnaissance that waits for another node. The
// caller must call Flush afterwards.
func (r *Reconnaissance) Replaced(n geo.NodeID) {
	// The new incarnation has no record of its predecessor's requests and would ignore the answers.
	r.looks = slices.DeleteFunc(r.looks, func(l heldLook) bool { return l.from == n })
	// Messages must leave in the same order in every replay of a seed, so iterate in sorted order.
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		if m := r.open[id]; m.task != nil && m.waiting > 0 {
			r.c.Env.Mark(lookedAgain)
			m.waiting = 0
			// look increments m.looks, so answers to the earlier requests no longer match and are ignored.
			r.look(m)
		}
	}
}

// Looks reports whether a reconnaissance of a transaction is in progress or pending.
func (r *Reconnaissance) Looks(id txn.ID) bool {
	m := r.open[id]
	return m != nil && (m.task != nil || slices.Contains(r.again, m))
}

// Forget drops a transaction that will not have an outcome at this node.
func (r *Reconnaissance) Forget(id txn.ID) { delete(r.open, id) }

// seen handles another node's answer.
func (r *Reconnaissance) seen(s *SeenFor) {
	m := r.open[s.ID]
	// The answer may belong to an earlier look, or to a transaction that is already finished.
	if m == nil || m.task == nil || uint64(m.looks) != s.Look {
		return
	}
	for i := range s.Reads {
		m.supply(s.Reads[i])
	}
	if m.waiting--; m.waiting == 0 {
		r.step(m)
	}
}

// Flush sends the requests collected since the last call, one message per node. An engine calls it at the end of each
// step.
func (r *Reconnaissance) Flush() {
	if len(r.out) == 0 {
		return
	}
	to := make([]geo.NodeID, 0, len(r.out))
	for n := range r.out {
		to = append(to, n)
	}
	slices.Sort(to)
	for _, n := range to {
		r.c.Env.Send(n, r.out[n])
	}
	clear(r.out)
}

// Readings appends the values of Figures to dst.
func (r *Reconnaissance) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(dst,
		protocol.Reading{Name: "reconnaissances", Value: r.found},
		protocol.Reading{Name: "reconnaissances_stale", Value: r.stale},
	)
}
