package anomalies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/broken"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
)

// regions returns a topology of three regions, with round trips of 60 ms between each pair.
func regions() *geo.Topology {
	t := &geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 1, Replicas: 1}
	for a := range 3 {
		var row []geo.Link
		for b := range 3 {
			l := geo.Link{Delay: 30 * time.Millisecond}
			if a == b {
				l.Delay = 250 * time.Microsecond
			}
			row = append(row, l)
		}
		t.Links = append(t.Links, row)
	}
	return t
}

// of returns a database of an engine with the given parameters.
func of(t *testing.T, e *protocol.Engine, given map[string]string) *Database {
	t.Helper()
	params, errs := e.Resolve(given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return &Database{e, params, regions()}
}

const plays = 40

func TestDatabases(t *testing.T) {
	for name, test := range map[string]struct {
		engine *protocol.Engine
		given  map[string]string
		seen   string // the cases that must be seen; all others must not be seen
		broken bool
	}{
		"serial": {engine: calvin.Engine},
		"snapshot isolation allows write skew, and loses no update": {
			engine: geogauss.Engine, seen: "write-skew predicate-write-skew",
		},
		"read committed loses updates, too": {
			engine: geogauss.Engine, given: map[string]string{"isolation": "ReadCommitted"},
			seen: "lost-update write-skew predicate-write-skew",
		},
		"a copy nearby is stale": {engine: primary.Engine, given: map[string]string{"reads": "Eventual"}, seen: "lost-own-write stale-read"},
		"a session's copy, too":  {engine: primary.Engine, given: map[string]string{"reads": "Session"}, seen: "stale-read"},
		"updates are lost that must not be": {
			engine: geogauss.Overwrites, seen: "lost-update write-skew predicate-write-skew", broken: true,
		},
		"what was read is not validated": {
			engine: primary.Unvalidated, seen: "lost-update write-skew predicate-write-skew", broken: true,
		},
		"stale where nobody may": {engine: primary.UnaskedWriter, seen: "lost-own-write stale-read", broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := PlayAll(context.Background(), "it", of(t, test.engine, test.given), plays, 1)
			if err != nil {
				t.Fatal(err)
			}
			var seen []string
			for _, f := range r.Cases {
				if f.Seen > 0 {
					seen = append(seen, f.Case)
				}
				if (f.Seen > 0 || f.Broken > 0) && f.Example == "" {
					t.Errorf("%s was seen, and no play is told", f.Case)
				}
				if f.Seen == 0 && f.Overlapped == 0 {
					t.Errorf("%s: the transactions never overlapped in %d plays", f.Case, f.Plays)
				}
				if f.Forbidden && f.Seen > f.Broken {
					t.Errorf("%s is ruled out and was seen %d times, %d of them broke the promise", f.Case, f.Seen, f.Broken)
				}
			}
			if got := strings.Join(seen, " "); got != test.seen {
				t.Errorf("seen: %s\nwant: %s", got, test.seen)
			}
			report := &Report{Databases: []Result{*r}}
			if err := report.Err(); (err != nil) != test.broken {
				t.Errorf("it promises %s: %v", r.Level, err)
			}
		})
	}
}

// TestCases checks that each case is recognised in the smallest history of its transactions that has the anomaly.
// Engines that run whole procedures never produce most of these histories.
func TestCases(t *testing.T) {
	// A word is an operation: r or w, the row, and the number of the transaction whose version it read or
	// overwrote. The number 0 stands for the initial version. n is a read of the first write of transaction 1, and
	// l is a scan of the group.
	shown := map[string][]string{
		"dirty-write":                   {"wx0 wy2", "wx1 wy0", "rx2 ry1"},
		"aborted-read":                  {"wx0", "rx1", ""},
		"intermediate-read":             {"wg0", "ng1 l rx0"},
		"circular-information-flow":     {"wx0 ry2", "wy0 rx1"},
		"observed-transaction-vanishes": {"wx0 wy0", "wx1 wy1", "rx2 ry1"},
		"predicate-many-preceders":      {"l ry2", "wg0 wy0"},
		"lost-update":                   {"rx0 wx0", "rx0 wx0"},
		"read-skew":                     {"rx0 ry2", "rx0 wx0 ry0 wy0"},
		"long-fork":                     {"wx0", "wy0", "rx1 ry0", "ry2 rx0"},
		"lost-own-write":                {"wx0", "rx0"},
		"reads-go-back":                 {"wx0", "rx1", "rx0", "rx1"},
		"stale-read":                    {"wx0", "rx0"},
		"causal-reverse":                {"wx0", "wy0", "rx0 ry2", ""},
		"write-skew":                    {"rx0 ry0 wy0", "ry0 rx0 wx0"},
		"predicate-write-skew":          {"l wg0", "l wh0"},
	}
	for i := range cases {
		c := &cases[i]
		for _, seen := range []bool{true, false} {
			g := &game{c: c, topology: regions(), placement: regions().Placement(), calls: map[txn.ID]call{}, rng: rand.New(rand.NewPCG(1, 1))}
			p := g.deal(0)
			keys := map[byte]txn.Key{'x': simload.Key(p.x), 'y': simload.Key(p.y), 'g': simload.GroupKey(p.g, 1), 'h': simload.GroupKey(p.g, 2)}
			for n, told := range shown[c.Name] {
				id := txn.ID(n + 1)
				p.ids[n] = id
				g.calls[id] = call{p, n, g}
				x := &history.Txn{ID: id, Client: uint32(c.txns[n].client), Invoked: time.Millisecond, Answered: time.Second, Status: txn.Committed}
				for before := range n {
					if g.waits(n, before) {
						x.Invoked = p.txns[before].Answered + time.Millisecond
						x.Answered = x.Invoked + time.Second
					}
				}
				if c.Name == "aborted-read" && n == 0 {
					x.Status = txn.Aborted
				}
				if !seen { // a single transaction shows no anomaly
					told = ""
				}
				for word := range strings.FieldsSeq(told) {
					if word == "l" {
						x.Ops = append(x.Ops, history.Op{Kind: history.Scan, Key: simload.GroupKey(p.g, 0), To: simload.GroupKey(p.g, 9)})
						continue
					}
					o := history.Op{Kind: history.Read, Key: keys[word[1]], Version: txn.ID(word[2] - '0'), Known: true}
					switch {
					case word[0] == 'w':
						o.Kind, o.Nth = history.Write, 1
						if c.Name == "intermediate-read" {
							o.Nth = 2
						}
					case word[0] == 'n':
						o.Nth = 1
					}
					x.Ops = append(x.Ops, o)
				}
				g.record(0, x)
			}
			f := g.find(isolation.StrictSerializable)
			if seen && (f.Seen != 1 || f.Broken != 1) || !seen && (f.Seen != 0 || f.Broken != 0) {
				t.Errorf("%s, told %v: %+v", c.Name, seen, f)
			}
			if f := g.find(c.Level); seen && f.Seen != 1 || !seen && f.Seen != 0 {
				t.Errorf("%s, told %v: %+v", c.Name, seen, f)
			}
		}
	}
}

// TestOverlapped checks which histories count as overlapped. Times are in milliseconds, and the longest round trip is
// 60 ms.
func TestOverlapped(t *testing.T) {
	// A word is a transaction: the times of sending and answer, and its outcome. The outcome is c for committed, a
	// for aborted by itself, x for aborted because of a conflict, or u for unknown.
	for _, test := range []struct {
		name, told string
		want       bool
	}{
		{"lost-update", "0-10c 5-15c", true},
		{"lost-update", "5-15c 0-10c", true},
		{"lost-update", "0-10c 11-15c", false},
		{"lost-update", "11-15c 0-10c", false},
		{"lost-update", "0-10c 5-15x", true},
		{"lost-update", "0-10x 5-15x", false}, // no transaction committed
		{"lost-update", "0-10c 5-15u", false},
		{"lost-update", "0-10c 5-15a", false}, // it was refused, so it did not overlap
		{"dirty-write", "0-10c 5-15c 20-30c", true},
		{"dirty-write", "0-10c 12-15c 20-30c", false},
		{"aborted-read", "0-10a 5-15c 50-60c", true},
		{"aborted-read", "0-10a 50-60c 5-15c", true},
		{"aborted-read", "0-10a 50-60c 50-60c", false},
		{"aborted-read", "0-10a 5-15x 50-60c", false},
		{"intermediate-read", "0-10c 5-15c", true},
		{"intermediate-read", "0-10c 15-25c", false},
		{"circular-information-flow", "0-10c 5-15c", true},
		{"circular-information-flow", "0-10c 15-25c", false},
		{"observed-transaction-vanishes", "0-10c 5-15c 8-20c", true},
		{"observed-transaction-vanishes", "0-10c 5-15c 12-20c", false}, // the reader overlapped only one of the writers
		{"observed-transaction-vanishes", "0-10c 12-22c 8-20c", false}, // the writers did not overlap
		{"predicate-many-preceders", "0-10c 5-15c", true},
		{"predicate-many-preceders", "0-10c 15-25c", false},
		{"read-skew", "0-10c 5-15c", true},
		{"read-skew", "0-10c 15-25c", false},
		{"long-fork", "0-10c 0-10c 5-15c 65-75c", true},
		{"long-fork", "0-10c 0-10c 5-15c 75-85c", false}, // the copies had enough time
		{"long-fork", "0-10c 40-50c 5-15c 65-75c", false},
		{"long-fork", "0-10c 0-10x 5-15c 5-15c", false},
		{"lost-own-write", "0-10c 60-70c", true},
		{"lost-own-write", "0-10c 71-80c", false},
		{"lost-own-write", "0-10u 20-30c", false},
		{"reads-go-back", "0-10c 5-8c 20-30c 90-95c", true},
		{"reads-go-back", "20-30c 5-8c 25-30c 40-45c", true},
		{"reads-go-back", "50-60c 5-8c 20-30c 55-65c", false}, // the reader that sees the write does not read again
		{"stale-read", "0-10c 60-70c", true},
		{"stale-read", "0-10c 75-80c", false},
		{"stale-read", "0-10x 15-20c", false},
		{"causal-reverse", "0-10c 20-30c 5-25c 200-210c", true},
		{"causal-reverse", "0-10c 20-30c 0-5c 25-28c", true},
		{"causal-reverse", "0-10c 20-30c 0-15c 12-18c", false}, // the readers finished before the second write
		{"causal-reverse", "0-10c 120-130c 100-125c 110-140c", false},
		{"write-skew", "0-10c 5-15c", true},
		{"write-skew", "0-10c 15-25c", false},
		{"predicate-write-skew", "0-10c 5-15c", true},
		{"predicate-write-skew", "0-10c 15-25c", false},
	} {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == test.name })
		words := strings.Fields(test.told)
		p := &play{conflict: make([]bool, len(words)), txns: make([]history.Txn, len(words))}
		for n, word := range words {
			var sent, answered int
			var fate rune
			if _, err := fmt.Sscanf(word, "%d-%d%c", &sent, &answered, &fate); err != nil {
				t.Fatal(word, err)
			}
			p.conflict[n] = fate == 'x'
			p.txns[n] = history.Txn{
				Invoked: time.Duration(sent) * time.Millisecond, Answered: time.Duration(answered) * time.Millisecond,
				Status: map[rune]txn.Status{'c': txn.Committed, 'a': txn.Aborted, 'x': txn.Aborted, 'u': txn.Unknown}[fate],
			}
		}
		if got := p.overlapped(&cases[i], cases[i].lag(regions().LongestRTT())); got != test.want {
			t.Errorf("%s, %s: %v", test.name, test.told, got)
		}
	}
}

func TestFinding(t *testing.T) {
	for want, f := range map[string]Finding{
		"prevented (overlapped in 7 of 9), aborts in 3":         {Plays: 9, Forbidden: true, Overlapped: 7, Aborted: 3},
		"never overlapped, aborts in 9":                         {Plays: 9, Forbidden: true, Aborted: 9},
		"never overlapped":                                      {Plays: 9},
		"not seen (overlapped in 7 of 9)":                       {Plays: 9, Overlapped: 7},
		"not seen (overlapped in 7 of 9), another anomaly in 2": {Plays: 9, Overlapped: 7, Other: 2},
		"allowed (2 of 9)":                                      {Plays: 9, Overlapped: 7, Seen: 2},
		"allowed (1 of 9)":                                      {Plays: 9, Seen: 1},
		"BROKEN (1 of 9)":                                       {Plays: 9, Forbidden: true, Broken: 1},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		var b strings.Builder
		r := &Report{Databases: []Result{{Database: "it", Cases: []Finding{f}}}}
		if err := r.Print(&b, "markdown"); err != nil || strings.Contains(b.String(), "prevented") != strings.Contains(want, "prevented") {
			t.Errorf("%s: %v %s", want, err, b.String())
		}
	}
}

// TestRefused checks a database that aborts all transactions with conflicts. Such a database has prevented nothing.
func TestRefused(t *testing.T) {
	skew := slices.IndexFunc(cases, func(c Case) bool { return c.Name == "write-skew" })
	g := &game{
		c: &cases[skew], topology: regions(), placement: regions().Placement(), calls: map[txn.ID]call{}, rng: rand.New(rand.NewPCG(1, 1)),
	}
	p := g.deal(0)
	for n := range p.txns {
		p.ids[n], p.conflict[n] = txn.ID(n+1), true
		g.calls[p.ids[n]] = call{p, n, g}
		g.record(0, &history.Txn{ID: p.ids[n], Answered: time.Second, Status: txn.Aborted})
	}
	if f := g.find(isolation.Serializable); f.Word() != "never overlapped" || f.Aborted != 1 {
		t.Errorf("%+v", f)
	}
}

// TestOther checks that lost updates in a case that looks for another anomaly do not count as that anomaly.
func TestOther(t *testing.T) {
	otv := slices.IndexFunc(cases, func(c Case) bool { return c.Name == "observed-transaction-vanishes" })
	f, err := Play(context.Background(), of(t, geogauss.Engine, map[string]string{"isolation": "ReadCommitted"}), &cases[otv], plays, 1)
	if err != nil {
		t.Fatal(err)
	}
	if f.Seen != 0 || f.Other == 0 || !strings.Contains(f.Example, string(history.LostUpdate)) {
		t.Errorf("%+v", f)
	}
}

func TestReproducible(t *testing.T) {
	d := of(t, geogauss.Engine, nil)
	for i := range cases {
		a, err := Play(context.Background(), d, &cases[i], 5, 7)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := Play(context.Background(), d, &cases[i], 5, 7); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v and %v", cases[i].Name, a, b)
		}
	}
}

func TestLevels(t *testing.T) {
	var got []string
	for _, d := range Levels(of(t, primary.Engine, nil)) {
		got = append(got, fmt.Sprint(d.Promises()))
	}
	if want := "strict-serializable serializable session-serializable"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestUnanswered(t *testing.T) {
	_, err := Play(context.Background(), of(t, broken.Forgetful, nil), &cases[0], 200, 1)
	if err == nil || !strings.Contains(err.Error(), "are not answered") {
		t.Errorf("a database that loses transactions is answered with %v", err)
	}
}
