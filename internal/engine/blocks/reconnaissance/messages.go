package reconnaissance

import (
	"fmt"

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

// Decode is a protocol.Decoder for the messages of this package.
func Decode(kind uint8, body []byte, procs *txn.Registry) (m protocol.Message, known bool, err error) {
	return decodeMessage(kind, body, procs)
}
