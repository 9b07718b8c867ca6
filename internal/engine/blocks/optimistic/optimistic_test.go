package optimistic_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
)

const rows, groups, groupRows = 12, 2, 10

// overlay is a list of uncommitted versions in key order.
type overlay []optimistic.Written

func (o overlay) Get(k txn.Key) (optimistic.Written, bool) {
	for _, w := range o {
		if w.Key == k {
			return w, true
		}
	}
	return optimistic.Written{}, false
}

func (o overlay) Scan(from, to txn.Key, f func(optimistic.Written) bool) {
	for _, w := range o {
		if from <= w.Key && w.Key < to && !f(w) {
			return
		}
	}
}

// value encodes n as the value of a row.
func value(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// key draws a random key.
func key(r *rand.Rand) txn.Key {
	if r.IntN(2) == 0 {
		return simload.Key(uint64(r.IntN(rows)))
	}
	return simload.GroupKey(uint64(r.IntN(groups)), uint8(r.IntN(groupRows)))
}

// fill writes about half of the rows, with the same content in each store.
func fill(r *rand.Rand, stores ...*store.Hash) {
	for range rows + groups*groupRows {
		k, v := key(r), value(r.IntN(5))
		for _, s := range stores {
			s.Put(k, v, txn.MakeID(9, uint64(1+r.IntN(3))))
		}
	}
}

// operations draws a transaction's operations. Several may access the same group.
func operations(r *rand.Rand) string {
	var ops []string
	first := r.IntN(rows)
	ops = append(ops, fmt.Sprintf("%c%d", "rx"[r.IntN(8)/7], first), fmt.Sprintf("a%d+1", (first+1)%rows), fmt.Sprintf("s%d-2", (first+2)%rows))
	ops = append(ops, fmt.Sprintf("j%d+1", r.IntN(rows)))
	for range r.IntN(6) {
		g, row := r.IntN(groups), r.IntN(groupRows)
		ops = append(ops, []string{
			fmt.Sprintf("g%d.%d+1", g, row), fmt.Sprintf("p%d.%d=1", g, row), fmt.Sprintf("q%d.%d", g, row),
			fmt.Sprintf("l%d.%d-%d", g, row, row+1+r.IntN(5)), fmt.Sprintf("o%d", g), fmt.Sprintf("t%d", g), fmt.Sprintf("e%d+1", g),
		}[r.IntN(7)])
	}
	r.Shuffle(len(ops), func(a, b int) { ops[a], ops[b] = ops[b], ops[a] })
	// Operations on groups come first, followed by the operations on single rows in a fixed order of kinds.
	slices.SortStableFunc(ops, func(a, b string) int { return strings.IndexByte("rxasj", a[0]) - strings.IndexByte("rxasj", b[0]) })
	return strings.Join(ops, " ")
}

// A transaction sees uncommitted rows in place of committed rows, and its own writes in place of both. A store that
// contained the uncommitted rows would give the same reads. The reads stay valid until another transaction changes the
// rows. Until then, another run has the same result.
func TestExecution(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	held, lost := 0, 0
	for i := range 20_000 {
		committed, all := store.NewHash(), store.NewHash()
		seed := r.Uint64()
		fill(rand.New(rand.NewPCG(seed, 1)), committed)
		fill(rand.New(rand.NewPCG(seed, 1)), all)
		var over overlay
		for range r.IntN(8) {
			w := optimistic.Written{WriteEntry: txn.WriteEntry{Key: key(r), Deleted: r.IntN(3) == 0}, Writer: txn.MakeID(8, uint64(1+len(over))), Back: 1}
			if _, twice := over.Get(w.Key); twice {
				continue
			}
			if w.Deleted {
				all.Delete(w.Key)
			} else {
				w.Value = value(5 + r.IntN(5))
				all.Put(w.Key, w.Value, w.Writer)
			}
			over = append(over, w)
		}
		slices.SortFunc(over, func(a, b optimistic.Written) int { return strings.Compare(string(a.Key), string(b.Key)) })
		tx := &txn.Transaction{ID: 1, Proc: 1, Args: []byte(operations(r))}
		if err := simload.Procedures.Prepare(tx); err != nil {
			continue // the footprint contains a single row twice
		}
		x := &optimistic.Execution{Committed: committed, Uncommitted: over}
		result, err := x.Run(simload.Procedures, tx)
		view := &store.View{Rows: all}
		want, wantErr := simload.Procedures.Lookup(1).Run(view, tx.Args)
		if !bytes.Equal(result, want) || !errors.Is(err, wantErr) || !slices.EqualFunc(x.Writes(), view.Writes.Entries(), sameWrite) {
			t.Fatalf("%d: %s gives %s, %v, want %s, %v", i, tx.Args, result, err, want, wantErr)
		}
		reads := x.Reads()
		if !reads.Hold(committed) || reads.Overtaken(committed) {
			t.Fatalf("%d: what %s has read does not hold at once: %+v", i, tx.Args, reads)
		}
		for range 3 {
			if k := key(r); r.IntN(2) == 0 {
				committed.Delete(k)
			} else {
				committed.Put(k, value(20), txn.MakeID(7, 1))
			}
		}
		if reads.Overtaken(committed) && reads.Hold(committed) {
			t.Fatalf("%d: %+v are overtaken, and hold", i, reads)
		}
		if !reads.Hold(committed) {
			lost++
			continue
		}
		held++
		again, err := x.Run(simload.Procedures, tx)
		if !bytes.Equal(again, want) || !errors.Is(err, wantErr) {
			t.Fatalf("%d: what %s has read holds, and it gives %s, %v, and no more %s, %v: %+v", i, tx.Args, again, err, want, wantErr, reads)
		}
	}
	if held < 3000 || lost < 3000 {
		t.Errorf("read sets held %d times and did not %d times: too few to show anything", held, lost)
	}
}

func sameWrite(a, b txn.WriteEntry) bool {
	return a.Key == b.Key && a.Deleted == b.Deleted && bytes.Equal(a.Value, b.Value)
}

// TestHold checks which changes to the rows invalidate a read set.
func TestHold(t *testing.T) {
	for name, tc := range map[string]struct {
		ops       string
		change    func(*store.Hash)
		held      bool
		overtaken bool
	}{
		"nothing changes":                 {"r1", func(*store.Hash) {}, true, false},
		"another row changes":             {"r1", func(s *store.Hash) { s.Put(simload.Key(2), nil, 7) }, true, false},
		"the row changes":                 {"r1", func(s *store.Hash) { s.Put(simload.Key(1), nil, 7) }, false, true},
		"the row goes":                    {"r1", func(s *store.Hash) { s.Delete(simload.Key(1)) }, false, true},
		"a loaded row goes":               {"r0", func(s *store.Hash) { s.Delete(simload.Key(0)) }, false, true},
		"a missing row comes":             {"r5", func(s *store.Hash) { s.Put(simload.Key(5), nil, 7) }, false, false},
		"a row that is only written":      {"w1=2", func(s *store.Hash) { s.Put(simload.Key(1), nil, 7) }, true, false},
		"a row comes into a range":        {"l0.0-9", func(s *store.Hash) { s.Put(simload.GroupKey(0, 4), nil, 7) }, false, false},
		"a row of a range goes":           {"l0.0-9", func(s *store.Hash) { s.Delete(simload.GroupKey(0, 3)) }, false, true},
		"a row of a range changes":        {"l0.0-9", func(s *store.Hash) { s.Put(simload.GroupKey(0, 3), nil, 7) }, false, true},
		"a row comes behind a range":      {"l0.0-4", func(s *store.Hash) { s.Put(simload.GroupKey(0, 4), nil, 7) }, true, false},
		"a row comes behind the first":    {"o0", func(s *store.Hash) { s.Put(simload.GroupKey(0, 4), nil, 7) }, true, false},
		"a row comes before the first":    {"o0", func(s *store.Hash) { s.Put(simload.GroupKey(0, 2), nil, 7) }, false, false},
		"a row comes before the last":     {"t0", func(s *store.Hash) { s.Put(simload.GroupKey(0, 4), nil, 7) }, true, false},
		"a row comes behind the last":     {"t0", func(s *store.Hash) { s.Put(simload.GroupKey(0, 7), nil, 7) }, false, false},
		"a row comes into an empty group": {"o1", func(s *store.Hash) { s.Put(simload.GroupKey(1, 7), nil, 7) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewHash()
			s.Load(simload.Key(0), nil)
			s.Put(simload.Key(1), nil, 6)
			s.Put(simload.GroupKey(0, 3), nil, 6)
			s.Put(simload.GroupKey(0, 6), nil, 6)
			x := &optimistic.Execution{Committed: s}
			if _, err := x.Run(simload.Procedures, simload.Txn(1, tc.ops)); err != nil {
				t.Fatal(err)
			}
			reads := x.Reads()
			tc.change(s)
			if held, overtaken := reads.Hold(s), reads.Overtaken(s); held != tc.held || overtaken != tc.overtaken {
				t.Errorf("holds %v, overtaken %v; want %v, %v: %+v", held, overtaken, tc.held, tc.overtaken, reads)
			}
		})
	}
}

// The use of a row outside the exact footprint is detected. Without an exact footprint, a transaction's class is the
// class of the rows that it used.
func TestFootprints(t *testing.T) {
	s := store.NewHash()
	x := &optimistic.Execution{Committed: s}
	if _, err := x.Run(simload.Procedures, simload.Txn(1, "r1 u2")); !errors.Is(err, txn.ErrUndeclared) {
		t.Errorf("undeclared reads end with %v", err)
	}
	p := geo.Placement{Regions: 2, Partitions: 2}
	for ops, want := range map[string]txn.Class{
		"r1": txn.SingleHomeSinglePartition, "r0 r1": txn.SingleHomeMultiPartition, "r0 r2": txn.MultiHomeSinglePartition,
		"j4+1": txn.SingleHomeSinglePartition, "j6+1": txn.MultiHomeSinglePartition,
	} {
		if _, err := x.Run(simload.Procedures, simload.Txn(1, ops)); err != nil {
			t.Fatal(err)
		}
		if got := x.Class(p); got != want {
			t.Errorf("%s is of class %v, want %v", ops, got, want)
		}
	}
}

// Read sets are the same after encoding and decoding.
func TestCodec(t *testing.T) {
	k := simload.GroupKey(1, 2)
	reads := optimistic.Reads{
		Points: []optimistic.Point{{Key: k, Writer: 3, Back: 4, Absent: true}, {Key: simload.Key(1)}},
		Ranges: []optimistic.Range{{From: k, To: k + "\x00", Rows: []optimistic.Version{{Key: k, Writer: 3}}}},
	}
	b := reads.AppendTo(nil)
	r := codec.NewReader(b)
	if got := optimistic.ReadReads(&r); r.Done() != nil || len(b) != reads.Size() || !reflect.DeepEqual(got, reads) || reads.Len() != 3 {
		t.Errorf("%+v in %d bytes comes back as %+v, %v", reads, len(b), got, r.Err())
	}
}
