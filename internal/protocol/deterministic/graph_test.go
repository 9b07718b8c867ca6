package deterministic

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/txn"
)

// queueOf makes a queue of requests for one key from words like r1 and w2: transactions 1 and 2, of which members belong to
// the deadlock.
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

// The members come together in their order, behind those that they wait for and ahead of those that wait for them; a ! is
// a lock that is granted.
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
			for q := l.head; q != nil; q = q.next {
				if want := map[bool]int{true: 0, false: 1}[q.granted]; q.owner.waitLocks != want {
					t.Errorf("a transaction waits for %d locks, want %d", q.owner.waitLocks, want)
				}
			}
		})
	}
}

// The edges of a queue: 2<1 says that 2 is right behind 1. A transaction in brackets lacks parts: it is no vertex, and
// those right behind it, marked by ?, are not stable.
func TestGraphEdges(t *testing.T) {
	for name, tc := range map[string]struct{ queue, incomplete, want string }{
		"writers":                            {"w1 w2 w3", "", "2<1 3<2"},
		"readers behind a writer":            {"w1 r2 r3", "", "2<1 3<1"},
		"a writer behind readers":            {"w1 r2 r3 w4 r5", "", "2<1 3<1 4<2 4<3 5<4"},
		"readers only":                       {"r1 r2", "", ""},
		"behind an incomplete writer":        {"w1 w2 r3 w4", "2", "3? 4<3"},
		"behind an incomplete reader":        {"w1 r2 w3", "2", "3?"},
		"behind readers, one incomplete":     {"r1 r2 w3 w4", "2", "3? 3<1 4<3"},
		"an incomplete one does not matter":  {"w1 w2", "2", ""},
		"an incomplete reader beside others": {"r1 r2 r3", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, all, l := queueOf(tc.queue, "")
			x := &Executor{}
			var vertices []Vertex
			var names []string
			for q := l.head; q != nil; q = q.next {
				for name, e := range all {
					if e != q.owner {
						continue
					}
					if name == tc.incomplete {
						e.needed = 1
					} else {
						e.vertex = int32(len(vertices))
						vertices = append(vertices, Vertex{Stable: true})
						names = append(names, name)
					}
				}
			}
			x.addEdges(vertices, l)
			var got []string
			for i, v := range vertices {
				if !v.Stable {
					got = append(got, names[i]+"?")
				}
				for _, a := range v.After {
					got = append(got, fmt.Sprintf("%s<%s", names[i], names[a]))
				}
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
		})
	}
}
