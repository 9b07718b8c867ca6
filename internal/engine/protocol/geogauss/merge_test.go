package geogauss

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
)

// marked returns the verdicts, by transaction, if mark examines the write sets in the given order.
func marked(all []candidate) map[txn.ID]verdict {
	m := merge{r: &Replica{env: &recorder{}}, winners: map[txn.Key]int32{}, candidates: slices.Clone(all)}
	m.mark()
	verdicts := map[txn.ID]verdict{}
	for _, c := range m.candidates {
		verdicts[c.set.ID] = c.verdict
	}
	return verdicts
}

// In every order in which servers examine the write sets of an epoch, the same write sets are committed. No two of
// these write the same row, and the write set that beats all others is among them.
func TestMergeRule(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	committed, aborted := 0, 0
	for i := range 2000 {
		var all []candidate
		for n := range 1 + r.IntN(8) {
			c := candidate{server: geo.NodeID(n), set: &WriteSet{ID: txn.MakeID(1, uint64(n+1)), Start: uint64(r.IntN(3)), Sequence: uint64(r.IntN(3))}}
			for _, row := range r.Perm(6)[:1+r.IntN(3)] {
				c.set.Writes = append(c.set.Writes, txn.WriteEntry{Key: simload.Key(uint64(row))})
			}
			all = append(all, c)
		}
		want := marked(all)
		best, writers := &all[0], map[txn.Key]txn.ID{}
		m := merge{r: &Replica{env: &recorder{}}}
		for j := range all {
			c := &all[j]
			if m.beats(c, best) {
				best = c
			}
			if want[c.set.ID] != wins {
				aborted++
				continue
			}
			committed++
			for _, w := range c.set.Writes {
				if other := writers[w.Key]; other != 0 {
					t.Fatalf("%d: %v and %v are committed, and write %v", i, other, c.set.ID, w.Key)
				}
				writers[w.Key] = c.set.ID
			}
		}
		if want[best.set.ID] != wins {
			t.Fatalf("%d: %v beats all others and is aborted", i, best.set.ID)
		}
		r.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
		if got := marked(all); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%d: verdicts depend on the order: %v, %v", i, got, want)
		}
	}
	if committed < 1000 || aborted < 1000 {
		t.Errorf("%d committed and %d aborted: too few to show anything", committed, aborted)
	}
}

// Each criterion decides if all earlier criteria are equal.
func TestBeats(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b candidate
	}{
		"the later snapshot":        {candidate{set: &WriteSet{Start: 2, Sequence: 9}, server: 2}, candidate{set: &WriteSet{Start: 1, Sequence: 1}}},
		"the lower sequence number": {candidate{set: &WriteSet{Start: 1, Sequence: 1}, server: 2}, candidate{set: &WriteSet{Start: 1, Sequence: 2}}},
		"the lower server":          {candidate{set: &WriteSet{Start: 1, Sequence: 1}}, candidate{set: &WriteSet{Start: 1, Sequence: 1}, server: 1}},
	} {
		m := merge{r: &Replica{env: &recorder{}}}
		if !m.beats(&tc.a, &tc.b) || m.beats(&tc.b, &tc.a) {
			t.Errorf("%s does not win", name)
		}
	}
}

// A write set is aborted when a row of it was changed or deleted after its snapshot. It is also aborted when its
// snapshot is too old to determine that.
func TestFirstCommitterWins(t *testing.T) {
	rows := store.NewNewest()
	changed, gone, same := simload.Key(1), simload.Key(2), simload.Key(3)
	rows.Put(changed, store.Record{Version: 5})
	rows.Put(gone, store.Record{Version: 4})
	rows.Delete(gone, 6, 1)
	rows.Put(same, store.Record{Version: 3})
	for name, tc := range map[string]struct {
		key    txn.Key
		start  uint64
		number uint64
		want   verdict
	}{
		"changed behind it":       {changed, 4, 7, changedRow},
		"changed before it":       {changed, 5, 7, wins},
		"deleted behind it":       {gone, 5, 7, changedRow},
		"deleted before it":       {gone, 6, 7, wins},
		"not changed":             {same, 3, 7, wins},
		"as old as it may be":     {same, 5, 5 + keptSnapshots, wins},
		"older than it may be":    {same, 5, 6 + keptSnapshots, tooOld},
		"a row that nobody wrote": {simload.Key(9), 0, 7, wins},
	} {
		t.Run(name, func(t *testing.T) {
			m := merge{r: &Replica{env: &recorder{}, store: rows}, snapshot: true, number: tc.number, kept: keptSnapshots}
			m.candidates = []candidate{{set: &WriteSet{Start: tc.start, Writes: []txn.WriteEntry{{Key: tc.key}}}}}
			if m.validate(); m.candidates[0].verdict != tc.want {
				t.Errorf("verdict %d, want %d", m.candidates[0].verdict, tc.want)
			}
		})
	}
}

// Resolve refuses invalid values, and names the parameter.
func TestParameters(t *testing.T) {
	for name, value := range map[string]string{"epoch": "0s", "acks": "majority", "isolation": "Serializable", "heartbeat": "1ms"} {
		if _, errs := Engine.Resolve(map[string]string{name: value}); len(errs) != 1 || errs[0].Name != name {
			t.Errorf("%s: %s is answered with %v", name, value, errs)
		}
	}
	if p, errs := Engine.Resolve(map[string]string{"acks": acksNone}); len(errs) > 0 || len(tolerates(simload.ThreeRegions(1), p).Regions) > 0 {
		t.Errorf("without acknowledgements it survives the loss of a region (%v)", errs)
	}
}
