package coco

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func regions(n int) *geo.Topology {
	delays := make([][]float64, n)
	for i := range delays {
		delays[i] = make([]float64, n)
	}
	return simload.Topology(1, 1, delays)
}

// CheckTopology refuses topologies with fewer than 2f+1 regions. The error names the values that would be valid.
func TestTopologies(t *testing.T) {
	for _, tc := range []struct {
		regions int
		f       string
		most    int
		want    string
	}{
		{1, "0", 0, ""},
		{2, "Auto", 0, ""},
		{2, "0", 0, ""},
		{3, "1", 1, ""},
		{5, "2", 2, ""},
		{6, "Auto", 2, ""},
		{2, "1", 0, "spec.regions: 2: coco elects its coordinator among 2f+1 regions or more, which are 3 with spec.engine.parameters.f 1: " +
			"add regions, or make f at most 0"},
		{4, "2", 0, "spec.regions: 4: coco elects its coordinator among 2f+1 regions or more, which are 5 with spec.engine.parameters.f 2: " +
			"add regions, or make f at most 1"},
	} {
		p := protocoltest.Params(t, Engine, map[string]string{"f": tc.f})
		got := ""
		if err := Engine.Accepts(regions(tc.regions), p); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%d regions with f %s: %q, want %q", tc.regions, tc.f, got, tc.want)
		}
		if s := Engine.Tolerance(regions(tc.regions), p); tc.want == "" && s.Most != tc.most {
			t.Errorf("%d regions with f %s survive the loss of %d", tc.regions, tc.f, s.Most)
		}
	}
}

// Resolve refuses unknown parameters and invalid values, and names the parameter.
func TestRefusedParameters(t *testing.T) {
	for name, value := range map[string]string{
		"epoch": "0s", "f": "4", "copies": "Some", "concurrency": "Optimistic", "retry": "Never", "interactive": "yes", "heartbeat": "1ms", "wait": "1s",
	} {
		if _, errs := Engine.Resolve(map[string]string{name: value}); len(errs) != 1 || errs[0].Name != name {
			t.Errorf("%s %s: %v", name, value, errs)
		}
	}
}

// A cell is held by all regions, or by its home and the regions that follow. The first node of its home region is the
// primary.
func TestPlace(t *testing.T) {
	for copies, want := range map[string][]geo.NodeID{"All": {3, 0, 1, 2, 4}, "Majority": {3, 0, 4}} {
		l := place(regions(5), protocoltest.Params(t, Engine, map[string]string{"copies": copies, "f": "1"}))
		if got := l.Group(3); got.Leader != 3 || !slices.Equal(got.Members, want) {
			t.Errorf("copies %s: %v, want %v", copies, got, want)
		}
	}
}

func known(k txn.Key, version uint64) []Expected {
	return []Expected{{Key: k, Version: version, Known: true}}
}

// A row is locked by one transaction at a time, and only in the version that the transaction has read. The new version
// has a later time than all known reads of the row.
func TestLocksAndClocks(t *testing.T) {
	k := simload.Key(1)
	a, b := run{0, 1}, run{1, 1}
	for name, tc := range map[string]struct {
		logical bool
		want    Verdict // verdict for a reader at time 3 of a locked row
		least   uint64  // earliest time at which a row that was read at time 3 may be written
	}{
		"logical":  {true, ReadLocked, 4},
		"physical": {false, ReadLocked, 1},
	} {
		t.Run(name, func(t *testing.T) {
			e := newRows(store.NewHash(), tc.logical, none)
			if v := e.validate(a, 3, known(k, 0), nil); v != Valid {
				t.Errorf("a row that nobody has locked: %v", v)
			}
			if v, least := e.lock(b, known(k, 0)); v != Valid || least != tc.least {
				t.Errorf("locking it: %v at %d, want %d", v, least, tc.least)
			}
			if v, _ := e.lock(a, known(k, 0)); v != LockHeld {
				t.Errorf("locking it again: %v", v)
			}
			if v := e.validate(a, 5, known(k, 0), nil); v != tc.want {
				t.Errorf("reading it later: %v", v)
			}
			if v := e.validate(a, 3, known(k, 0), nil); (v == Valid) != tc.logical {
				t.Errorf("reading it at a time up to which it was read: %v", v)
			}
			e.write(b, 7, 9, []txn.WriteEntry{{Key: k, Value: []byte("v")}})
			e.write(b, 6, 8, []txn.WriteEntry{{Key: k, Value: []byte("older")}})
			if v := e.validate(a, 9, known(k, 0), nil); v != ReadChanged {
				t.Errorf("reading what it was: %v", v)
			}
			if v, _ := e.lock(a, known(k, 0)); v != WriteChanged {
				t.Errorf("locking what it was: %v", v)
			}
			if v, least := e.lock(a, []Expected{{Key: k}}); v != Valid || least != 10 {
				t.Errorf("locking it whatever it is: %v at %d", v, least)
			}
			if _, there := e.store.Get(k); there {
				t.Error("the store has the row before the epoch is committed")
			}
			e.commit()
			if rec, there := e.store.Get(k); !there || string(rec.Value) != "v" || rec.Writer != 7 || e.dirty() {
				t.Errorf("the epoch left %v, %v", rec, there)
			}
		})
	}
}

// A range read stays valid while the rows in the range are unchanged. A later insert into the range gets a higher
// timestamp than the reads of that range.
func TestRanges(t *testing.T) {
	key := func(n int) txn.Key { return simload.GroupKey(1, uint8(n)) }
	e := newRows(store.NewHash(), true, none)
	for _, n := range []int{2, 4, 6} {
		e.store.Put(key(n), []byte{byte(n)}, 0)
	}
	first := txn.Range{From: key(0), To: key(9), Limit: 2}
	read := func(r txn.Range) ExpectedRange {
		found, versions := e.read([]txn.Range{r})
		x := ExpectedRange{Range: r}
		for i, w := range found[0] {
			x.Rows = append(x.Rows, Expected{Key: w.Key, Version: versions[i], Known: true})
		}
		return x
	}
	two := read(first)
	if v := e.validate(run{0, 1}, 5, nil, []ExpectedRange{two}); v != Valid || len(two.Rows) != 2 {
		t.Fatalf("%v: %v", two, v)
	}
	// Rows after the last row that the limit allows were not read.
	for n, want := range map[int]uint64{3: 6, 4: 6, 5: 1} {
		x := run{1, uint64(n)}
		if v, least := e.lock(x, []Expected{{Key: key(n)}}); v != Valid || least != want {
			t.Errorf("row %d may be written at %d, want %d: %v", n, least, want, v)
		}
		e.unlock(x)
	}
	x := run{1, 9}
	e.lock(x, []Expected{{Key: key(3)}})
	if v := e.validate(run{0, 2}, 9, nil, []ExpectedRange{two}); v != ReadLocked {
		t.Errorf("a range that a row may come into: %v", v)
	}
	e.write(x, 7, 6, []txn.WriteEntry{{Key: key(3), Value: []byte{3}}, {Key: key(6), Deleted: true}})
	if v := e.validate(run{0, 3}, 5, nil, []ExpectedRange{two}); v != ReadChanged {
		t.Errorf("a range that a row has come into: %v", v)
	}
	if all := read(txn.Range{From: key(0), To: key(9), Reverse: true, Limit: 2}); len(all.Rows) != 2 || all.Rows[0].Key != key(4) || all.Rows[1].Key != key(3) {
		t.Errorf("the last two rows are %v", all.Rows)
	}
}
