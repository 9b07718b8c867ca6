package hermitage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/history"
	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/broken"
	"github.com/geobench/geobench/internal/protocol/calvin"
	"github.com/geobench/geobench/internal/protocol/geogauss"
	"github.com/geobench/geobench/internal/protocol/primary"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/txn"
)

// regions are three, each pair 60 ms apart.
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

// of is a database of an engine with one parameter.
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
		seen   string // the cases that are seen; no others may be
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

// TestCases tells each case in the smallest way in which its transactions can show it: most of that no engine which runs procedures
// as a whole does.
func TestCases(t *testing.T) {
	// A word is an operation of a transaction: r or w, the row, and the transaction whose version it read or overwrote, 0 for the
	// first one; n is a read of what transaction 1 wrote first, and l a scan of the group.
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
		"causal-reverse":                {"wx0", "wy0", "rx0 ry2"},
		"write-skew":                    {"rx0 ry0 wy0", "ry0 rx0 wx0"},
		"predicate-write-skew":          {"l wg0", "l wh0"},
	}
	for i := range cases {
		c := &cases[i]
		for _, seen := range []bool{true, false} {
			g := &game{c: c, topology: regions(), placement: regions().Placement(), calls: map[txn.ID]call{}, chance: rand.New(rand.NewPCG(1, 1))}
			p := g.deal(0)
			keys := map[byte]txn.Key{'x': simtest.Key(p.x), 'y': simtest.Key(p.y), 'g': simtest.GroupKey(p.g, 1), 'h': simtest.GroupKey(p.g, 2)}
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
				if !seen { // whoever is alone shows nothing
					told = ""
				}
				for word := range strings.FieldsSeq(told) {
					if word == "l" {
						x.Ops = append(x.Ops, history.Op{Kind: history.Scan, Key: simtest.GroupKey(p.g, 0), To: simtest.GroupKey(p.g, 9)})
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
