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
// transaction's partitions for a promise to ignore lower ballots (Prepare), and when a majority of each has answered it
// proposes the only value that can have been decided, or is free to choose:
//
//   - Somebody knows the decision: that is it.
//   - Somebody has accepted a proposal: the one with the highest ballot.
//   - A majority of each partition has pre-accepted: the union of their dependencies. Had the fast path been taken, all
//     would have answered alike, and the union is what was decided.
//   - Otherwise neither path has been taken, and never will be: the instance never happened (a no-op). A coordinator
//     that lives starts the transaction again as a new instance.
//
// A no-op has dependencies, too. Others may have found it last in its row and so depend on it alone, where it stands for
// all that came before it in the row (see conflicts). So a replica that has not pre-accepted the instance answers Prepare
// with all that it has of the row, and closes the row up to there: what comes later is refused. A majority of closed
// replicas thus can't pre-accept what the no-op does not cover.
//
// Whoever does not know the transaction, only its name in somebody's dependencies, asks all partitions.
type recovery struct {
	r       *Replica
	timeout time.Duration
	stagger time.Duration // so that not all replicas take over at the same time
	watched queue.Queue[deadline]
	// orphans are those of watched whose owner has lost what it knew.
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

// stagger is how much later than the first replica one of a rank looks after others' instances, so that they do not do so together.
func stagger(rank int, longest time.Duration) time.Duration {
	return time.Duration(rank) * (2*longest + 2*tickEvery)
}

func (v *recovery) hear(from geo.NodeID) { v.heard[from] = v.r.env.Now() }

// watch makes sure that the instance is decided. One whose owner has lost what it knew waits for no silence.
func (v *recovery) watch(rec *record) {
	if now := v.r.env.Now(); v.orphaned(rec) {
		v.orphans.Push(deadline{rec.id, now + v.r.coordinator.patience + v.stagger})
	} else {
		v.watched.Push(deadline{rec.id, now + v.timeout + v.stagger})
	}
}

// orphaned reports whether the instance's owner has lost what it knew.
func (v *recovery) orphaned(rec *record) bool {
	owner, incarnation := rec.promised.owner(rec.id, v.r.nodes)
	return incarnation < v.r.rejoin.incarnations[owner]
}

// tick looks after instances that have been undecided for long. One whose owner speaks is left to it: links lose
// nothing, and a coordinator that is merely slow would only become slower.
func (v *recovery) tick() {
	v.look(&v.watched)
	v.look(&v.orphans)
}

// look looks after those of a list whose time has come.
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
			// Who has taken it over may be waiting for the lost ones' answers, and says nothing meanwhile.
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

// takeOver asks the replicas what they know.
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

// promise says what this replica knows of an instance, for the ballot promised last.
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
