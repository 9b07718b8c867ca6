package spanner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
)

// lockTest is a lock table with the transactions that use it. Transactions are named by letters: the later the letter,
// the younger the transaction.
type lockTest struct {
	table   lockTable
	holders map[byte]*holder
	said    []string
}

func newLockTest() *lockTest {
	l := &lockTest{holders: map[byte]*holder{}}
	say := func(what string) func(*holder) {
		return func(h *holder) { l.said = append(l.said, what+" "+string(rune(h.name.Number))) }
	}
	l.table = lockTable{units: map[txn.Key]*unit{}, wound: say("wounded"), contend: say("contended"), ready: say("ready")}
	return l
}

func (l *lockTest) holder(name byte) *holder {
	h := l.holders[name]
	if h == nil {
		h = &holder{name: raftgroup.Name{Number: uint64(name)}, age: Age{Start: uint64(name)}}
		l.holders[name] = h
	}
	return h
}

// do executes a step. With "aS1", transaction a requests a shared lock on row 1, with "aX1" an exclusive lock. "aS1-3"
// requests a lock on rows 1 to 2 of a group, "aX.1" a lock on row 1 of that group. "a!" prepares a, and "a." ends it.
func (l *lockTest) do(step string) {
	h := l.holder(step[0])
	switch what := step[1:]; what {
	case "!":
		h.stage = holding
	case ".":
		l.table.release(h)
		delete(l.holders, step[0])
	default:
		k := &lock{h: h, exclusive: what[0] == 'X'}
		var from, to uint8
		switch {
		case what[1] == '.':
			fmt.Sscanf(what[2:], "%d", &from)
			k.rows = txn.Point(simload.GroupKey(0, from))
		case strings.Contains(what, "-"):
			fmt.Sscanf(what[1:], "%d-%d", &from, &to)
			k.rows = txn.Range{From: simload.GroupKey(0, from), To: simload.GroupKey(0, to)}
		default:
			fmt.Sscanf(what[1:], "%d", &from)
			k.rows = txn.Point(simload.Key(uint64(from)))
		}
		l.table.ask(k)
		if h.missing == 0 {
			l.table.ready(h) // as leaseholders do
		}
	}
	l.table.settle()
}

func TestLocks(t *testing.T) {
	for name, tc := range map[string]struct{ steps, want string }{
		"shared locks go together":                  {"aS1 bS1", "ready a, ready b"},
		"the younger one waits":                     {"aX1 bS1 a.", "ready a, ready b"},
		"the older one wounds":                      {"bX1 aS1", "ready b, wounded b, ready a"},
		"all younger ones are wounded":              {"bS1 cS1 aX1", "ready b, ready c, wounded b, wounded c, ready a"},
		"what is prepared is not wounded":           {"bX1 b! aS1 b.", "ready b, contended b, ready a"},
		"who waits is not passed by conflicts":      {"aS1 bX1 cS1 a. b.", "ready a, ready b, ready c"},
		"an older one passes those that wait":       {"bX1 dX1 cX1 b. c.", "ready b, ready c, ready d"},
		"a second lock on the same row":             {"aX1 aS1", "ready a, ready a"},
		"a stronger lock wounds who shares":         {"aS1 bS1 aX1", "ready a, ready b, wounded b, ready a"},
		"a stronger lock waits for who shares":      {"aS1 bS1 bX1 a.", "ready a, ready b, ready b"},
		"other rows are free":                       {"aX1 bX2", "ready a, ready b"},
		"a range keeps writers out":                 {"aS1-5 bX.3 cX.5 a.", "ready a, ready c, ready b"},
		"a range waits for writers":                 {"aX.3 bS1-5 cS3-9 a.", "ready a, ready b, ready c"},
		"ranges meet":                               {"aX1-3 bS2-4 cS3-5 a.", "ready a, ready c, ready b"},
		"a row in a range that one has":             {"aS1-5 aS.3 bX.3 aX.3 a.", "ready a, ready a, ready a, ready b"},
		"a longer range than one has":               {"aS1-3 bX.4 aS1-5", "ready a, ready b, wounded b, ready a"},
		"an earlier range than one has":             {"aS3-5 bX.2 aS1-5", "ready a, ready b, wounded b, ready a"},
		"a stronger lock on a row of a range":       {"aS1-5 bS1-5 aX.3", "ready a, ready b, wounded b, ready a"},
		"who waits for one row lets others pass by": {"aX.1 bX.1 cX.2", "ready a, ready c"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLockTest()
			for step := range strings.FieldsSeq(tc.steps) {
				l.do(step)
			}
			if got := strings.Join(l.said, ", "); got != tc.want {
				t.Errorf("%s: %s; want %s", tc.steps, got, tc.want)
			}
		})
	}
}

// For all sequences of requests, no two transactions have conflicting locks. No transaction waits for a younger
// transaction whose locks can be taken away, and no transaction waits without a reason. The oldest unprepared
// transaction therefore waits only for prepared transactions, whose coordinators are notified, and no other cycle
// exists.
func TestLocksNeverDeadlock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	waits, wounds := 0, 0
	for range 300 {
		l := newLockTest()
		for range 100 {
			name := byte('a' + r.IntN(10))
			if h := l.holders[name]; h != nil && h.stage != growing {
				l.do(string(name) + ".")
				continue
			}
			mode := string("SX"[r.IntN(2)])
			n := r.IntN(4)
			switch r.IntN(6) {
			case 0, 1:
				l.do(string(name) + mode + fmt.Sprint(n))
			case 2:
				l.do(string(name) + mode + "." + fmt.Sprint(n))
			case 3:
				l.do(string(name) + mode + fmt.Sprintf("%d-%d", n, n+1+r.IntN(3)))
			case 4:
				if l.holder(name).missing == 0 {
					l.do(string(name) + "!")
				}
			case 5:
				l.do(string(name) + ".")
			}
			for _, u := range l.table.units {
				waits += len(u.waiting)
				u.check(t)
			}
		}
		wounds += strings.Count(strings.Join(l.said, " "), "wounded")
		for _, h := range l.holders {
			l.table.release(h)
		}
		l.table.settle()
		if len(l.table.units) > 0 {
			t.Fatalf("%d units are left without locks", len(l.table.units))
		}
	}
	if waits < 1000 || wounds < 1000 {
		t.Errorf("%d waits and %d wounds are few", waits, wounds)
	}
}

func (u *unit) check(t *testing.T) {
	t.Helper()
	for i, a := range u.granted {
		for _, b := range u.granted[:i] {
			if a.conflicts(b) {
				t.Fatalf("%v and %v both have locks on %v", a.h.name, b.h.name, &a.rows)
			}
		}
	}
	for i, w := range u.waiting {
		for _, g := range u.granted {
			if w.conflicts(g) && w.h.age.olderThan(&g.h.age) && g.h.stage == growing {
				t.Fatalf("%v waits for %v, which is younger and not prepared", w.h.name, g.h.name)
			}
		}
		own := func(m *lock) bool { return m.h == w.h } // m is an earlier request of the same transaction
		if before := u.waiting[:i]; !slices.ContainsFunc(u.granted, w.conflicts) && !slices.ContainsFunc(before, w.conflicts) && !slices.ContainsFunc(before, own) {
			t.Fatalf("%v waits for nobody", w.h.name)
		}
		if i > 0 && w.h.age.olderThan(&u.waiting[i-1].h.age) {
			t.Fatalf("%v waits behind %v, which is younger", w.h.name, u.waiting[i-1].h.name)
		}
	}
}
