package coco

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

func grouped(n int) txn.Key { return simload.GroupKey(1, uint8(n)) }

// ofThree returns the rows of an epoch that starts with the rows 2, 4 and 6 of a group.
func ofThree() *rows {
	e := newRows(store.NewHash(), true, none)
	for _, n := range []int{2, 4, 6} {
		e.store.Put(grouped(n), []byte{byte(n)}, 0)
	}
	return &e
}

// A scan is valid while its range has the same rows in the same versions.
func TestScansAreValidated(t *testing.T) {
	for name, tc := range map[string]struct {
		write []txn.WriteEntry
		want  Verdict
	}{
		"nothing is written":          {nil, Valid},
		"another row is written":      {[]txn.WriteEntry{{Key: grouped(9)}}, Valid},
		"its first row is written":    {[]txn.WriteEntry{{Key: grouped(2), Value: []byte{7}}}, ReadChanged},
		"its last row is written":     {[]txn.WriteEntry{{Key: grouped(6), Value: []byte{7}}}, ReadChanged},
		"its last row is deleted":     {[]txn.WriteEntry{{Key: grouped(6), Deleted: true}}, ReadChanged},
		"its first row is deleted":    {[]txn.WriteEntry{{Key: grouped(2), Deleted: true}}, ReadChanged},
		"a row comes behind its last": {[]txn.WriteEntry{{Key: grouped(7)}}, ReadChanged},
		"a row comes in between":      {[]txn.WriteEntry{{Key: grouped(3)}}, ReadChanged},
	} {
		e := ofThree()
		scan := ExpectedRange{Range: txn.Range{From: grouped(0), To: grouped(9)}}
		for _, n := range []int{2, 4, 6} {
			scan.Rows = append(scan.Rows, Expected{Key: grouped(n), Known: true})
		}
		e.write(run{1, 1}, 7, 3, tc.write)
		if v := e.validate(run{0, 1}, 5, nil, []ExpectedRange{scan}); v != tc.want {
			t.Errorf("%s: %v, want %v", name, v, tc.want)
		}
	}
}

// A scan returns each row once: the version of the epoch, or else the committed version.
func TestScansMeetTheEpoch(t *testing.T) {
	e := ofThree()
	e.write(run{1, 1}, 7, 3, []txn.WriteEntry{{Key: grouped(2), Deleted: true}, {Key: grouped(4), Value: []byte{14}}, {Key: grouped(5), Value: []byte{15}}})
	type met struct {
		value   byte
		version uint64
	}
	all := []met{{14, 3}, {15, 3}, {6, 0}}
	for name, tc := range map[string]struct {
		limit   int
		reverse bool
		want    []met
	}{
		"all":          {0, false, all},
		"backwards":    {0, true, []met{all[2], all[1], all[0]}},
		"the first":    {1, false, all[:1]},
		"the first 3":  {3, false, all},
		"the last two": {2, true, []met{all[2], all[1]}},
	} {
		found, versions := e.read([]txn.Range{{From: grouped(0), To: grouped(9), Limit: tc.limit, Reverse: tc.reverse}})
		var got []met
		for i, w := range found[0] {
			got = append(got, met{w.Value[0], versions[i]})
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A scan with a limit skips rows that the epoch has deleted and continues after them.
func TestScansMeetTheirLimit(t *testing.T) {
	e := ofThree()
	e.write(run{1, 1}, 7, 3, []txn.WriteEntry{{Key: grouped(2), Deleted: true}, {Key: grouped(4), Deleted: true}})
	for limit, want := range map[int]int{1: 1, 2: 1} {
		found, _ := e.read([]txn.Range{{From: grouped(0), To: grouped(9), Limit: limit}})
		if len(found[0]) != want || found[0][0].Value[0] != 6 {
			t.Errorf("of a row that is left a scan with limit %d meets %v", limit, found[0])
		}
	}
}

// A write gets a later timestamp than every scan that covers its row, in any order of the scans.
func TestScansAreNoted(t *testing.T) {
	type scan struct {
		from, to int
		at       uint64
	}
	for name, tc := range map[string]struct {
		scans []scan
		want  map[int]uint64 // by row, the time up to which it was read
	}{
		"again, later":         {[]scan{{0, 9, 5}, {0, 9, 8}}, map[int]uint64{3: 8}},
		"again, earlier":       {[]scan{{0, 9, 8}, {0, 9, 5}}, map[int]uint64{3: 8}},
		"a part, later":        {[]scan{{0, 9, 5}, {2, 4, 8}}, map[int]uint64{1: 5, 3: 8, 5: 5}},
		"beyond its end":       {[]scan{{0, 5, 8}, {3, 9, 5}}, map[int]uint64{1: 8, 4: 8, 7: 5}},
		"all around":           {[]scan{{3, 5, 8}, {0, 9, 5}}, map[int]uint64{1: 5, 4: 8, 7: 5}},
		"from where it begins": {[]scan{{3, 5, 5}, {3, 9, 5}}, map[int]uint64{2: 0, 4: 5, 7: 5}},
	} {
		e := ofThree()
		for _, s := range tc.scans {
			e.extend(txn.Range{From: grouped(s.from), To: grouped(s.to)}, s.at)
		}
		for n, want := range tc.want {
			if got := e.readUntil(e.touch(grouped(n))); got != want {
				t.Errorf("%s: row %d was read up to %d, want %d", name, n, got, want)
			}
		}
	}
}

// The rows of a scan are validated in their scanned versions, including rows that the transaction writes.
func TestScannedAndWritten(t *testing.T) {
	for _, ops := range []string{"l1.0-6", "l1.0-6 p1.4=1"} {
		r, w := alone(t, 0)
		r.Receive(0, everybody())
		r.Submit(simload.Txn(txn.MakeID(0, 1), ops))
		found := raftgroup.Found{{Key: grouped(2), Value: make([]byte, 8)}, {Key: grouped(4), Value: make([]byte, 8)}}
		last := func() envelopeTo { return w.sent[len(w.sent)-1] }
		r.Receive(last().to, &Rows{Attempt{r.epoch, 1}, []raftgroup.Found{found}, []uint64{3, 9}})
		if _, locks := last().m.(*Lock); locks {
			r.Receive(last().to, &Locked{Attempt{r.epoch, 1}, Valid, 10})
		}
		m, ok := last().m.(*Validate)
		if !ok || len(m.Ranges) != 1 || len(m.Ranges[0].Rows) != 2 || m.Ranges[0].Rows[0].Version != 3 || m.Ranges[0].Rows[1].Version != 9 {
			t.Errorf("%s: the last message is %v, want one to validate two rows of a scan, in versions 3 and 9", ops, last().m)
		}
	}
}
