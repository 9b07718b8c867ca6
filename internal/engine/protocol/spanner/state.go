package spanner

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// state is the group's replicated state except for the rows. Members that have applied the same entries have the same
// state.
type state struct {
	// prepared are the transactions that the group has promised to commit if all other participants do.
	prepared map[raftgroup.Name]*effect
	// ended are the outcomes of transactions that have ended.
	ended raftgroup.Endings[Outcome]
	// prevented are the transactions in ended that the group refused before it received a request to prepare them.
	prevented map[raftgroup.Name]bool
	// closed is a timestamp at or below which no transaction will write any more. Every prepared transaction has a later
	// timestamp.
	closed uint64
	// latest is the largest timestamp in the applied entries.
	latest uint64
}

func newState() state {
	return state{prepared: map[raftgroup.Name]*effect{}, ended: raftgroup.Endings[Outcome]{}, prevented: map[raftgroup.Name]bool{}}
}

// forget drops the outcomes of coordinator c's transactions below number done.
func (s *state) forget(c geo.NodeID, done uint64) {
	s.ended.Forget(c, done, func(n raftgroup.Name) {
		if len(s.prevented) > 0 {
			delete(s.prevented, n)
		}
	})
}

// fate is the state of a transaction in a group, according to its log.
type fate uint8

const (
	unknown   fate = iota
	inDoubt        // prepared
	over           // ended, with a known outcome
	forgotten      // ended in all groups
)

// look returns a transaction's fate, and its outcome if the fate is over. It is called if a leaseholder or a
// coordinator may have been lost.
func (s *state) look(n raftgroup.Name) (f fate, o Outcome) {
	if s.prepared[n] != nil {
		return inDoubt, Outcome{}
	}
	switch o, ended, gone := s.ended.Look(n); {
	case ended:
		return over, o
	case gone:
		return forgotten, Outcome{}
	}
	return unknown, Outcome{}
}

// names returns the names of the prepared transactions, sorted.
func (s *state) names() []raftgroup.Name {
	return slices.SortedFunc(maps.Keys(s.prepared), raftgroup.Name.Compare)
}

// Snapshot implements raftgroup.Machine. It returns the state and the newest row versions of the group's shard, for a
// member that lags.
func (g *group) Snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, g.closed), g.latest)
	b = codec.AppendUvarint(b, uint64(len(g.prepared)))
	for _, n := range g.names() {
		b = appendEffect(b, commandPrepare, g.prepared[n])
	}
	b = g.ended.AppendTo(b, appendOutcome)
	return g.AppendRows(raftgroup.AppendNames(b, g.prevented), g.r.store)
}

// Restore implements raftgroup.Machine. It replaces the state and the rows with the content of a snapshot.
func (g *group) Restore(data []byte) {
	r := codec.NewReader(data)
	g.state = newState()
	g.closed, g.latest = r.Uvarint(), r.Uvarint()
	// This node's later timestamps must exceed all timestamps in the snapshot.
	g.r.clock.See(g.latest)
	for range r.Count(8) {
		// Skip the kind that appendEffect has written.
		r.Uint8()
		e := readEffect(&r, commandPrepare)
		g.prepared[e.name] = e
	}
	g.ended = raftgroup.ReadEndings(&r, readOutcome)
	g.prevented = raftgroup.ReadNames(&r)
	g.RestoreRows(&r, g.r.store)
	if err := r.Done(); err != nil {
		panic("spanner: a snapshot is malformed: " + err.Error())
	}
	g.r.counters.restored++
	g.oldest = g.latest // the snapshot contains no older versions
	g.wakeSnapshots()
}
