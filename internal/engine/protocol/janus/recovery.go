package janus

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
)

// recovery decides the instances of silent coordinators (Mu 2016, section 4.4).
//
// A replica that waits for a decision takes the instance over with a higher ballot. It asks the replicas of all
// partitions of the transaction to promise to ignore lower ballots (Prepare). After answers from a majority of each
// partition, it proposes the only value that can have been decided. If none can have been decided, it proposes a no-op.
// The first case that applies determines the value:
//
//   - A replica knows the decision: this decision.
//   - A replica has accepted a proposal: the accepted proposal with the highest ballot.
//   - A majority of each partition has pre-accepted: the union of their dependencies. After the fast path, all answers
//     were the same, and the union is the decided value.
//   - Otherwise: a no-op, which means that the instance never happened. Neither the fast nor the slow path has decided
//     the instance or can still decide it. If the coordinator is live, it starts the transaction again as a new
//     instance.
//
// A no-op has dependencies, too. Other instances may depend on the no-op as the last instance of its row, which
// represents all earlier instances of the row (see conflicts). Therefore a replica that has not pre-accepted the
// instance answers Prepare with all its earlier instances of the row. It also closes the row up to the instance: it
// refuses to pre-accept later arrivals with lower numbers. Once a majority has closed the row, no majority can
// pre-accept an instance that the no-op does not cover.
//
// A node may know only the ID of an instance, from another instance's dependencies. Such a node asks all partitions.
type recovery struct {
	r       *Replica
	timeout time.Duration
	stagger time.Duration // this replica's additional delay before a takeover
	watched queue.Queue[deadline]
	// orphans are the watched instances whose owner has lost its state.
	orphans queue.Queue[deadline]
	name    geo.NodeID      // this incarnation's name in ballots
	heard   []time.Duration // time of the last message, by node
	suspect []bool          // by node: it has not answered in time and has sent nothing after that, or it cannot vote yet
	all     []int           // all partitions
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

// stagger returns the additional delay before the replica of this rank takes over instances. With the delay, replicas
// do not take over at the same time and outbid each other.
func stagger(rank int, longest time.Duration) time.Duration {
	return time.Duration(rank) * (2*longest + 2*tickEvery)
}

func (v *recovery) hear(from geo.NodeID) { v.heard[from] = v.r.env.Now() }

// watch ensures that the instance is decided eventually. If the instance's owner has lost its state, the takeover does
// not wait until the owner has been silent for the timeout.
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

// tick takes over instances that have been undecided for too long. It leaves an instance to its owner while the owner
// sends messages: links lose nothing, and a takeover would make a slow coordinator even slower.
func (v *recovery) tick() {
	v.look(&v.watched)
	v.look(&v.orphans)
}

// look checks the instances in list whose deadlines have passed.
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
			// The owner has taken the instance over. It may be waiting for answers from lost nodes and send nothing in the
			// meantime.
			silence += v.r.coordinator.patience
		}
		switch {
		// This node's own attempt is still in progress.
		case rec.lead != nil:
		case v.orphaned(rec):
			v.r.env.Mark(orphanTakenOver)
			v.takeOver(rec)
		case owner == v.r.self:
			v.takeOver(rec)
		case now-v.heard[owner] >= silence || v.r.env.Buggify(impatient):
			v.suspect[owner] = true
			v.takeOver(rec)
		// The owner is live and decides the instance, but the inquiry or its answer may be lost.
		case rec.asked:
			v.r.graph.askAgain(rec)
		case v.r.abstains(rec.id) && now-rec.attempted >= silence+v.r.coordinator.patience:
			// The decision may have been sent only to this node's predecessor.
			v.takeOver(rec)
		}
		// This attempt may be outbid, or its owner may fail. Watch the instance until it is decided.
		if rec.phase < Committed {
			v.watch(rec)
		}
	}
}

// takeOver starts an attempt to decide rec with a new ballot: it asks the replicas for their states of the instance.
func (v *recovery) takeOver(rec *record) {
	r := v.r
	r.counters.recoveries++
	r.env.Mark(takenOver)
	r.coordinator.abandon(rec)
	// The ballot must exceed every ballot known here, or this replica itself would have to refuse it.
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
	// This node's own promise counts like any other. If this node abstains, begin has removed it from the awaited nodes,
	// and promised ignores this promise.
	v.promised(r.self, v.promise(rec))
}

// prepare answers a node that tries to take an instance over.
func (v *recovery) prepare(from geo.NodeID, m *Prepare) {
	r := v.r
	if r.abstains(m.ID) {
		r.rejoin.abstain(from, m.ID, m.Ballot)
		return
	}
	rec := r.present(from, m.ID, nil)
	switch {
	// present has reported that all replicas have ordered the instance, or the instance's node number is invalid.
	case rec == nil:
	case rec.phase >= Committed && !rec.foreign:
		r.env.Mark(decisionKnown)
		r.tell(from, rec)
	// The instance is foreign and committed here without its complete dependencies, so this node promises but reports no
	// state.
	case rec.phase >= Committed:
		r.env.Send(from, &Promise{Proposal: Proposal{ID: m.ID}, Ballot: m.Ballot, Promised: m.Ballot})
	// The owner of the higher ballot may have used this replica's state already. A lower ballot must not decide anything
	// after that.
	case m.Ballot < rec.promised:
		r.env.Mark(prepareRefused)
		r.env.Send(from, &Promise{Proposal: Proposal{ID: m.ID}, Ballot: m.Ballot, Promised: rec.promised})
	default:
		// The promise ends this node's own attempt, which has a lower ballot.
		r.coordinator.abandon(rec)
		rec.promised = m.Ballot
		p := v.promise(rec)
		r.env.Send(from, p)
	}
}

// promise returns this replica's state of an instance under the promised ballot. If the replica has not pre-accepted
// the instance, promise closes the row up to the instance.
func (v *recovery) promise(rec *record) *Promise {
	p := &Promise{
		Proposal: Proposal{ID: rec.id, Noop: rec.noop, Deps: rec.deps, T: rec.t},
		Ballot:   rec.promised, Promised: rec.promised, Accepted: rec.accepted, Phase: rec.phase,
	}
	if rec.phase == Unknown {
		row := &v.r.rows[rec.id.Node()]
		// The reported dependencies cover the row only up to now, so the replica must refuse later arrivals with numbers up
		// to this instance.
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

// promised handles a replica's answer to Prepare.
func (v *recovery) promised(from geo.NodeID, m *Promise) {
	r := v.r
	rec := r.find(m.ID)
	// The answer may belong to an earlier attempt of this node.
	if rec == nil || rec.lead == nil || rec.lead.stage != preparing || rec.lead.ballot != m.Ballot {
		return
	}
	// Another node has taken the instance over with a higher ballot and decides it now.
	if m.Promised > m.Ballot {
		r.env.Mark(prepareOutbid)
		rec.promised = max(rec.promised, m.Promised)
		r.coordinator.abandon(rec)
		return
	}
	l := rec.lead
	r.learn(rec, m.T)
	// The first answer with the transaction reveals its partitions; answers of other partitions no longer count.
	if l.wide && rec.t != nil {
		l.tallies = slices.DeleteFunc(l.tallies, func(t tally) bool { return !r.touches(rec.t, t.partition) })
	}
	switch m.Phase {
	case PreAccepted:
		if t := r.coordinator.grant(l, from, m.Deps); t != nil {
			t.fresh++
		}
	// Only pre-accepted dependencies are votes. The dependencies of an accepted instance are a proposal, and the
	// dependencies of an unknown instance are for a no-op.
	default:
		t := r.coordinator.answered(l, from)
		if t == nil {
			break
		}
		t.grants++
		if m.Phase == Unknown {
			l.leftover = append(l.leftover, m.Deps...)
			// Only the accepted proposal with the highest ballot can have been decided.
		} else if !l.found || m.Accepted > l.best {
			l.found, l.best, l.noop, l.deps = true, m.Accepted, m.Noop, m.Deps
		}
	}
	r.coordinator.decide(rec)
}
