package primary

import (
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
)

// Copy is the state that the log has produced up to an entry: the rows and the outcomes of transactions.
type Copy struct {
	// Last is the last entry included in the rows. Committed is the last entry that the sender knew to be committed.
	Term, Last, Committed uint64

	Rows    []store.Row // in the order of keys
	Endings raftgroup.Endings[txn.Outcome]
	// Tail are the entries after Last, which may be uncommitted.
	Tail []Entry
}

func (m *Copy) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, m.Term), m.Last), m.Committed)
	b = statetransfer.AppendRows(b, m.Rows)
	b = m.Endings.AppendTo(b, func(b []byte, o txn.Outcome) []byte { return codec.AppendOutcome(b, &o) })
	b = codec.AppendUvarint(b, uint64(len(m.Tail)))
	for i := range m.Tail {
		b = m.Tail[i].appendTo(b)
	}
	return b
}

// readCopy decodes a copy, and returns an error if the copy is invalid.
func readCopy(data []byte) (*Copy, error) {
	r := codec.NewReader(data)
	m := &Copy{Term: r.UvarintMax(maxNumber), Last: r.UvarintMax(maxNumber), Committed: r.UvarintMax(maxNumber), Rows: statetransfer.ReadRows(&r)}
	m.Endings = raftgroup.ReadEndings(&r, func(r *codec.Reader) (o txn.Outcome) {
		r.Outcome(&o)
		return o
	})
	for range r.Count(minEntry) {
		var e Entry
		e.read(&r)
		m.Tail = append(m.Tail, e)
	}
	return m, r.Done()
}

// restoreRows replaces a store's rows with the rows of a copy.
func restoreRows(s *store.Hash, rows []store.Row) {
	// A row that is not in the copy does not exist at the copy's log position.
	for _, row := range store.Placed(s) {
		s.Delete(row.Key)
	}
	for i := range rows {
		s.Put(rows[i].Key, rows[i].Value, rows[i].Writer)
	}
}
