package history

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// parseHistory parses a readable history with one transaction per line:
//
//	1 west/3 0-10 ok rx0 wx0
//
// is transaction 1 of client 3 in west, sent at 0 ms, answered at 10 ms, and committed (or abort, or unknown). It read
// the initial version of row x and overwrote it. A version is the number of its transaction, or ? if unknown, followed
// by .2 for an Nth of 2. A trailing - marks a missing or deleted row. sa:d is a scan of the rows from a up to d; a
// trailing - means that it does not report deleted rows.
func parseHistory(t testing.TB, text string) *History {
	t.Helper()
	h := &History{KeyName: func(k txn.Key) string { return string(k[1:]) }}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		region, client, _ := strings.Cut(f[1], "/")
		from, to, _ := strings.Cut(f[2], "-")
		ms := func(s string) time.Duration { return time.Duration(number(t, s)) * time.Millisecond }
		x := Txn{ID: testID(number(t, f[0])), Client: uint32(number(t, client)), Invoked: ms(from), Answered: ms(to)}
		switch f[3] {
		case "ok":
			x.Status = txn.Committed
		case "abort":
			x.Status = txn.Aborted
		case "unknown":
			x.Status = txn.Unknown
		default:
			t.Fatalf("%q is not an outcome", f[3])
		}
		x.Ops = parseOps(t, f[4:])
		h.Add(h.Region(region), &x)
	}
	return h
}

// parseOps parses operations in the syntax of parseHistory.
func parseOps(t testing.TB, words []string) (ops []Op) {
	for _, w := range words {
		o := Op{Key: txn.StringKey(0, w[1:2])}
		if w[0] == 'w' {
			o.Kind = Write
		}
		w, o.Gone = strings.CutSuffix(w, "-")
		if w[0] == 's' {
			o.Kind, o.To = Scan, txn.StringKey(0, w[3:])
			ops = append(ops, o)
			continue
		}
		version, nth, found := strings.Cut(w[2:], ".")
		if found {
			o.Nth = uint8(number(t, nth))
		}
		if version != "?" {
			o.Known = true
			if n := number(t, version); n > 0 {
				o.Version = testID(n)
			}
		}
		ops = append(ops, o)
	}
	return ops
}

func number(t testing.TB, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 40)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testID(n uint64) txn.ID { return txn.MakeID(1, n) }

// checkAll checks a history at all levels and compares the verdicts. A level that implies a failed level must fail,
// too, and Holds of a failed verdict must contain the strongest levels that passed.
func checkAll(t testing.TB, h *History) map[isolation.Level]*Verdict {
	t.Helper()
	all := map[isolation.Level]*Verdict{}
	for _, l := range isolation.Levels() {
		all[l] = Check(h, l)
	}
	for a, v := range all {
		var holds []isolation.Level
		for _, b := range isolation.Levels() {
			if v.Passed && isolation.Implies(a, b) && !all[b].Passed {
				t.Errorf("%v passes, but %v, which is weaker, does not", a, b)
			}
			stronger := func(c isolation.Level) bool { return c != b && isolation.Implies(c, b) && all[c].Passed }
			if !v.Passed && all[b].Passed && !slices.ContainsFunc(isolation.Levels(), stronger) {
				holds = append(holds, b)
			}
		}
		if !slices.Equal(v.Holds, holds) {
			t.Errorf("%v does not hold, and it says that %v do, but %v do", a, v.Holds, holds)
		}
	}
	return all
}

// TestAnomalies compares the verdicts on small histories at each level with the recorded text. Run with -rewrite to
// record the current verdicts.
func TestAnomalies(t *testing.T) {
	datadriven.RunTest(t, "testdata/anomalies", func(t *testing.T, d *datadriven.TestData) string {
		var texts []string
		levels := map[string][]string{}
		all := checkAll(t, parseHistory(t, d.Input))
		for _, l := range isolation.Levels() {
			v := all[l]
			if !v.Passed && !strings.HasPrefix(v.Explanation, string(v.Anomaly)) {
				t.Errorf("the explanation of %s is %q", v.Anomaly, v.Explanation)
			}
			for i, s := range v.Cycle {
				if next := v.Cycle[(i+1)%len(v.Cycle)]; len(v.Cycle) > 1 && s.To != next.From {
					t.Errorf("step %d leads to %v, and the next one from %v", i, s.To, next.From)
				}
			}
			text := cmp.Or(v.Explanation, "passed")
			if levels[text] == nil {
				texts = append(texts, text)
			}
			levels[text] = append(levels[text], l.String())
		}
		var out strings.Builder
		for _, text := range texts {
			at := strings.Join(levels[text], ", ")
			if len(texts) == 1 {
				at = "all levels"
			}
			fmt.Fprintf(&out, "%s: %s\n", at, text)
		}
		return out.String()
	})
}

// TestLongCycle checks that the verdict on a long cycle has all steps, but an abbreviated explanation.
func TestLongCycle(t *testing.T) {
	const n = 100
	h := &History{}
	region := h.Region("west")
	for i := range uint64(n) {
		h.Add(region, &Txn{ID: testID(i + 1), Client: uint32(i), Status: txn.Committed, Answered: time.Second, Ops: []Op{
			{Key: txn.IntKey(0, i), Known: true},
			{Kind: Write, Key: txn.IntKey(0, (i+1)%n), Known: true},
		}})
	}
	v := Check(h, isolation.StrictSerializable)
	if v.Anomaly != G2Item || len(v.Cycle) != n || v.Stats.Cyclic != n || !v.Stats.Shortest {
		t.Errorf("%s of %d: %+v", v.Anomaly, len(v.Cycle), v.Stats)
	}
	if lines := strings.Count(v.Explanation, "\n"); lines != 2*maxExplained+2 || !strings.Contains(v.Explanation, "... and so on for 76 more ...") {
		t.Errorf("%d lines:\n%s", lines, v.Explanation)
	}
}
