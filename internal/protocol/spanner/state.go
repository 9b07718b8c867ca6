package spanner

import (
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/fifo"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/store"
	"github.com/geobench/geobench/internal/txn"
)

// state is what a group's log makes of its entries beside rows: it is alike at all members that have applied as many.
type state struct {
	// prepared are the transactions that the group has promised to commit if all others do.
	prepared map[Name]*effect
	// ended are those that have ended, by coordinator.
	ended map[geo.NodeID]*ended
	// prevented are those of them that the group has refused to prepare before it was asked to.
	prevented map[Name]bool
	// closed is a timestamp up to which nothing will be written any more: every prepared transaction has a later one.
	closed uint64
	// latest is the largest timestamp of the entries so far.
	latest uint64
}

// ended are the transactions of a coordinator that have ended in a group. They are remembered for as long as somebody
// may ask for them: until the coordinator says that all its transactions below a number have ended in all their groups.
type ended struct {
	done   uint64
	recent fifo.Queue[ending]
}

// ending is how a transaction ended.
type ending struct {
	number uint64
	Outcome
}

func newState() state {
	return state{prepared: map[Name]*effect{}, ended: map[geo.NodeID]*ended{}, prevented: map[Name]bool{}}
}

// of returns what has ended of a coordinator's transactions.
func (s *state) of(c geo.NodeID) *ended {
	e := s.ended[c]
	if e == nil {
		e = &ended{}
		s.ended[c] = e
	}
	return e
}

// finish notes how a transaction ended, and forgets others.
func (s *state) finish(n Name, o Outcome) {
	s.of(n.Coordinator).recent.Push(ending{n.Number, o})
}

// forget forgets a coordinator's transactions below a number.
func (s *state) forget(c geo.NodeID, done uint64) {
	e := s.of(c)
	e.done = max(e.done, done)
	for e.recent.Len() > 0 && e.recent.Front().number < e.done {
		if len(s.prevented) > 0 {
			delete(s.prevented, Name{c, e.recent.Front().number})
		}
		e.recent.Pop()
	}
}

// fate is what a group knows of a transaction.
type fate uint8

const (
	unknown   fate = iota
	inDoubt        // prepared
	over           // and how
	forgotten      // over everywhere
)

// look returns a transaction's fate. It is called for those whose leaseholder or coordinator was lost.
func (s *state) look(n Name) (f fate, o Outcome) {
	if s.prepared[n] != nil {
		return inDoubt, Outcome{}
	}
	e := s.of(n.Coordinator)
	e.recent.Each(func(x ending) {
		if x.number == n.Number {
			f, o = over, x.Outcome
		}
	})
	if f == unknown && n.Number < e.done {
		f = forgotten
	}
	return f, o
}

// names returns those of the prepared transactions, sorted.
func (s *state) names() []Name {
	return slices.SortedFunc(maps.Keys(s.prepared), compareNames)
}

func compareNames(a, b Name) int {
	if a.Coordinator != b.Coordinator {
		return int(a.Coordinator) - int(b.Coordinator)
	}
	switch {
	case a.Number < b.Number:
		return -1
	case a.Number > b.Number:
		return 1
	}
	return 0
}

// snapshot returns the state and the rows of the group's shard, for a member that has fallen behind. Only the newest
// versions are in it.
func (g *group) snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, g.closed), g.latest)
	b = codec.AppendUvarint(b, uint64(len(g.prepared)))
	for _, n := range g.names() {
		b = appendEffect(b, commandPrepare, g.prepared[n])
	}
	b = codec.AppendUvarint(b, uint64(len(g.ended)))
	for _, c := range slices.Sorted(maps.Keys(g.ended)) {
		e := g.ended[c]
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(c)), e.done)
		b = codec.AppendUvarint(b, uint64(e.recent.Len()))
		e.recent.Each(func(x ending) { b = x.Outcome.appendTo(codec.AppendUvarint(b, x.number)) })
	}
	b = codec.AppendUvarint(b, uint64(len(g.prevented)))
	for _, n := range slices.SortedFunc(maps.Keys(g.prevented), compareNames) {
		b = n.appendTo(b)
	}
	for _, k := range g.keys() {
		rec, _ := g.r.store.Get(k)
		b = codec.AppendUvarint(codec.AppendString(b, string(k)), rec.Version)
		b = codec.AppendBytes(codec.AppendID(b, rec.Writer), rec.Value)
	}
	return b
}

// keys returns the keys of the group's rows, sorted.
func (g *group) keys() (keys []txn.Key) {
	g.r.store.Each(func(k txn.Key, _ store.Record) {
		if !k.Everywhere() && g.r.layout.Shard(k) == g.shard {
			keys = append(keys, k)
		}
	})
	slices.Sort(keys)
	return keys
}

// restore replaces the state and the rows by those of a snapshot.
func (g *group) restore(data []byte) {
	r := codec.NewReader(data)
	g.state = newState()
	g.closed, g.latest = r.Uvarint(), r.Uvarint()
	g.r.clock.see(g.latest)
	for range r.Count(8) {
		r.Uint8()
		e := readEffect(&r, commandPrepare)
		g.prepared[e.name] = e
	}
	for range r.Count(3) {
		e := g.of(geo.NodeID(r.UvarintMax(maxNode)))
		e.done = r.Uvarint()
		for range r.Count(3) {
			e.recent.Push(ending{r.Uvarint(), readOutcome(&r)})
		}
	}
	for range r.Count(2) {
		g.prevented[readName(&r)] = true
	}
	gone := map[txn.Key]bool{}
	for _, k := range g.keys() {
		gone[k] = true
	}
	for r.Len() > 0 && r.Err() == nil {
		k := txn.Key(r.String())
		rec := store.Record{Version: r.Uvarint(), Writer: r.ID(), Value: slices.Clone(r.Bytes())}
		if r.Err() != nil {
			break
		}
		delete(gone, k)
		if rec.Version > g.r.store.Newest(k) {
			g.r.store.Put(k, rec)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(gone)) {
		g.r.store.Delete(k, g.r.store.Newest(k), 0)
	}
	if err := r.Done(); err != nil {
		panic("spanner: a snapshot is malformed: " + err.Error())
	}
	g.r.counters.restored++
	g.oldest = g.latest // versions before are missing
	g.wakeSnapshots()
}
