package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/txn"
)

// adyaVersion of the crate, an independent implementation of Elle that matches Elle's own expected results.
const adyaVersion = "0.1.0"

// adyaBinary installs the checker into the cache. It needs cargo and the network once, so it runs only when asked:
//
//	GEOBENCH_ADYA=1 go test ./internal/history -run Adya -v
func adyaBinary(t *testing.T) string {
	t.Helper()
	if os.Getenv("GEOBENCH_ADYA") == "" {
		t.Skip("set GEOBENCH_ADYA=1 to compare with the adya crate; it installs it with cargo")
	}
	cache := os.Getenv("GEOBENCH_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(home, ".cache", "geobench")
	}
	root := filepath.Join(cache, "adya")
	binary := filepath.Join(root, "bin", "adya")
	if _, err := os.Stat(binary); err != nil {
		out, err := exec.Command("cargo", "install", "adya", "--version", adyaVersion, "--locked", "--root", root).CombinedOutput()
		if err != nil {
			t.Fatalf("cargo install adya: %v\n%s", err, out)
		}
	}
	return binary
}

// appends translates a history into Elle's list-append: a version of a row is the list of all writes up to it, so
// that each read shows the whole order of versions before it, which is what our chain of overwritten versions says. A
// transaction's nth write of a row appends its number and n. At the end, each version that nobody overwrote is read once.
func appends(t *testing.T, txns []Txn) []byte {
	t.Helper()
	type place struct {
		key txn.Key
		id  txn.ID
	}
	number := map[txn.ID]int{}
	writes := map[place]Op{}
	order := []place{}
	replaced := map[place]bool{}
	for i := range txns {
		number[txns[i].ID] = i + 1
		for _, o := range txns[i].Ops {
			if o.Kind != Write {
				continue
			}
			if !o.Known {
				t.Fatal("a write that does not say what it overwrote cannot be translated")
			}
			p := place{o.Key, txns[i].ID}
			writes[p] = o
			order = append(order, p)
			if txns[i].Status == txn.Committed {
				replaced[place{o.Key, o.Version}] = true
			}
		}
	}
	element := func(id txn.ID, nth int) int { return number[id]*16 + nth }
	var list func(p place, nth uint8, depth int) []int
	list = func(p place, nth uint8, depth int) []int {
		w, ok := writes[p]
		if p.id == Initial || !ok || depth > len(txns) {
			return []int{}
		}
		out := list(place{p.key, w.Version}, 0, depth+1)
		if nth == 0 {
			nth = max(w.Nth, 1)
		}
		for n := range int(nth) {
			out = append(out, element(p.id, n+1))
		}
		return out
	}
	type event struct {
		at      time.Duration
		order   int
		Index   int    `json:"index"`
		Type    string `json:"type"`
		Process int    `json:"process"`
		Value   []any  `json:"value"`
	}
	var events []event
	add := func(process int, from, to time.Duration, status txn.Status, ops, seen []any) {
		events = append(events, event{at: from, order: 1, Type: "invoke", Process: process, Value: ops})
		switch status {
		case txn.Committed:
			events = append(events, event{at: to, order: 2, Type: "ok", Process: process, Value: seen})
		case txn.Unknown:
			events = append(events, event{at: 1 << 40, Type: "info", Process: process, Value: ops})
		default:
			events = append(events, event{at: to, order: 2, Type: "fail", Process: process, Value: ops})
		}
	}
	end := time.Duration(0)
	for i := range txns {
		x := &txns[i]
		ops, seen := []any{}, []any{}
		for _, o := range x.Ops {
			key := fmt.Sprintf("%x", string(o.Key))
			if o.Kind == Read {
				ops = append(ops, []any{"r", key, nil})
				seen = append(seen, []any{"r", key, list(place{o.Key, o.Version}, o.Nth, 0)})
				continue
			}
			for n := range max(int(o.Nth), 1) {
				a := []any{"append", key, element(x.ID, n+1)}
				ops, seen = append(ops, a), append(seen, a)
			}
		}
		add(int(x.Client), x.Invoked, x.Answered, x.Status, ops, seen)
		end = max(end, x.Answered)
	}
	for k, p := range order {
		if status := txns[number[p.id]-1].Status; !replaced[p] && status == txn.Committed {
			key := fmt.Sprintf("%x", string(p.key))
			add(1000+k, end+time.Second, end+2*time.Second, txn.Committed, []any{[]any{"r", key, nil}}, []any{[]any{"r", key, list(p, 0, 0)}})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	for i := range events {
		events[i].Index = i
		if err := e.Encode(events[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// askAdya returns whether the history is valid and the anomalies found.
func askAdya(t *testing.T, binary, model string, history []byte) (valid bool, anomalies []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history.jsonl")
	if err := os.WriteFile(file, history, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "check", "--json", "-m", "list-append", "-c", model, file).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("adya: %v\n%s%s", err, out, exit.Stderr)
	}
	var report struct {
		Valid     bool     `json:"valid"`
		Anomalies []string `json:"anomaly_types"`
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("adya: %v\n%s", err, out)
	}
	return report.Valid, report.Anomalies
}

// injections add an anomaly to a history on two rows of their own, at a time when nothing else happens.
var injections = map[Anomaly]func(in *injector){
	"": func(*injector) {},
	G1a: func(in *injector) {
		in.txn(0, 10, txn.Aborted, "wx0")
		in.txn(5, 9, txn.Committed, "rx1")
	},
	DirtyUpdate: func(in *injector) {
		in.txn(0, 10, txn.Aborted, "wx0")
		in.txn(5, 9, txn.Committed, "wx1")
	},
	G1b: func(in *injector) {
		in.txn(0, 10, txn.Committed, "wx0.2")
		in.txn(5, 9, txn.Committed, "rx1.1")
	},
	Internal: func(in *injector) {
		in.txn(0, 10, txn.Committed, "wx0 rx0")
	},
	IncompatibleOrder: func(in *injector) {
		in.txn(0, 10, txn.Committed, "wx0")
		in.txn(0, 10, txn.Committed, "wx0")
	},
	LostUpdate: func(in *injector) {
		in.txn(0, 10, txn.Committed, "rx0 wx0")
		in.txn(0, 10, txn.Committed, "rx0 wx0")
	},
	G0: func(in *injector) {
		in.txn(0, 10, txn.Committed, "wx0 wy2")
		in.txn(0, 10, txn.Committed, "wy0 wx1")
	},
	G1c: func(in *injector) {
		in.txn(0, 10, txn.Committed, "wx0 ry2")
		in.txn(0, 10, txn.Committed, "wy0 rx1")
	},
	GSingleItem: func(in *injector) {
		in.txn(0, 10, txn.Committed, "rx0 ry2")
		in.txn(0, 10, txn.Committed, "wx0 wy0")
	},
	G2Item: func(in *injector) {
		in.txn(0, 10, txn.Committed, "rx0 ry0 wx0")
		in.txn(0, 10, txn.Committed, "rx0 ry0 wy0")
	},
	G0 + "-realtime": func(in *injector) {
		in.txn(0, 5, txn.Committed, "wx2")
		in.txn(6, 10, txn.Committed, "wx0")
	},
	G1c + "-realtime": func(in *injector) {
		in.txn(0, 5, txn.Committed, "rx2")
		in.txn(6, 10, txn.Committed, "wx0")
	},
	GSingleItem + "-realtime": func(in *injector) {
		in.txn(0, 5, txn.Committed, "rx0 wx0")
		in.txn(6, 10, txn.Committed, "rx0")
	},
	G2Item + "-realtime": func(in *injector) {
		in.txn(0, 10, txn.Committed, "rx0 wy0")
		in.txn(0, 3, txn.Committed, "wx0")
		in.txn(4, 10, txn.Committed, "ry0 rz4")
		in.txn(0, 10, txn.Committed, "wz0 rx0")
	},
}

// injector appends transactions, written as parseHistory reads them, with versions counted from the first injected.
type injector struct {
	t     *testing.T
	txns  []Txn
	first int
	from  time.Duration
}

func (in *injector) txn(from, to int, status txn.Status, ops string) {
	n := len(in.txns) - in.first + 1
	var line strings.Builder
	fmt.Fprintf(&line, "%d x/%d %d-%d ok", n, n, from, to)
	for w := range strings.FieldsSeq(ops) {
		line.WriteString(" " + w)
	}
	h := parseHistory(in.t, line.String())
	x := Txn{ID: testID(uint64(n)) + 1<<39, Client: uint32(500 + n), Status: status,
		Invoked: in.from + time.Duration(from)*time.Millisecond, Answered: in.from + time.Duration(to)*time.Millisecond}
	for _, o := range h.ops {
		v := o.version
		if v != Initial {
			v += 1 << 39
		}
		x.Ops = append(x.Ops, Op{Kind: Kind(o.flags & opWrite), Key: h.keys[o.key], Version: v, Known: true, Nth: o.nth})
	}
	in.txns = append(in.txns, x)
}

func inject(t *testing.T, a Anomaly, txns []Txn) []Txn {
	in := &injector{t: t, txns: txns, first: len(txns)}
	for i := range txns {
		in.from = max(in.from, txns[i].Answered+time.Millisecond)
	}
	injections[a](in)
	return in.txns
}

// TestInjected finds each injected anomaly by its name in histories that are otherwise serial.
func TestInjected(t *testing.T) {
	for a := range injections {
		for seed := range uint64(10) {
			v := Check(historyOf(inject(t, a, serial(seed, 100, 6, 8, int(seed)))), isolation.StrictSerializable)
			if v.Anomaly != a {
				t.Errorf("%q, seed %d: found %q\n%s", a, seed, v.Anomaly, v.Explanation)
			}
		}
	}
}

// TestAgreesWithAdya compares verdicts and names with the adya crate on the same histories.
func TestAgreesWithAdya(t *testing.T) {
	binary := adyaBinary(t)
	const seeds = 20
	var table strings.Builder
	fmt.Fprintf(&table, "%-20s %10s %10s %10s   adya calls it\n", "injected", "verdict SER", "verdict SSER", "name")
	for _, a := range slices.Sorted(func(yield func(Anomaly) bool) {
		for a := range injections {
			if !yield(a) {
				return
			}
		}
	}) {
		agree := [isolation.StrictSerializable + 1]int{}
		named := 0
		names := map[string]int{}
		for seed := range uint64(seeds) {
			txns := inject(t, a, serial(seed, 100, 6, 8, 0))
			translated := appends(t, txns)
			for _, level := range []isolation.Level{isolation.Serializable, isolation.StrictSerializable} {
				v := Check(historyOf(txns), level)
				valid, anomalies := askAdya(t, binary, level.String(), translated)
				if v.Passed == valid {
					agree[level]++
				} else {
					t.Errorf("%q, seed %d, %v: we say %v %s, adya says %v %v", a, seed, level, v.Passed, v.Anomaly, valid, anomalies)
				}
				if level == isolation.StrictSerializable {
					names[strings.Join(anomalies, " ")]++
					if sameName(v.Anomaly, anomalies) {
						named++
					}
				}
			}
		}
		fmt.Fprintf(&table, "%-20s %7d/%d %8d/%d %9d/%d   %v\n", cmp.Or(string(a), "none"), agree[isolation.Serializable], seeds,
			agree[isolation.StrictSerializable], seeds, named, seeds, names)
	}
	found := map[string]int{}
	for seed := range uint64(100) {
		txns := serial(seed, 100, 8, 6, 0)
		mutate(rand.New(rand.NewPCG(seed, 5)), txns, int(seed)%4)
		translated := appends(t, txns)
		for _, level := range []isolation.Level{isolation.Serializable, isolation.StrictSerializable} {
			v := Check(historyOf(txns), level)
			if valid, anomalies := askAdya(t, binary, level.String(), translated); v.Passed != valid {
				t.Errorf("exchanged reads, seed %d, %v: we say %v, adya says %v %v\n%s", seed, level, v.Passed, valid, anomalies, v.Explanation)
			} else {
				found[fmt.Sprintf("%v:%s", level, cmp.Or(string(v.Anomaly), "passes"))]++
			}
		}
	}
	fmt.Fprintf(&table, "100 histories with 0 to 3 reads exchanged, verdicts that agree: %v\n", found)
	t.Logf("\n%s", &table)
}

// mutate exchanges the versions of n reads for other versions of the same row.
func mutate(r *rand.Rand, txns []Txn, n int) {
	for n > 0 {
		x := &txns[r.IntN(len(txns))]
		o := &x.Ops[r.IntN(len(x.Ops))]
		other := &txns[r.IntN(len(txns))]
		wrote := slices.ContainsFunc(other.Ops, func(w Op) bool { return w.Kind == Write && w.Key == o.Key })
		if o.Kind == Read && wrote && other.ID != o.Version && other.ID != x.ID {
			o.Version, o.Nth = other.ID, 1
			n--
		}
	}
}

// sameName reports whether ours is among the names that adya gives. Elle tells cycles over single items apart from those
// over predicates by a suffix.
func sameName(ours Anomaly, theirs []string) bool {
	if ours == "" {
		return len(theirs) == 0
	}
	return slices.ContainsFunc(theirs, func(s string) bool {
		s = strings.Replace(s, "G-single-item", "G-single", 1)
		return s == string(ours)
	})
}
