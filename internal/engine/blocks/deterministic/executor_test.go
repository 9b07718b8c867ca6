package deterministic

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// scene is the executor of partition 0 in the first of two regions, and its output. Each region has two partitions. The
// executor stores rows 0 and 2. The home of row 0 is the first region, and the home of row 2 is the second region. Rows
// 1 and 3 have the same homes and are in the second partition.
type scene struct {
	x   *Executor
	out []string
}

func newScene(keepLocks, reorderable bool) *scene {
	s := &scene{}
	st := store.NewHash()
	for _, row := range []uint64{0, 2} {
		st.Put(simload.Key(row), binary.BigEndian.AppendUint64(nil, 10), 0)
	}
	s.x = New(Config{
		Self: 0, Layout: simload.TwoRegions(2).Full(), Procedures: simload.Procedures, Store: st, Env: s,
		KeepLocks: keepLocks, Reorderable: reorderable,
		Answer: func(o txn.Outcome) { s.out = append(s.out, fmt.Sprintf("t%v %v %s", o.ID, o.Status, o.Result)) },
	})
	return s
}

func (s *scene) Now() time.Duration                    { return 0 }
func (s *scene) Send(_ geo.NodeID, m protocol.Message) { s.out = append(s.out, fmt.Sprint(m)) }
func (s *scene) After(time.Duration, protocol.Timer)   {}
func (s *scene) Offload(func() int64, protocol.Timer)  {}
func (s *scene) Reply(txn.Outcome)                     {}
func (*scene) Mark(*coverage.Mark)                     {}
func (*scene) Buggify(*buggify.Point) bool             { return false }
func (s *scene) Rand() *rand.Rand                      { return nil }

// said returns the output after the last call of said.
func (s *scene) said() string {
	s.x.Flush()
	out := strings.Join(s.out, "; ")
	s.out = nil
	return out
}

func (s *scene) expect(t *testing.T, step, want string) {
	t.Helper()
	if got := s.said(); got != want {
		t.Errorf("%s: %q, want %q", step, got, want)
	}
}

// hear delivers the reads of the second partition for a transaction.
func (s *scene) hear(id txn.ID, value uint64, reordered bool) {
	s.x.Reads(1, &Reads{
		Reads:  []Read{{PlaceOf(id, 0), 1, reordered, false}},
		Values: []Value{{Bytes: binary.BigEndian.AppendUint64(nil, value), Found: true}},
	})
}

// The test has a deadlock across two partitions: transaction 2 is first here, and transaction 1 is first in the other
// partition. Reads from before the reordering are void, whether they arrive before or after it. Reads from after the
// reordering count, even if they arrive early.
func TestReorderVoidsReads(t *testing.T) {
	for name, early := range map[string]bool{"new reads come in time": false, "new reads come early": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(true, true)
			t1, t2 := simload.Txn(1, "a0+1 a3+1"), simload.Txn(2, "a0+1 a3+1")
			s.x.Part(PlaceOf(2, 0), t2, false, 0, 0, nil)
			s.expect(t, "2 has its lock here", "reads: 0.2=000000000000000a")
			s.x.Part(PlaceOf(1, 0), t1, false, 0, 0, nil)
			s.expect(t, "1 waits for 2", "")
			if early {
				s.hear(1, 99, false)
				s.hear(1, 20, true)
				s.expect(t, "from the past, and from the future", "")
			}
			s.x.Reorder([]Place{PlaceOf(1, 0), PlaceOf(2, 0)})
			if early {
				s.expect(t, "1 has all", "t0.1 committed 0=11 3=21; reads: 0.1=reordered 000000000000000a 0.2=reordered 000000000000000b")
			} else {
				s.expect(t, "1 has its lock instead", "reads: 0.1=reordered 000000000000000a")
				s.hear(1, 99, false)
				s.expect(t, "from the past", "")
				s.hear(1, 20, true)
				s.expect(t, "1 has all", "t0.1 committed 0=11 3=21; reads: 0.2=reordered 000000000000000b")
			}
			s.hear(2, 21, true)
			s.expect(t, "2 has all", "t0.2 committed 0=12 3=22")
			if v, _ := s.x.Graph(); len(v) > 0 || s.x.Waiting() || s.x.Parted() != 0 || !s.x.locks.empty() || len(s.x.running) > 0 {
				t.Error("something is left over")
			}
		})
	}
}

// A transaction runs when the parts of all homes with keys in this partition have their locks. It does not matter in
// which order the parts arrive, or which part contains the whole transaction.
func TestParts(t *testing.T) {
	whole := simload.Txn(7, "a0+1 a2+1")
	locks := func(row uint64) *txn.Transaction {
		return &txn.Transaction{ID: 7, Footprint: txn.Footprint{Accesses: []txn.Access{{Key: simload.Key(row), Mode: txn.ReadWrite}}}}
	}
	const done = "t0.7 committed 0=11 2=11"
	for name, tc := range map[string]struct {
		first, second         *txn.Transaction
		firstHome, secondHome geo.Region
	}{
		"whole, then whole":         {whole, whole, 0, 1},
		"whole, then locks":         {whole, locks(2), 0, 1},
		"locks, then whole":         {locks(2), whole, 1, 0},
		"whole of the second home":  {locks(0), whole, 0, 1},
		"second home's comes first": {whole, locks(0), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(true, false)
			s.x.Part(PlaceOf(7, 0), tc.first, tc.first != whole, 0, tc.firstHome, nil)
			s.expect(t, "one part", "")
			// The row of the second part is still free, but the row of the first part is locked.
			held := []string{"a0+5", "a2+5"}[tc.firstHome]
			s.x.Run(PlaceOf(8, 0), simload.Txn(8, held), 0)
			s.expect(t, "behind the part", "")
			if s.x.LockWaits != 1 || s.x.Parted() != 1 {
				t.Errorf("%d wait for locks, %d are in parts", s.x.LockWaits, s.x.Parted())
			}
			s.x.Part(PlaceOf(7, 0), tc.second, tc.second != whole, 0, tc.secondHome, nil)
			s.expect(t, "both parts", done+"; t0.8 committed "+[]string{"0=16", "2=16"}[tc.firstHome])
			if s.x.Parted() != 0 || !s.x.locks.empty() {
				t.Error("something is left over")
			}
		})
	}
}

// The transaction only reads or only writes at this partition, and writes at the second partition. With one log, this
// partition releases its locks as soon as it has sent its reads. With several logs, it keeps its locks until the second
// partition also has its lock. This applies even to a single-home transaction, which may wait for a multi-home
// transaction at the second partition.
func TestKeepLocks(t *testing.T) {
	behind := simload.Txn(8, "a0+1")
	t.Run("one log", func(t *testing.T) {
		s := newScene(false, false)
		s.x.Run(PlaceOf(7, 0), simload.Txn(7, "r0 a1+1"), 1)
		s.x.Run(PlaceOf(8, 0), behind, 0)
		s.expect(t, "it has let go", "t0.8 committed 0=11; reads: 0.7=000000000000000a")
	})
	for name, tc := range map[string]struct {
		ops   string
		parts bool
	}{
		"single-home, reader here":              {"r0 a1+1", false},
		"multi-home, reader here":               {"r0 a3+1", true},
		"multi-home, writers that read nothing": {"w0=10 w3=1", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(true, false)
			if tc.parts {
				s.x.Part(PlaceOf(7, 0), simload.Txn(7, tc.ops), false, 1, 0, nil)
			} else {
				s.x.Run(PlaceOf(7, 0), simload.Txn(7, tc.ops), 1)
			}
			s.x.Run(PlaceOf(8, 0), behind, 0)
			if got := s.said(); !strings.HasPrefix(got, "reads: 0.7=") {
				t.Errorf("it has its lock here: %q", got)
			}
			s.x.Reads(1, &Reads{Reads: []Read{{Place: PlaceOf(7, 0)}}})
			s.expect(t, "the other partition has its lock", "t0.8 committed 0=11")
			if s.x.Parted() != 0 || !s.x.locks.empty() || len(s.x.running) > 0 {
				t.Error("something is left over")
			}
		})
	}
}

// A transaction that writes a row outside its footprint writes nothing, because it has no lock on that row. Its
// procedure sees no error. If a reconnaissance has found the footprint, another reconnaissance may find the row.
func TestUndeclaredWrites(t *testing.T) {
	for found, want := range map[bool]string{true: "t0.1 refused ", false: "t0.1 aborted "} {
		s := newScene(false, false)
		u := simload.Txn(1, "w0=3 w2=3")
		u.Accesses, u.Found = u.Accesses[:1], found
		s.x.Run(Place{Position: 1}, u, 0)
		s.expect(t, "writes rows 0 and 2, and names 0", want)
		for _, row := range []uint64{0, 2} {
			if r, _ := s.x.c.Store.Get(simload.Key(row)); r.Writer != 0 {
				t.Errorf("found %v: row %d is written", found, row)
			}
		}
	}
}
