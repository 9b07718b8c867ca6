package sunstorm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// Name distinguishes a multi-region transaction from other transactions with the same id, since the next run of a
// database reuses ids. It consists of the initiating node and that node's generation. A node starts a new generation
// when it initiates an id that it has already initiated in its current generation. Generations count from 1. If nodes
// cannot be replaced, all transactions have the zero Name.
type Name struct {
	Initiator  geo.NodeID
	Generation uint64 `codec:"min=1"`
}

// firstGeneration returns the first generation of an incarnation, which does not know its predecessor's generation.
func firstGeneration(incarnation uint32) uint64 { return uint64(incarnation)<<20 + 1 }

// names is a set of transactions. Since ids are consecutive, the set uses one bit for each transaction. It keeps two
// generations for each initiator: all transactions end before the next run starts, so no node asks for an older
// generation.
type names struct{ of []generations }

// generations are an initiator's last generation and the generation before.
type generations struct{ last, before generation }

// generation is the set of an initiator's transactions in one generation, with 64 ids in a word.
type generation struct {
	number uint64
	words  map[txn.ID]uint64
}

func (g *generations) at(number uint64) *generation {
	switch {
	// An unused slot also has number 0, but it has no map that set could write to.
	case number == 0:
	case g.last.number == number:
		return &g.last
	case g.before.number == number:
		return &g.before
	}
	return nil
}

func (s *names) add(id txn.ID, n Name) { s.set(id/64, n, 1<<(id%64)) }

// set adds the transactions of one word: bit i of word stands for the transaction with id 64*at+i.
func (s *names) set(at txn.ID, n Name, word uint64) {
	for len(s.of) <= int(n.Initiator) {
		s.of = append(s.of, generations{})
	}
	g := &s.of[n.Initiator]
	switch {
	// This drops the generation before last. All its transactions have ended, so no node asks for them.
	case n.Generation > g.last.number:
		g.last, g.before = generation{n.Generation, map[txn.ID]uint64{}}, g.last
	case n.Generation < g.last.number && n.Generation > g.before.number:
		g.before = generation{n.Generation, map[txn.ID]uint64{}}
	}
	if in := g.at(n.Generation); in != nil {
		in.words[at] |= word
	}
}

func (s *names) has(id txn.ID, n Name) bool {
	if int(n.Initiator) >= len(s.of) {
		return false
	}
	in := s.of[n.Initiator].at(n.Generation)
	return in != nil && in.words[id/64]&(1<<(id%64)) != 0
}

// words returns the total number of words in all generations.
func (s *names) words() (n int) {
	for i := range s.of {
		n += len(s.of[i].last.words) + len(s.of[i].before.words)
	}
	return n
}

func (s *names) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(s.words()))
	for initiator := range s.of {
		for _, g := range []*generation{&s.of[initiator].before, &s.of[initiator].last} {
			// Map order would make the bytes of a copy differ between replays.
			for _, at := range slices.Sorted(maps.Keys(g.words)) {
				n := Name{geo.NodeID(initiator), g.number}
				b = n.appendTo(b)
				b = codec.AppendUint64(codec.AppendUvarint(b, uint64(at)), g.words[at])
			}
		}
	}
	return b
}

// readNames decodes a set that appendTo encoded. It rejects an initiator that is not less than nodes, the number of
// nodes.
func readNames(r *codec.Reader, nodes int) (s names) {
	// A word has at least 11 bytes: one each for the initiator, the generation and the position, and 8 for the bits.
	for range r.Count(11) {
		var n Name
		if n.read(r); r.Err() == nil && int(n.Initiator) >= nodes {
			r.Fail(fmt.Errorf("initiator %d of %d nodes", n.Initiator, nodes))
		}
		at, word := txn.ID(r.Uvarint()), r.Uint64()
		if r.Err() == nil {
			s.set(at, n, word)
		}
	}
	return s
}
