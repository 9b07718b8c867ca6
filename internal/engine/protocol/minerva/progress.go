package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// progress exchanges progress reports between replicas. A replica learns from them which batches no replica will
// request any more (section 4, garbage collection). It also learns whether all live replicas have committed its epochs.
// The reports also carry proofs of availability. A proof thus reaches the coordinator even if its sender is lost before
// it has notified all replicas.
type progress struct {
	r       *Replica
	epochs  []uint64        // last epoch that each replica has reported as committed
	heard   []time.Duration // time of the last message, by replica
	told    uint64          // last epoch that this replica has reported as committed
	waiting bool            // the progress timer is set
	proofs  Heads           // proven heads at the last tick
}

// tellEvery is the interval between two progress reports.
const tellEvery = 200 * time.Millisecond

func (p *progress) init(r *Replica) {
	p.r = r
	p.epochs, p.heard, p.proofs = make([]uint64, r.nodes), make([]time.Duration, r.nodes), make(Heads, r.nodes)
	for n := range p.heard {
		// No replica counts as live before its first message.
		p.heard[n] = -p.excuse()
	}
}

// excuse is the silence up to which a replica counts as live. It is longer than the election of a coordinator plus the
// delay of the first message after the election.
func (p *progress) excuse() time.Duration { return 3 * p.r.coordinator.election }

func (p *progress) hear(n geo.NodeID) { p.heard[n] = p.r.env.Now() }

// lives reports whether this replica has received a message from replica n within excuse.
func (p *progress) lives(n geo.NodeID) bool { return p.r.env.Now()-p.heard[n] < p.excuse() }

// replaced resets the progress of replica n, because its predecessor's commits are lost. It sends the new incarnation
// this replica's progress.
func (p *progress) replaced(n geo.NodeID) {
	p.hear(n)
	p.epochs[n] = 0
	proofs := make(Heads, p.r.nodes)
	for o := range proofs {
		proofs[o] = p.r.logs.all[o].proven
	}
	p.r.env.Send(n, &Progress{p.r.epochs.committed, proofs})
}

// expect sets the timer for the next report, unless the timer is set already.
func (p *progress) expect() {
	if !p.waiting && p.r.nodes > 1 {
		p.waiting = true
		p.r.env.After(tellEvery, protocol.Timer{Kind: progressTimer})
	}
}

// tell sends the other replicas a report if epochs were newly committed. It also does so if proofs were known at the
// last tick and are still in no cut.
func (p *progress) tell() {
	p.waiting = false
	late, uncut := false, false
	for n := range p.proofs {
		g := &p.r.logs.all[n]
		// A proof that is younger than one tick is probably still in flight to the coordinator, so only older proofs are
		// repeated.
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
	// The next tick repeats proofs that no cut contains by then.
	if uncut {
		p.expect()
	}
	p.collect()
}

// receive handles another replica's progress report.
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

// ahead reports whether some live replica has not yet reported this replica's last epoch as committed.
func (p *progress) ahead() bool {
	for n, e := range p.epochs {
		if geo.NodeID(n) != p.r.self && e < p.r.epochs.committed && p.lives(geo.NodeID(n)) {
			return true
		}
	}
	return false
}

// most returns the largest epoch that another live replica has reported as committed. A replica that may be lost does
// not count, because its rows are lost with it.
func (p *progress) most() (epoch uint64) {
	p.r.others(func(n geo.NodeID) {
		if p.lives(n) {
			epoch = max(epoch, p.epochs[n])
		}
	})
	return epoch
}

// collect discards the cuts and batches that all replicas have committed. Above the limits, it also discards the oldest
// ones.
func (p *progress) collect() {
	low := p.r.epochs.committed
	for n, e := range p.epochs {
		if geo.NodeID(n) != p.r.self {
			low = min(low, e)
		}
	}
	p.r.epochs.collect(low)
}
