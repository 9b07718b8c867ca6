package reconnaissance

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds, shared by all engines that use the package. The other kinds from 240 on belong to packages consensus,
// batchlog, deterministic and locallog.
const (
	KindLook = 250 + iota
	KindSeen
)

// Look asks a node of the same copy for the contents of ranges.
type Look struct{ For []LookFor }

// LookFor is a coordinator's request for one transaction.
type LookFor struct {
	ID txn.ID
	// Look is the number of the transaction's reconnaissance, from 1.
	Look   uint64
	Ranges []txn.Range
}

// Kind implements protocol.Message.
func (m *Look) Kind() uint8 { return KindLook }

// Size implements protocol.Message.
func (m *Look) Size() int {
	n := codec.SizeUvarint(uint64(len(m.For)))
	for i := range m.For {
		n += codec.SizeID(m.For[i].ID) + codec.SizeUvarint(m.For[i].Look) + codec.SizeRanges(m.For[i].Ranges)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Look) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.For)))
	for i := range m.For {
		b = codec.AppendUvarint(codec.AppendID(b, m.For[i].ID), m.For[i].Look)
		b = codec.AppendRanges(b, m.For[i].Ranges)
	}
	return b
}

func (m *Look) String() string {
	s := "look:"
	for _, q := range m.For {
		s += fmt.Sprintf(" t%v", q.ID)
		for i := range q.Ranges {
			s += fmt.Sprintf(" %v", &q.Ranges[i])
		}
	}
	return s
}

// Seen answers a Look.
type Seen struct{ For []SeenFor }

// SeenFor answers a LookFor.
type SeenFor struct {
	ID    txn.ID
	Look  uint64
	Reads []SeenRange
}

// SeenRange is a range with its rows.
type SeenRange struct {
	Range txn.Range
	Rows  []txn.Row
}

// Kind implements protocol.Message.
func (m *Seen) Kind() uint8 { return KindSeen }

// Size implements protocol.Message.
func (m *Seen) Size() int {
	n := codec.SizeUvarint(uint64(len(m.For)))
	for i := range m.For {
		s := &m.For[i]
		n += codec.SizeID(s.ID) + codec.SizeUvarint(s.Look) + codec.SizeUvarint(uint64(len(s.Reads)))
		for j := range s.Reads {
			n += codec.SizeRange(&s.Reads[j].Range) + codec.SizeRows(s.Reads[j].Rows)
		}
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Seen) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.For)))
	for i := range m.For {
		s := &m.For[i]
		b = codec.AppendUvarint(codec.AppendID(b, s.ID), s.Look)
		b = codec.AppendUvarint(b, uint64(len(s.Reads)))
		for j := range s.Reads {
			b = codec.AppendRows(codec.AppendRange(b, &s.Reads[j].Range), s.Reads[j].Rows)
		}
	}
	return b
}

func (m *Seen) String() string {
	s := "seen:"
	for i := range m.For {
		s += fmt.Sprintf(" t%v", m.For[i].ID)
		for j := range m.For[i].Reads {
			s += fmt.Sprintf(" %v (%d)", &m.For[i].Reads[j].Range, len(m.For[i].Reads[j].Rows))
		}
	}
	return s
}

// Decode decodes the package's messages. known is false for a kind of another package.
func Decode(kind uint8, body []byte) (m protocol.Message, known bool, err error) {
	r := codec.NewReader(body)
	switch kind {
	case KindLook:
		l := &Look{}
		// Each element takes at least four bytes. Count rejects a corrupt number before anything is allocated for it.
		if n := r.Count(4); n > 0 {
			l.For = make([]LookFor, n)
		}
		for i := range l.For {
			l.For[i] = LookFor{ID: r.ID(), Look: r.Uvarint(), Ranges: r.Ranges()}
		}
		m = l
	case KindSeen:
		s := &Seen{}
		if n := r.Count(4); n > 0 {
			s.For = make([]SeenFor, n)
		}
		for i := range s.For {
			f := SeenFor{ID: r.ID(), Look: r.Uvarint()}
			if n := r.Count(codec.MinRange + 1); n > 0 {
				f.Reads = make([]SeenRange, n)
			}
			for j := range f.Reads {
				f.Reads[j] = SeenRange{Range: r.Range(), Rows: r.Rows()}
			}
			s.For[i] = f
		}
		m = s
	// The caller tries the decoders of other packages for an unknown kind.
	default:
		return nil, false, nil
	}
	if err := r.Done(); err != nil {
		return nil, true, err
	}
	return m, true, nil
}
