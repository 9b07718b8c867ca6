package sdur

import (
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// state is the group's replicated state except for the rows. Members that have applied the same entries have the same
// state. The only exception is a leader, which knows the outcomes of some global transactions before its log contains
// them.
type state struct {
	// deliveries is the paper's delivery counter, DC: the number of delivered transactions and ticks.
	deliveries uint64
	// completed is the paper's snapshot counter, SC: the number of transactions that have passed certification and
	// completed. It includes transactions that another group has aborted.
	completed uint64
	// last is the largest timestamp of the committed transactions.
	last uint64
	// horizon is the timestamp of the last applied entry. Later deliveries have larger timestamps.
	horizon uint64
	// pending are the transactions that have passed certification and not completed, in the order of their completion: the
	// paper's pending list, PL. The first of them is always global.
	pending []*delivery
	// globals are the global transactions that have passed certification, until they have completed and their outcome is
	// in the log.
	globals    map[raftgroup.Name]*delivery
	history    window
	unfinished unfinished
	// ended holds the outcomes of the transactions that have completed, were rejected or were prevented.
	ended raftgroup.Endings[ending]
	// prevented are the transactions in ended that this group voted to abort before their delivery.
	prevented map[raftgroup.Name]bool
}

func newState(r *Replica) state {
	return state{
		globals: map[raftgroup.Name]*delivery{}, history: newWindow(r.kept, r.filterBits), unfinished: newUnfinished(r.filterBits),
		ended: raftgroup.Endings[ending]{}, prevented: map[raftgroup.Name]bool{},
	}
}

// forget drops the outcomes of coordinator c's transactions below number done.
func (g *group) forget(c geo.NodeID, done uint64) {
	g.ended.Forget(c, done, func(n raftgroup.Name) {
		if len(g.prevented) > 0 {
			delete(g.prevented, n)
		}
		if len(g.early) > 0 {
			delete(g.early, n)
		}
	})
}

// closed returns the closed timestamp: every transaction that commits here at or below it has completed.
func (g *group) closed() uint64 {
	t := g.horizon
	for _, x := range g.pending {
		// A pending transaction may commit at earliest, so only timestamps before it are closed.
		t = min(t, x.earliest-1)
	}
	return t
}

// Snapshot implements raftgroup.Machine. It returns the state and the newest row versions of the group's shard, for a
// member that lags.
func (g *group) Snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, g.deliveries), g.completed)
	b = codec.AppendUvarint(codec.AppendUvarint(b, g.last), g.horizon)
	var decided []*delivery // decided transactions that have completed
	for _, x := range g.globalsInOrder() {
		// Pending transactions follow separately. Completed transactions are needed until their outcomes are in the log.
		if x.completed > 0 {
			decided = append(decided, x)
		}
	}
	b = codec.AppendUvarint(b, uint64(len(decided)))
	for _, x := range decided {
		b = codec.AppendUvarint(raftgroup.AppendShards(x.name.AppendTo(b), x.Participants), uint64(x.Anchor))
		b = codec.AppendUvarint(appendEnding(b, ending{x.verdict, x.timestamp}), x.completed)
	}
	b = codec.AppendUvarint(b, uint64(len(g.pending)))
	for _, x := range g.pending {
		b = codec.AppendUvarint(codec.AppendUvarint(x.name.AppendTo(b), x.number), x.earliest)
		b = append(b, codec.Flags(x.decided, x.logged))
		if x.decided {
			b = appendEnding(b, ending{x.verdict, x.timestamp})
		}
		b = x.Update.appendTo(b)
	}
	// Certification must have the same result at a restored member, so the snapshot contains the whole window of
	// footprints.
	first := g.completed - min(g.completed, uint64(g.history.kept))
	for n := first + 1; n <= g.completed; n++ {
		b = g.history.at(n).appendTo(b)
	}
	b = g.ended.AppendTo(b, appendEnding)
	return g.AppendRows(raftgroup.AppendNames(b, g.prevented), g.r.store)
}

// Restore implements raftgroup.Machine. It replaces the state and the rows with the content of a snapshot.
func (g *group) Restore(data []byte) {
	r := codec.NewReader(data)
	g.state = newState(g.r)
	g.deliveries, g.completed, g.last, g.horizon = r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()
	g.r.clock.See(max(g.last, g.horizon))
	for range r.Count(7) {
		x := &delivery{name: raftgroup.ReadName(&r), decided: true}
		x.Participants, x.Anchor = raftgroup.ReadShards(&r), int(r.UvarintMax(raftgroup.MaxShard))
		e := readEnding(&r)
		x.verdict, x.timestamp, x.completed = e.verdict, e.timestamp, r.Uvarint()
		g.globals[x.name] = x
	}
	for range r.Count(8) {
		x := &delivery{name: raftgroup.ReadName(&r), number: r.Uvarint(), earliest: r.Uvarint()}
		if x.decided, x.logged = r.Flags(); x.decided {
			e := readEnding(&r)
			x.verdict, x.timestamp = e.verdict, e.timestamp
		}
		x.Update.read(&r)
		x.footprint = footprintOf(&x.Update)
		g.pending = append(g.pending, x)
		g.unfinished.add(x)
		if x.global() {
			g.globals[x.name] = x
		}
	}
	for n := g.completed - min(g.completed, uint64(g.history.kept)) + 1; n <= g.completed && r.Err() == nil; n++ {
		var f footprint
		f.read(&r)
		g.history.add(n, f)
	}
	g.ended = raftgroup.ReadEndings(&r, readEnding)
	g.prevented = raftgroup.ReadNames(&r)
	g.RestoreRows(&r, g.r.store)
	if err := r.Done(); err != nil {
		panic("sdur: a snapshot is malformed: " + err.Error())
	}
	g.r.counters.restored++
	g.empty = false
	g.oldest = g.last // the snapshot contains no older versions
	g.wakeReads()
}
