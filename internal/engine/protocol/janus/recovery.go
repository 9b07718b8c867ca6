package janus

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
)

// recovery finishes the instances of a coordinator that is silent (Mu 2016, section 4.4).
//
// A replica that waits for a decision takes the instance over with a higher ballot. It asks the replicas of all the
// transaction's partitions for a promise to ignore lower ballots (Prepare). When a majority of each partition has
// answered, it proposes the only value that can have been decided, or chooses a value if none can:
//
//   - Somebody knows the decision: that is it.
//   - A replica has accepted a proposal: the proposal with the highest ballot.
//   - A majority of each partition has pre-accepted: the union of their dependencies. After the fast path, all answers
//     would have been the same, and the union is the decided value.
//   - Otherwise neither path has been taken, and never will be: the instance never happened (a no-op). A coordinator
//     that lives starts the transaction again as a new instance.
//
// A no-op has dependencies, too. Other instances may depend on it alone if it was the last in its row: it then
// represents all earlier instances of the row (see conflicts). So a replica that has not pre-accepted the instance
// answers Prepare with all its instances of the row. It also closes the row up to there: it refuses later arrivals. A
// majority of closed replicas thus can't pre-accept an instance that the no-op does not cover.
//
// A node that knows only the name of the transaction, from another instance's dependencies, asks all partitions.
type recovery struct {
	r       *Replica
	timeout time.Duration
	stagger time.Duration // so that not all replicas take over at the same time
	watched queue.Queue[deadline]
	// orphans are the watched instances whose owner has lost its state.
	orphans queue.Queue[deadline]
	name    geo.NodeID      // in ballots
	heard   []time.Duration // by node
	suspect []bool          // has not answered in time and not spoken since, or has nothing yet to vote with
	all     []int           // the partitions
}

func (v *recovery) init(r *Replica, timeout, longest time.Duration) {
	v.r, v.timeout = r, timeout
	t := r.topology
	v.stagger = stagger(int(t.RegionOf(r.self))*t.Replicas+t.ReplicaOf(r.self), longest)
	v.name = r.self + geo.NodeID(int(r.incarnation)*r.nodes)
	v.heard = make([]time.Duration, r.nodes)
	v.suspect = make([]bool, r.nodes)
	for q := range r.partitions {
		v.all = append(v.all, q)
	}
}

// stagger returns the additional delay of a replica's rank before it takes over other nodes' instances, so that
// replicas do not do so together.
func stagger(rank int, longest time.Duration) time.Duration {
	return time.Duration(rank) * (2*longest + 2*tickEvery)
}

func (v *recovery) hear(from geo.NodeID) { v.heard[from] = v.r.env.Now() }

// watch ensures that the instance is decided. If its owner has lost its state, the instance is taken over without
// waiting for silence.
func (v *recovery) watch(rec *record) {
	if now := v.r.env.Now(); v.orphaned(rec) {
		v.orphans.Push(deadline{rec.id, now + v.r.coordinator.patience + v.stagger})
	} else {
		v.watched.Push(deadline{rec.id, now + v.timeout + v.stagger})
	}
}

// orphaned reports whether the instance's owner has lost its state.
func (v *recovery) orphaned(rec *record) bool {
	owner, incarnation := rec.promised.owner(rec.id, v.r.nodes)
	return incarnation < v.r.rejoin.incarnations[owner]
}

// tick takes over instances that have been undecided for too long. If the owner sends messages, its instance is left to
// it: links lose nothing, and taking over would only delay a slow coordinator further.
func (v *recovery) tick() {
	v.look(&v.watched)
	v.look(&v.orphans)
}

// look checks the instances of a list whose deadline has passed.
func (v *recovery) look(list *queue.Queue[deadline]) {
	now := v.r.env.Now()
	for n := list.Len(); n > 0 && list.Front().at <= now; n-- {
		rec := v.r.find(list.Front().id)
		list.Pop()
		if rec == nil || rec.phase >= Committed {
			continue
		}
		owner, _ := rec.promised.owner(rec.id, v.r.nodes)
		silence := v.timeout
		if rec.promised > 0 {
			// A node that has taken it over may be waiting for answers of lost nodes without sending a message.
			silence += v.r.coordinator.patience
		}
		switch {
		case rec.lead != nil:
		case v.orphaned(rec):
			v.r.env.Mark(orphanTakenOver)
			v.takeOver(rec)
		case owner == v.r.self:
			v.takeOver(rec)
		case now-v.heard[owner] >= silence || v.r.env.Buggify(impatient):
			v.suspect[owner] = true
			v.takeOver(rec)
		case rec.asked:
			v.r.graph.askAgain(rec)
		case v.r.abstains(rec.id) && now-rec.attempted >= silence+v.r.coordinator.patience:
			// The decision may have been sent to the predecessor alone.
			v.takeOver(rec)
		}
		if rec.phase < Committed {
			v.watch(rec)
		}
	}
}

// takeOver asks the replicas for their states.
func (v *recovery) takeOver(rec *record) {
	r := v.r
	r.counters.recoveries++
	r.env.Mark(takenOver)
	r.coordinator.abandon(rec)
	b := rec.promised.next(v.name)
	partitions := v.all
	if rec.t != nil {
		partitions = r.partitionsOf(rec.t)
	}
	l := r.coordinator.begin(rec, preparing, b, partitions)
	l.wide = rec.t == nil && r.partitions > 1
	m := &Prepare{ID: rec.id, Ballot: b}
	for i := range l.tallies {
		for _, n := range l.tallies[i].missing {
			if n != r.self {
				r.env.Send(n, m)
			}
		}
	}
	rec.promised = b
	v.promised(r.self, v.promise(rec))
}

// prepare answers a node that takes an instance over.
func (v *recovery) prepare(from geo.NodeID, m *Prepare) {
	r := v.r
	if r.abstains(m.ID) {
		r.rejoin.abstain(from, m.ID, m.Ballot)
		return
	}
	rec := r.present(from, m.ID, nil)
	switch {
	case rec == nil:
	case rec.phase >= Committed && !rec.foreign:
		r.env.Mark(decisionKnown)
		r.tell(from, rec)
	case rec.phase >= Committed:
		r.env.Send(from, &Promise{Proposal: Proposal{ID: m.ID}, Ballot: m.Ballot, Promised: m.Ballot})
	case m.Ballot < rec.promised:
		r.env.Mark(prepareRefused)
		r.env.Send(from, &Promise{Proposal: Proposal{ID: m.ID}, Ballot: m.Ballot, Promised: rec.promised})
	default:
		r.coordinator.abandon(rec)
		rec.promised = m.Ballot
		p := v.promise(rec)
		r.env.Send(from, p)
	}
}

// promise returns this replica's state of an instance, for the last promised ballot.
func (v *recovery) promise(rec *record) *Promise {
	p := &Promise{
		Proposal: Proposal{ID: rec.id, Noop: rec.noop, Deps: rec.deps, T: rec.t},
		Ballot:   rec.promised, Promised: rec.promised, Accepted: rec.accepted, Phase: rec.phase,
	}
	if rec.phase == Unknown {
		row := &v.r.rows[rec.id.Node()]
		row.closed = max(row.closed, rec.id.Seq())
		p.Deps = nil
		for _, k := range row.kept {
			if k.id < rec.id {
				p.Deps = append(p.Deps, Dep{ID: k.id, Partition: uint16(v.r.partition), Settled: k.resolved})
			}
		}
	}
	return p
}

// promised takes a replica's answer to Prepare.
func (v *recovery) promised(from geo.NodeID, m *Promise) {
	r := v.r
	rec := r.find(m.ID)
	if rec == nil || rec.lead == nil || rec.lead.stage != preparing || rec.lead.ballot != m.Ballot {
		return
	}
	if m.Promised > m.Ballot {
		r.env.Mark(prepareOutbid)
		rec.promised = max(rec.promised, m.Promised)
		r.coordinator.abandon(rec)
		return
	}
	l := rec.lead
	r.learn(rec, m.T)
	if l.wide && rec.t != nil {
		l.tallies = slices.DeleteFunc(l.tallies, func(t tally) bool { return !r.touches(rec.t, t.partition) })
	}
	switch m.Phase {
	case PreAccepted:
		if t := r.coordinator.grant(l, from, m.Deps); t != nil {
			t.fresh++
		}
	default:
		t := r.coordinator.answered(l, from)
		if t == nil {
			break
		}
		t.grants++
		if m.Phase == Unknown {
			l.leftover = append(l.leftover, m.Deps...)
		} else if !l.found || m.Accepted > l.best {
			l.found, l.best, l.noop, l.deps = true, m.Accepted, m.Noop, m.Deps
		}
	}
	r.coordinator.decide(rec)
}
