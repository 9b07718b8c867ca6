package locallog

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
)

// Parts of a batch with a time are sorted by time and then by ID; other entries keep their indexes.
func TestSortTimed(t *testing.T) {
	entry := func(id txn.ID, notBefore int) Entry {
		return Entry{Txn: &txn.Transaction{ID: id}, notBefore: time.Duration(notBefore)}
	}
	for name, tc := range map[string]struct {
		batch []Entry
		want  []txn.ID
	}{
		"nothing":        {nil, nil},
		"without a time": {[]Entry{entry(3, 0), entry(1, 0), entry(2, 0)}, []txn.ID{3, 1, 2}},
		"in order":       {[]Entry{entry(3, 1), entry(1, 2), entry(2, 3)}, []txn.ID{3, 1, 2}},
		"late":           {[]Entry{entry(1, 5), entry(2, 6), entry(3, 4)}, []txn.ID{3, 1, 2}},
		"at one time":    {[]Entry{entry(9, 5), entry(7, 5), entry(8, 5)}, []txn.ID{7, 8, 9}},
		"others between": {[]Entry{entry(10, 0), entry(1, 5), entry(11, 0), entry(2, 3), entry(12, 0), entry(3, 4)}, []txn.ID{10, 2, 11, 3, 12, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Log{batch: tc.batch}
			l.sortTimed()
			var got []txn.ID
			for _, e := range l.batch {
				got = append(got, e.Txn.ID)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
