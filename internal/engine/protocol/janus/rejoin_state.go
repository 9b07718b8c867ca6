package janus

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// entryHead starts the encoding of an entry. how shows which other fields follow.
//
//codec:part
type entryHead struct {
	id  Instance
	t   *txn.Transaction `codec:"optional"`
	how uint8
}

// entry is the part of a state that describes one instance.
type entry struct {
	entryHead
	noop bool
	deps []Dep
	turn uint64
	served
}

// state returns the encoded state of this node that a new incarnation needs. It contains the instances of the
// incarnation's partition that this node holds or coordinates. The donor adds the positions of the instances that it
// has ordered, its reads for other nodes, and its rows.
func (j *rejoin) state(to geo.NodeID) []byte {
	r := j.r
	q := r.topology.PartitionOf(to)
	donor := j.donor(to) == r.self
	var b []byte
	for n := range r.rows {
		b = codec.AppendUvarint(codec.AppendUvarint(b, r.rows[n].stable), r.rows[n].forget)
	}
	var list []*record
	for id, rec := range r.records {
		mine := r.partition == q && !rec.foreign || id.Node() == r.self
		if mine && rec.t != nil && !r.orderedBefore(rec) && r.touches(rec.t, q) {
			list = append(list, rec)
		}
	}
	// Go randomizes the iteration order of maps, but a simulation must encode the same state each time.
	slices.SortFunc(list, func(a, b *record) int { return cmp.Compare(a.id, b.id) })
	b = codec.AppendUvarint(b, uint64(len(list)))
	for _, rec := range list {
		how := byte(undecided)
		switch {
		case rec.phase == Ordered && donor && rec.executed:
			how = over
		case rec.phase == Ordered && donor:
			how = placed
		case rec.phase >= Committed:
			how = decided
		}
		head := entryHead{rec.id, rec.t, how}
		b = head.appendTo(b)
		if how == undecided {
			continue
		}
		b = appendDeps(append(b, codec.Flags(rec.noop, false)), rec.deps, true)
		if how < placed {
			continue
		}
		b = codec.AppendUvarint(b, rec.turn)
		s := rec.served
		if s == nil {
			s = &served{}
		}
		b = codec.AppendUvarint(b, uint64(len(s.to)))
		for _, p := range s.to {
			b = codec.AppendUvarint(b, uint64(p))
		}
		b = deterministic.AppendValues(b, s.values)
	}
	if donor {
		b = statetransfer.AppendRows(b, store.Placed(r.store))
	}
	return b
}

// known is a decoded state of another node.
type known struct {
	stable, forget []uint64
	entries        []entry
	rows           []store.Row
}

// readState decodes the output of state; donor is set if the sender is the donor.
func (j *rejoin) readState(data []byte, donor bool) (*known, error) {
	r := codec.NewReader(data)
	s := &known{}
	for range j.r.nodes {
		s.stable, s.forget = append(s.stable, r.Uvarint()), append(s.forget, r.Uvarint())
	}
	txns := codec.NewTxnArena(j.r.procedures)
	for range r.Count(4) {
		var e entry
		if e.read(&r, txns); e.t == nil || int(e.id.Node()) >= j.r.nodes {
			r.Fail(fmt.Errorf("%v cannot be an instance", e.id))
		}
		if e.how != undecided {
			e.noop = r.Flag()
			e.deps = readDeps(&r, true)
		}
		if e.how >= placed {
			e.turn = r.Uvarint()
			for range r.Count(1) {
				e.to = append(e.to, int(r.UvarintMax(uint64(j.r.partitions)-1)))
			}
			e.values = deterministic.ReadValues(&r)
		}
		s.entries = append(s.entries, e)
	}
	if donor {
		s.rows = statetransfer.ReadRows(&r)
	}
	return s, r.Done()
}

// join merges the states of all other nodes. After that, this node takes part in the protocol.
func (j *rejoin) join() {
	r := j.r
	all := map[Instance]*entry{}
	protocol.Others(r.nodes, r.self, func(n geo.NodeID) {
		for i := range j.here[n].entries {
			e := &j.here[n].entries[i]
			// The most advanced state takes precedence: a decision is final, and only the donor reports more than a decision.
			if was := all[e.id]; was == nil || was.how < e.how {
				all[e.id] = e
			}
		}
	})
	from := j.here[j.donor(r.self)]
	for i := range from.rows {
		w := &from.rows[i]
		r.store.Put(w.Key, slices.Clone(w.Value), w.Writer)
	}
	for n := range r.rows {
		row := &r.rows[n]
		// Instances up to the limit were sent to the predecessor and do not arrive here again.
		row.stable, row.forget, row.received = from.stable[n], from.forget[n], j.limits[n]
	}
	j.joined, j.here = true, nil
	r.env.Mark(rejoined)
	j.takeOver(all)
	held, submitted := j.held, j.submitted
	j.held, j.submitted = nil, nil
	for _, h := range held {
		r.handle(h.from, h.m)
	}
	for _, t := range submitted {
		r.Submit(t)
	}
}

// takeOver creates the records of a new incarnation from the merged entries.
func (j *rejoin) takeOver(all map[Instance]*entry) {
	r := j.r
	var run, open []*entry
	for _, id := range slices.Sorted(maps.Keys(all)) {
		e, former := all[id], r.abstains(id)
		if id.Seq() <= r.rows[id.Node()].forget && e.how < placed || !former && e.how == undecided {
			continue // all nodes have executed it, or it will still arrive at this node
		}
		rec := &record{id: id, t: e.t}
		r.records[id] = rec
		if former {
			r.admit(rec)
			// admit has set received to this instance, but no instance up to the limit will arrive.
			r.rows[id.Node()].received = j.limits[id.Node()]
			// Later transactions must depend on this instance: the predecessor may have supplied the vote that decided it.
			r.enter(id, e.t)
		}
		if e.how < placed {
			open = append(open, e)
			continue
		}
		rec.phase, rec.noop, rec.deps, rec.resolved, rec.taken, rec.watched, rec.turn = Ordered, e.noop, e.deps, true, true, true, e.turn
		rec.executed = e.how == over
		// Number newly ordered instances after the donor's numbers, in case this node becomes the donor of another
		// incarnation.
		r.graph.turns = max(r.graph.turns, e.turn)
		if !e.noop {
			r.antiEntropy.decided(rec)
		}
		if e.how == placed {
			run = append(run, e)
			continue
		}
		if len(e.to) > 0 {
			rec.served = &e.served
			for _, q := range e.to {
				r.executor.ServeAgain(place(id), q, e.values)
			}
		}
		// The predecessor had to report this outcome. The donor's state does not contain the outcome, so it is unknown.
		if !e.noop && r.executor.AnswersElsewhere(e.t, id.Node()) {
			r.env.Mark(answerLost)
			r.executor.Tell(id.Node(), txn.Outcome{ID: e.t.ID, Status: txn.Unknown, Cause: txn.CauseNode, Reason: ReasonNodeLost})
		}
	}
	// Execute in the donor's order: this node does not know the components of these instances.
	slices.SortFunc(run, func(a, b *entry) int { return cmp.Compare(a.turn, b.turn) })
	for _, e := range run {
		r.env.Mark(executedFor)
		r.executor.Run(place(e.id), e.t, e.id.Node())
	}
	for _, e := range open {
		// Only now do all records exist, so that a dependency on another entry finds its record.
		rec := r.know(e.id)
		if e.how == decided {
			r.commit(rec, e.noop, e.deps)
		}
	}
}
