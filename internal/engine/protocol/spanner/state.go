package spanner

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// state is the group's replicated state except for the rows. It is equal at all members that have applied the same
// number of entries.
type state struct {
	// prepared are the transactions that the group has promised to commit if all others do.
	prepared map[raftgroup.Name]*effect
	// ended are the transactions that have ended.
	ended raftgroup.Endings[Outcome]
	// prevented are the ended transactions that the group refused before it received a request to prepare them.
	prevented map[raftgroup.Name]bool
	// closed is a timestamp up to which no transaction writes any more: every prepared transaction has a later timestamp.
	closed uint64
	// latest is the largest timestamp of the entries so far.
	latest uint64
}

func newState() state {
	return state{prepared: map[raftgroup.Name]*effect{}, ended: raftgroup.Endings[Outcome]{}, prevented: map[raftgroup.Name]bool{}}
}

// forget forgets a coordinator's transactions below a number.
func (s *state) forget(c geo.NodeID, done uint64) {
	s.ended.Forget(c, done, func(n raftgroup.Name) {
		if len(s.prevented) > 0 {
			delete(s.prevented, n)
		}
	})
}

// fate is a group's knowledge of a transaction.
type fate uint8

const (
	unknown   fate = iota
	inDoubt        // prepared
	over           // and how
	forgotten      // over everywhere
)

// look returns a transaction's fate. It is called for transactions whose leaseholder or coordinator was lost.
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

// Snapshot returns the state and the rows of the group's shard, for a member that lags. It contains only the newest
// versions.
func (g *group) Snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, g.closed), g.latest)
	b = codec.AppendUvarint(b, uint64(len(g.prepared)))
	for _, n := range g.names() {
		b = appendEffect(b, commandPrepare, g.prepared[n])
	}
	b = g.ended.AppendTo(b, func(b []byte, o Outcome) []byte { return o.appendTo(b) })
	return g.AppendRows(raftgroup.AppendNames(b, g.prevented), g.r.store)
}

// Restore replaces the state and the rows by the content of a snapshot.
func (g *group) Restore(data []byte) {
	r := codec.NewReader(data)
	g.state = newState()
	g.closed, g.latest = r.Uvarint(), r.Uvarint()
	g.r.clock.See(g.latest)
	for range r.Count(8) {
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
	g.oldest = g.latest // versions before are missing
	g.wakeSnapshots()
}
