package deterministic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
)

// queueOf builds a key's queue of requests from words like r1 and w2, where transaction 1 reads and transaction 2
// writes. The parameter members lists the transactions that belong to the deadlock.
func queueOf(requests, members string) (*lockTable, map[string]*execution, *lock) {
	table := newLockTable()
	key := txn.IntKey(0, 1)
	all := map[string]*execution{}
	for i, m := range strings.Fields(members) {
		all[m] = &execution{t: &txn.Transaction{}, member: true, vertex: int32(i)}
	}
	for word := range strings.FieldsSeq(requests) {
		e := all[word[1:]]
		if e == nil {
			e = &execution{t: &txn.Transaction{}}
			all[word[1:]] = e
		}
		if !table.acquire(e, key, word[0] == 'w') {
			e.waitLocks++
		}
	}
	return &table, all, table.locks[key]
}

func show(all map[string]*execution, l *lock) string {
	names := map[*execution]string{}
	for name, e := range all {
		names[e] = name
	}
	var words []string
	for q := l.head; q != nil; q = q.next {
		word := "r"
		if q.write {
			word = "w"
		}
		word += names[q.owner]
		if q.granted {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// After the reordering, the members are contiguous and in the given order. They are after the requests that they wait
// for, and before the requests that wait for them. A ! marks a granted lock.
func TestReorderQueue(t *testing.T) {
	for name, tc := range map[string]struct{ queue, members, want string }{
		"two writers":                        {"w2 w1", "1 2", "w1! w2"},
		"already in order":                   {"w1 w2", "1 2", "w1! w2"},
		"others wait for the first":          {"w9 w2 w1", "1 2", "w9! w1 w2"},
		"others wait behind":                 {"w2 w1 w9", "1 2", "w1! w2 w9"},
		"a reader that a member waits for":   {"r2 r9 w1", "1 2", "r9! w1 r2"},
		"a reader that waits for a member":   {"w2 r9 r1", "1 2", "r1! w2 r9"},
		"a reader behind one that waits":     {"r2 w9 r8 r1", "1 2", "r1! r2! w9 r8"},
		"readers share whatever their order": {"r2 r1 r9", "1 2", "r9! r1! r2!"},
		"three in a ring":                    {"w3 w1 w2", "1 2 3", "w1! w2 w3"},
		"only one of the members is here":    {"w9 w2 w8", "2", "w9! w2 w8"},
	} {
		t.Run(name, func(t *testing.T) {
			_, all, l := queueOf(tc.queue, tc.members)
			l.reorder()
			l.regrant(func(e *execution) { e.waitLocks-- })
			if got := show(all, l); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if l.tail.next != nil {
				t.Error("the tail is not the last one")
			}
			for q, prev, writer := l.head, (*request)(nil), (*request)(nil); q != nil; q, prev = q.next, q {
				if q.prev != prev || !q.granted && !q.write && q.writer != writer {
					t.Error("the queue is not what its requests say")
				}
				if q.write {
					writer = q
				}
				if want := map[bool]int{true: 0, false: 1}[q.granted]; q.owner.waitLocks != want {
					t.Errorf("a transaction waits for %d locks, want %d", q.owner.waitLocks, want)
				}
			}
		})
	}
}

// The test shows the edges of a queue: 2<1 means that 2 is directly after 1. A transaction with missing parts is
// reported later, but the transactions after it name it. No transaction waits for a reordered transaction.
func TestGraphEdges(t *testing.T) {
	for name, tc := range map[string]struct{ queue, incomplete, reordered, want string }{
		"writers":                            {"w1 w2 w3", "", "", "1 2<1 3<2"},
		"readers behind a writer":            {"w1 r2 r3", "", "", "1 2<1 3<1"},
		"a writer behind readers":            {"w1 r2 r3 w4 r5", "", "", "1 2<1 3<1 4<2 4<3 5<4"},
		"readers only":                       {"r1 r2", "", "", "1 2"},
		"behind an incomplete writer":        {"w1 w2 r3 w4", "2", "", "1 3<2 4<3"},
		"behind an incomplete reader":        {"w1 r2 w3", "2", "", "1 3<2"},
		"behind readers, one incomplete":     {"r1 r2 w3 w4", "2", "", "1 3<1 3<2 4<3"},
		"an incomplete one does not matter":  {"w1 w2", "2", "", "1"},
		"an incomplete reader beside others": {"r1 r2 r3", "1", "", "2 3"},
		"behind one that has its turn":       {"w1 w2 r3", "", "2", "1 3"},
		"behind a reader that has its turn":  {"r1 r2 w3", "", "1", "2 3<2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, all, _ := queueOf(tc.queue, "")
			x := &Executor{c: Config{Reorderable: true}, partitions: 2}
			for i := range 10 {
				e := all[fmt.Sprint(i)]
				if e == nil {
					continue
				}
				e.at = Place{Index: uint64(i)}
				e.reordered = fmt.Sprint(i) == tc.reordered
				if fmt.Sprint(i) == tc.incomplete {
					e.needed = 1
				}
				x.completed(e)
			}
			vertices, _ := x.Graph()
			var got []string
			for _, v := range vertices {
				slices.SortFunc(v.After, func(a, b Place) int { return int(a.Index) - int(b.Index) })
				for _, a := range v.After {
					got = append(got, fmt.Sprintf("%d<%d", v.Index, a.Index))
				}
				if len(v.After) == 0 {
					got = append(got, fmt.Sprint(v.Index))
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
			if again, _ := x.Graph(); len(again) > 0 || x.Waiting() {
				t.Errorf("%v is told twice", again)
			}
		})
	}
}

// If Graph has named a transaction, it later reports that the transaction has finished, even if the transaction was
// never a vertex itself.
func TestGraphNamesWhatIsOver(t *testing.T) {
	table, all, _ := queueOf("w1 w2 w3", "")
	x := &Executor{c: Config{Reorderable: true}, partitions: 2, locks: *table}
	for i, name := range []string{"1", "2", "3"} {
		e := all[name]
		e.x, e.at, e.t = x, Place{Index: uint64(i + 1)}, &txn.Transaction{Footprint: txn.Footprint{Accesses: []txn.Access{{Key: txn.IntKey(0, 1)}}}}
		e.slots = []slot{{local: true}}
	}
	x.completed(all["2"]) // Graph does not report transactions 1 and 3; 2 waits for 1
	x.Graph()
	for i, name := range []string{"1", "2", "3"} {
		all[name].release()
		_, over := x.Graph()
		if want := name != "3"; (len(over) == 1 && over[0].Index == uint64(i+1)) != want {
			t.Errorf("%s has ended: %v", name, over)
		}
	}
}
