package workloadtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Streams runs n transactions of each of two generators in every region on one database, alternating between the
// generators. It tests that the checks pass with the merged ledgers. For example, they would fail if two streams gave
// two rows the same key.
func Streams(t testing.TB, c *Case, n int) {
	t.Helper()
	w := c.New(suiteSeed)
	d := New(t, c.Procedures...).Load(w, c.Topology)
	if failed := d.Verify(w, d.playStreams(w, n)); len(failed) > 0 {
		t.Errorf("workload %s: two streams in each region: %v", w.Name(), failed)
	}
}

// playStreams runs n transactions of each of two generators in every region, alternating between generators, and
// returns their merged ledgers.
func (d *Database) playStreams(w workload.Workload, n int) workload.Ledger {
	d.t.Helper()
	const streams, clients = 2, 3
	var generators []workload.Generator
	for region := range geo.Region(len(d.topology.Regions)) {
		for i := range streams {
			generators = append(generators, w.NewGenerator(workload.GeneratorConfig{Region: region, Clients: clients, FirstClient: i * clients, RegionClients: streams * clients,
				Stream: uint32(len(generators)), Measured: time.Hour}))
		}
	}
	for i := range n {
		for _, g := range generators {
			tx, _ := d.next(g, i%clients, 0)
			g.Done(i%clients, d.Run(tx))
		}
	}
	d.checkMade()
	ledger := workload.Ledger{}
	for _, g := range generators {
		ledger.Merge(g.Ledger())
	}
	return ledger
}

// Invariants tests that the checks detect wrong rows. It makes one change at a time in each table. It makes the changes
// first after loading, with an empty ledger, and then after n transactions of each of two generators in every region. A
// change deletes a row, alters the first or last byte of a row, or adds a row similar to another row. A check must fail
// for each change, whether the wrong copy is the only, the first or the second copy. Without any copy every check must
// fail, and no two checks may have the same name.
//
// The exceptions in blind are changes that a workload cannot detect, such as "t0 added" or "t2 altered at its end" for
// table 2. Rows that every node stores are skipped, because their comparison is the same for all workloads.
func Invariants(t testing.TB, c *Case, n int, blind ...string) {
	t.Helper()
	w := c.New(suiteSeed)
	d := New(t, c.Procedures...).Load(w, c.Topology)
	known, unnoticed := map[string]bool{}, map[string]bool{}
	ledger := workload.Ledger{}
	for i, when := range []string{"after loading", "after transactions"} {
		if i > 0 {
			ledger = d.playStreams(w, n)
		}
		right := w.Audit(d.Rows())
		checkVerdicts(t, w, ledger, right, when)
		for _, m := range mistakes(d.Hash) {
			known[m.name] = true
			undo := d.Apply(0, []txn.WriteEntry{m.write})
			wrong := w.Audit(d.Rows())
			d.Apply(0, undo)
			for _, copies := range [][]map[string]int64{{wrong}, {wrong, right}, {right, wrong}} {
				if len(failures(w, ledger, copies...)) > 0 {
					continue
				}
				if !unnoticed[m.name] && !slices.Contains(blind, m.name) {
					t.Errorf("workload %s: %s: %s (%s) in one of %d copies is not noticed: no check fails; if none can, give Invariants %q and say why",
						w.Name(), when, m.name, w.KeyName(m.write.Key), len(copies), m.name)
				}
				unnoticed[m.name] = true
			}
		}
	}
	for _, b := range blind {
		switch {
		case !known[b]:
			t.Errorf("workload %s: %s cannot happen", w.Name(), b)
		case !unnoticed[b]:
			t.Errorf("workload %s: %s is noticed, though it is said not to be", w.Name(), b)
		}
	}
}

// checkVerdicts tests that all checks pass on correct rows, and that all checks fail without a copy.
func checkVerdicts(t testing.TB, w workload.Workload, ledger workload.Ledger, right map[string]int64, when string) {
	t.Helper()
	if failed := failures(w, ledger, right); len(failed) > 0 {
		t.Errorf("workload %s: %s: %v", w.Name(), when, failed)
	}
	names := map[string]bool{}
	for _, check := range w.Verify(Copies(right), ledger) {
		if names[check.Name] {
			t.Errorf("workload %s: two checks are called %s: results tell them apart by name", w.Name(), check.Name)
		}
		names[check.Name] = true
	}
	for _, check := range w.Verify(nil, ledger) {
		if check.Passed {
			t.Errorf("workload %s: the check %s passes without any copy (%s): let it fail with workload.NoCopy", w.Name(), check.Name, check.Message)
		}
	}
}

// mistake is a write that makes the database incorrect.
type mistake struct {
	name  string
	write txn.WriteEntry
}

// mistakes returns the changes that Invariants makes: changes of the middle row of each table, and a new row with the
// next unused key.
func mistakes(h *store.Hash) (all []mistake) {
	tables := map[txn.Table][]txn.Key{}
	h.Each(func(k txn.Key, _ store.Record) {
		if !k.Everywhere() {
			tables[k.Table()] = append(tables[k.Table()], k)
		}
	})
	for table, keys := range tables {
		slices.Sort(keys)
		k := keys[len(keys)/2]
		r, _ := h.Get(k)
		add := func(how string, w txn.WriteEntry) {
			all = append(all, mistake{fmt.Sprintf("t%d %s", table, how), w})
		}
		add("deleted", txn.WriteEntry{Key: k, Deleted: true})
		if n := len(r.Value); n > 0 {
			add("altered at its start", txn.WriteEntry{Key: k, Value: flipped(r.Value, 0)})
			add("altered at its end", txn.WriteEntry{Key: k, Value: flipped(r.Value, n-1)})
		}
		add("added", txn.WriteEntry{Key: free(h, k), Value: bytes.Clone(r.Value)})
	}
	slices.SortFunc(all, func(a, b mistake) int { return cmp.Compare(a.name, b.name) })
	return all
}

// flipped returns a copy of value with all bits of byte at inverted.
func flipped(value []byte, at int) []byte {
	v := bytes.Clone(value)
	v[at] ^= 0xff
	return v
}

// free returns the next unused key after k. It increments the bytes after the first byte as a big-endian number.
func free(h *store.Hash, k txn.Key) txn.Key {
	b := []byte(k)
	for {
		for i := len(b) - 1; i > 0; i-- {
			if b[i]++; b[i] != 0 {
				break
			}
		}
		if _, found := h.Get(txn.Key(b)); !found {
			return txn.Key(b)
		}
	}
}
