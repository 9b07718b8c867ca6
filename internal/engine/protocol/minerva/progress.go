package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// progress informs replicas about the progress of the other replicas. So a replica knows the batches that no replica
// will ask for (section 4, garbage collection), and whether live replicas have not committed its epochs. It also
// ensures that a proof of availability reaches the coordinator if its sender is lost before it has notified all
// replicas.
type progress struct {
	r       *Replica
	epochs  []uint64        // by replica
	heard   []time.Duration // when the replica was last heard of
	told    uint64          // the last epoch that was reported to the other replicas
	waiting bool            // a timer is set
	proofs  Heads           // at the last tick
}

// tellEvery is the time between two reports.
const tellEvery = 200 * time.Millisecond

func (p *progress) init(r *Replica) {
	p.r = r
	p.epochs, p.heard, p.proofs = make([]uint64, r.nodes), make([]time.Duration, r.nodes), make(Heads, r.nodes)
	for n := range p.heard {
		p.heard[n] = -p.excuse()
	}
}

// excuse is the time for which a silent replica is taken for alive: longer than it takes to elect a coordinator and to
// learn of it.
func (p *progress) excuse() time.Duration { return 3 * p.r.coordinator.election }

func (p *progress) hear(n geo.NodeID) { p.heard[n] = p.r.env.Now() }

// lives reports whether a replica was heard of lately.
func (p *progress) lives(n geo.NodeID) bool { return p.r.env.Now()-p.heard[n] < p.excuse() }

// replaced discards the epochs that a replica's predecessor has committed, and sends the new incarnation this replica's
// progress.
func (p *progress) replaced(n geo.NodeID) {
	p.hear(n)
	p.epochs[n] = 0
	proofs := make(Heads, p.r.nodes)
	for o := range proofs {
		proofs[o] = p.r.logs.all[o].proven
	}
	p.r.env.Send(n, &Progress{p.r.epochs.committed, proofs})
}

// expect sets the timer for the next report.
func (p *progress) expect() {
	if !p.waiting && p.r.nodes > 1 {
		p.waiting = true
		p.r.env.After(tellEvery, protocol.Timer{Kind: progressTimer})
	}
}

// tell reports news to the other replicas: epochs, and proofs that were known at the last tick and are still in no
// epoch.
func (p *progress) tell() {
	p.waiting = false
	late, uncut := false, false
	for n := range p.proofs {
		g := &p.r.logs.all[n]
		late = late || p.proofs[n] > g.cut
		uncut = uncut || g.proven > g.cut
		p.proofs[n] = g.proven
	}
	if late || p.told < p.r.epochs.committed {
		p.told = p.r.epochs.committed
		if late {
			p.r.env.Mark(progressLate)
		}
		m := &Progress{p.told, append(Heads(nil), p.proofs...)}
		p.r.others(func(n geo.NodeID) { p.r.env.Send(n, m) })
	}
	if uncut {
		p.expect()
	}
	p.collect()
}

// receive takes another replica's report.
func (p *progress) receive(from geo.NodeID, m *Progress) {
	p.epochs[from] = max(p.epochs[from], m.Epoch)
	p.r.rejoin.reported(from, m.Epoch)
	if len(m.Proofs) == p.r.nodes {
		for n, head := range m.Proofs {
			p.r.logs.prove(geo.NodeID(n), head)
		}
	}
	p.collect()
}

// ahead reports whether a live replica has not reported that it has committed this replica's epochs.
func (p *progress) ahead() bool {
	for n, e := range p.epochs {
		if geo.NodeID(n) != p.r.self && e < p.r.epochs.committed && p.lives(geo.NodeID(n)) {
			return true
		}
	}
	return false
}

// collect forgets the cuts and batches that all replicas have committed, and the oldest where there are too many of
// them.
func (p *progress) collect() {
	low := p.r.epochs.committed
	for n, e := range p.epochs {
		if geo.NodeID(n) != p.r.self {
			low = min(low, e)
		}
	}
	p.r.epochs.collect(low)
}
