package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Copy describes one copy of a partition of a quiescent database: see admin.Audit.
type Copy struct {
	// Name is the name of the node with the copy.
	Name string
	// Partition is -1 for the rows that every node stores.
	Partition int
	Digest    uint64
	Rows      int64
	Sums      map[string]int64
}

// Converged checks that all copies of each partition are equal. It describes how a copy differs from the first copy of
// its partition. Copies may be in any order.
func Converged(copies []Copy) workload.Check {
	c := workload.Check{Name: "convergence", Passed: len(copies) > 0, Message: workload.NoCopy}
	first := map[int]*Copy{}
	var wrong []string
	for i := range copies {
		b := &copies[i]
		a := first[b.Partition]
		if a == nil {
			first[b.Partition] = b
			continue
		}
		var differs []string
		if a.Rows != b.Rows {
			differs = append(differs, fmt.Sprintf("%d rows, not %d", b.Rows, a.Rows))
		}
		for _, name := range workload.SumNames(a.Sums, b.Sums) {
			if x, y := a.Sums[name], b.Sums[name]; x != y {
				differs = append(differs, fmt.Sprintf("%s %d, not %d", name, y, x))
			}
		}
		// The digest is the most precise comparison, but it cannot describe a difference, so it is reported only if counts
		// and sums agree.
		if len(differs) == 0 && a.Digest != b.Digest {
			differs = append(differs, "other values or other rows")
		}
		if len(differs) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s differs from %s: %s", b.Name, a.Name, strings.Join(differs, ", ")))
		}
	}
	switch {
	case len(wrong) > 0:
		c.Passed = false
		c.Message = fmt.Sprintf("%d of %d copies differ: %s", len(wrong), len(copies), strings.Join(wrong[:min(len(wrong), 4)], "; "))
	case len(copies) > 0:
		c.Message = agreement(copies)
	}
	return c
}

// agreement describes the number of partitions and of their copies. The rows that every node stores do not count as a
// separate partition.
func agreement(copies []Copy) string {
	n, partitions := 0, map[int]struct{}{}
	for i := range copies {
		if p := copies[i].Partition; p >= 0 {
			n++
			partitions[p] = struct{}{}
		}
	}
	of := fmt.Sprintf("%d partitions", len(partitions))
	if len(partitions) == 1 {
		of = "1 partition"
	}
	switch {
	case n > len(partitions):
		return fmt.Sprintf("the %d copies of %s hold the same rows", n, of)
	case n == 1:
		return fmt.Sprintf("the only copy of %s has no other to differ from", of)
	}
	return fmt.Sprintf("the only copies of %s have no others to differ from", of)
}

// Difference is a row that differs between two copies.
type Difference struct {
	Key      txn.Key
	A, B     store.Record
	InA, InB bool
}

// Differences returns the rows that differ between two stores, at most limit, in key order. It considers the rows that
// in accepts; nil accepts all. It compares values, not versions.
func Differences(a, b store.Store, in func(txn.Key) bool, limit int) []Difference {
	var out []Difference
	note := func(k txn.Key) {
		if in != nil && !in(k) {
			return
		}
		x, inA := a.Get(k)
		y, inB := b.Get(k)
		if inA != inB || string(x.Value) != string(y.Value) {
			out = append(out, Difference{k, x, y, inA, inB})
		}
	}
	a.Each(func(k txn.Key, _ store.Record) { note(k) })
	b.Each(func(k txn.Key, _ store.Record) {
		// Rows in both stores were compared in the first pass.
		if _, inA := a.Get(k); !inA {
			note(k)
		}
	})
	slices.SortFunc(out, func(x, y Difference) int { return strings.Compare(string(x.Key), string(y.Key)) })
	return out[:min(len(out), limit)]
}
