package rerun

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

func group(n int) txn.Key         { return txn.OrderedKey(1, uint64(n), nil, nil) }
func member(n, row int) txn.Key   { return group(n) + txn.Key(byte(row)) }
func plain(n int) txn.Key         { return txn.IntKey(2, uint64(n)) }
func everywhere(n int) txn.Key    { return txn.EverywhereKey(3, []byte{byte(n)}) }
func value(b []byte) int          { return int(b[0]) }
func bytesOf(n int) []byte        { return []byte{byte(n)} }
func prefix(n int) txn.Range      { return txn.Prefix(group(n)) }
func first(r txn.Range) txn.Range { r.Limit = 1; return r }

// wander chooses its accesses by the seed in its arguments and by the values that it reads. It therefore touches rows
// that cannot be known beforehand, including rows that it has written.
func wander(c txn.Ctx, args []byte) ([]byte, error) {
	r := rand.New(rand.NewPCG(uint64(args[0]), uint64(args[1])))
	var seen []byte
	met := 0
	for range 3 + r.IntN(12) {
		at := (met + r.IntN(8)) % 8
		switch r.IntN(9) {
		case 0, 1:
			v, err := c.Get(plain(at))
			if err != nil && err != txn.ErrNotFound {
				return nil, err
			}
			if err == nil {
				met += value(v)
			}
			seen = append(seen, v...)
		case 2:
			c.Put(plain(at), bytesOf(met))
		case 3:
			c.Delete(plain(at))
		case 4:
			c.Put(member(at%2, at), bytesOf(met))
		case 5:
			c.Delete(member(at%2, at))
		case 6:
			g := txn.Range{From: member(at%2, at/2), To: member(at%2, at+1), Reverse: r.IntN(2) == 0, Limit: r.IntN(4)}
			if err := c.Scan(g, func(k txn.Key, v []byte) bool {
				seen = append(seen, k[len(k)-1], v[0])
				met += value(v)
				return true
			}); err != nil {
				return nil, err
			}
		case 7:
			values, err := c.GetAll([]txn.Key{plain(at), plain(at + 1), member(at%2, at), everywhere(at)})
			if err != nil {
				return nil, err
			}
			for _, v := range values {
				seen = append(seen, v...)
			}
		case 8:
			v, err := c.Get(everywhere(at))
			if err != nil && err != txn.ErrNotFound {
				return nil, err
			}
			seen = append(seen, v...)
		}
	}
	if met%7 == 6 {
		return nil, txn.Abort("lost")
	}
	return seen, nil
}

// A task that receives rows step by step has the same result as the procedure with all rows available, regardless of
// the footprint's hints. It requests no row twice, and its footprint is the set of rows that the procedure touched.
func TestTaskIsARun(t *testing.T) {
	procs := txn.NewRegistry(&txn.Procedure{ID: 1, Name: "wander", Run: wander, Declare: func(args []byte, f *txn.Footprint) error {
		r := rand.New(rand.NewPCG(uint64(args[1]), 1))
		f.Add(plain(r.IntN(8)), []txn.Mode{txn.Read, txn.Write, txn.ReadWrite}[r.IntN(3)])
		f.AddScan(first(prefix(r.IntN(2))))
		f.Add(member(r.IntN(2), 3), txn.Write)
		return nil
	}})
	aborted, most := 0, 0
	for seed := range 20_000 {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		s := store.NewHash()
		for i := range 9 {
			if r.IntN(3) > 0 {
				s.Load(plain(i), bytesOf(r.IntN(9)))
			}
			if r.IntN(3) > 0 {
				s.Load(member(i%2, i), bytesOf(r.IntN(9)))
			}
			s.Load(everywhere(i), bytesOf(100+i))
		}
		x := &txn.Transaction{ID: 1, Proc: 1, Args: []byte{byte(seed), byte(seed >> 8)}}
		if err := procs.Prepare(x); err != nil {
			t.Fatal(err)
		}
		view := store.View{Rows: s}
		want, wantErr := wander(&view, x.Args)

		k := New(procs, x, s, r.IntN(2) == 0)
		asked := map[string]bool{}
		for needs := k.Step(); len(needs) > 0; needs = k.Step() {
			for _, n := range needs {
				if asked[n.Range.String()] || n.Range.From.Everywhere() {
					t.Fatalf("seed %d: asks for %v once more", seed, &n.Range)
				}
				asked[n.Range.String()] = true
				if (n.Mode == txn.ReadWrite) != x.Writes(n.Range.From) {
					t.Fatalf("seed %d: asks for %v with mode %d", seed, &n.Range, n.Mode)
				}
				read := Read{Range: n.Range}
				s.Scan(n.Range, func(k txn.Key, rec store.Record) bool {
					read.Rows = append(read.Rows, Row{k, rec})
					return true
				})
				k.Supply(read)
			}
		}
		got, err := k.Result()
		if string(got) != string(want) || err != wantErr {
			t.Fatalf("seed %d: result %v, %v; want %v, %v", seed, got, err, want, wantErr)
		}
		if fmt.Sprint(k.Writes().Entries()) != fmt.Sprint(view.Writes.Entries()) {
			t.Fatalf("seed %d: writes %v, want %v", seed, k.Writes().Entries(), view.Writes.Entries())
		}
		if err != nil {
			aborted++
		}
		most = max(most, k.Runs())
		f := k.Footprint()
		found := &txn.Transaction{ID: 1, Proc: 1, Args: x.Args, Found: true, Footprint: f}
		if err := procs.Prepare(found); err != nil {
			t.Fatalf("seed %d: the footprint found is refused: %v", seed, err)
		}
		for _, read := range k.Reads() {
			if !f.Reads(&read.Range) {
				t.Fatalf("seed %d: the footprint lacks %v", seed, &read.Range)
			}
		}
		for _, w := range k.Writes().Entries() {
			if !f.Writes(w.Key) {
				t.Fatalf("seed %d: the footprint lacks the write of %v", seed, w.Key)
			}
		}
		p := geo.Placement{Regions: 2, Partitions: 2}
		if c := k.Class(p); c != p.Class(f.Accesses) {
			t.Fatalf("class %v, want %v", c, p.Class(f.Accesses))
		}
	}
	if aborted == 0 || most < 8 {
		t.Errorf("%d aborted, at most %d runs: the test does not test", aborted, most)
	}
}

// Rows in the footprint are requested in parallel, before the first run. An interactive client requests rows
// sequentially. A transaction that uses a row outside its exact footprint is aborted, even if the procedure ignores the
// error.
func TestExactFootprints(t *testing.T) {
	scan := func(c txn.Ctx, r txn.Range) error {
		return c.Scan(r, func(txn.Key, []byte) bool { return true })
	}
	for name, tc := range map[string]struct {
		run   func(c txn.Ctx) error
		lying bool
	}{
		"all as declared": {func(c txn.Ctx) error {
			_, err := c.GetAll([]txn.Key{plain(1), plain(2), everywhere(1), member(1, 3)})
			c.Put(plain(2), bytesOf(1))
			c.Put(member(0, 1), bytesOf(1))
			c.Put(member(0, 9), bytesOf(1))
			return errors.Join(err, scan(c, first(prefix(1))))
		}, false},
		"a row":            {func(c txn.Ctx) error { _, err := c.Get(plain(3)); return err }, true},
		"a row, swallowed": {func(c txn.Ctx) error { _, _ = c.Get(plain(3)); return nil }, true},
		"one of several":   {func(c txn.Ctx) error { _, err := c.GetAll([]txn.Key{plain(1), plain(3)}); return err }, true},
		"a longer range":   {func(c txn.Ctx) error { return scan(c, prefix(0)) }, true},
		"a write":          {func(c txn.Ctx) error { c.Put(plain(1), bytesOf(1)); return nil }, true},
		"a delete":         {func(c txn.Ctx) error { c.Delete(member(1, 1)); return nil }, true},
	} {
		for _, interactive := range []bool{false, true} {
			p := &txn.Procedure{ID: 1, Name: name, Run: func(c txn.Ctx, _ []byte) ([]byte, error) { return []byte("done"), tc.run(c) },
				Declare: func(_ []byte, f *txn.Footprint) error {
					f.Add(plain(1), txn.Read)
					f.Add(plain(2), txn.ReadWrite)
					f.Add(group(0), txn.Write)
					f.AddScan(prefix(1))
					f.Exact = true
					return nil
				}}
			x := &txn.Transaction{ID: 7}
			p.Call(x, nil)
			rows := store.NewHash()
			k := New(txn.NewRegistry(p), x, rows, interactive)
			for needs := k.Step(); len(needs) > 0; needs = k.Step() {
				for _, n := range slices.Clone(needs) {
					k.Supply(Read{Range: n.Range})
				}
			}
			result, err := k.Result()
			if lied := errors.Is(err, txn.ErrUndeclared); lied != tc.lying || !lied && string(result) != "done" {
				t.Errorf("%s, interactive %v: %q, %v", name, interactive, result, err)
			}
			if o := txn.AbortOutcome(7, err); tc.lying && o.Reason != txn.ReasonUndeclared {
				t.Errorf("%s: the outcome is %+v", name, o)
			}
		}
	}
}

func TestHints(t *testing.T) {
	procs := txn.NewRegistry(&txn.Procedure{
		ID: 1, Name: "two",
		Declare: func(_ []byte, f *txn.Footprint) error {
			f.Add(plain(1), txn.ReadWrite)
			f.Add(plain(2), txn.Write)
			f.AddScan(prefix(0))
			return nil
		},
		Run: func(c txn.Ctx, _ []byte) ([]byte, error) {
			for _, k := range []txn.Key{plain(1), plain(3), member(0, 1)} {
				if _, err := c.Get(k); err != nil && err != txn.ErrNotFound {
					return nil, err
				}
			}
			c.Put(plain(2), nil)
			return nil, nil
		},
	})
	for interactive, want := range map[bool]string{
		false: "[[t2/1 3 t1/0/[] to 41000000000000000001 1] [t2/3 1]]",
		true:  "[[t2/1 3] [t2/3 1] [t1/0/[]01 1]]",
	} {
		x := &txn.Transaction{ID: 1, Proc: 1}
		if err := procs.Prepare(x); err != nil {
			t.Fatal(err)
		}
		k := New(procs, x, store.NewHash(), interactive)
		var steps [][]string
		for needs := k.Step(); len(needs) > 0; needs = k.Step() {
			var step []string
			for _, n := range slices.Clone(needs) {
				step = append(step, n.Range.String(), fmt.Sprint(n.Mode))
				k.Supply(Read{Range: n.Range})
			}
			steps = append(steps, step)
		}
		if got := fmt.Sprint(steps); got != want {
			t.Errorf("interactive %v: asks for %s, want %s", interactive, got, want)
		}
	}
}
