package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// adyaVersion is the version of the adya crate, an independent implementation of Elle that reproduces Elle's own
// expected results.
const adyaVersion = "0.1.0"

// adyaBinary installs the checker into the cache, which requires cargo and, once, the network. It runs only on request:
//
//	GEOBENCH_ADYA=1 go test ./internal/bench/history -run Adya -v
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

// appends translates a history into Elle's list-append format. A version of a row becomes the list of all writes up to
// this version. Each read therefore shows the order of all earlier versions. The chain of overwritten versions contains
// the same information. The nth write of a row by a transaction appends the transaction's number and n. At the end, one
// read covers each version that was never overwritten.
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

// askAdya returns whether adya considers the history valid, and the anomalies that it found.
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

// injections add an anomaly to a history, on separate rows and at a time without other transactions. Clients are
// counted from 1.
var injections = map[string]struct {
	anomaly Anomaly
	add     func(in *injector)
}{
	"nothing": {"", func(*injector) {}},
	"aborted read": {G1a, func(in *injector) {
		in.txn(1, 0, 10, txn.Aborted, "wx0")
		in.txn(2, 5, 9, txn.Committed, "rx1")
	}},
	"dirty update": {DirtyUpdate, func(in *injector) {
		in.txn(1, 0, 10, txn.Aborted, "wx0")
		in.txn(2, 5, 9, txn.Committed, "wx1")
	}},
	"intermediate read": {G1b, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0.2")
		in.txn(2, 5, 9, txn.Committed, "rx1.1")
	}},
	"own write not read": {Internal, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0 rx0")
	}},
	"incompatible order": {IncompatibleOrder, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0")
		in.txn(2, 0, 10, txn.Committed, "wx0")
	}},
	"lost update": {LostUpdate, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 wx0")
		in.txn(2, 0, 10, txn.Committed, "rx0 wx0")
	}},
	"write cycle": {G0, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0 wy2")
		in.txn(2, 0, 10, txn.Committed, "wy0 wx1")
	}},
	"circular information": {G1c, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0 ry2")
		in.txn(2, 0, 10, txn.Committed, "wy0 rx1")
	}},
	"read skew": {GSingleItem, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 ry2")
		in.txn(2, 0, 10, txn.Committed, "wx0 wy0")
	}},
	"write skew": {G2Item, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 ry0 wx0")
		in.txn(2, 0, 10, txn.Committed, "rx0 ry0 wy0")
	}},
	"long fork": {GNonadjacentItem, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0")
		in.txn(2, 0, 10, txn.Committed, "wy0")
		in.txn(3, 0, 10, txn.Committed, "rx1 ry0")
		in.txn(4, 0, 10, txn.Committed, "rx0 ry2")
	}},
	"read-only anomaly": {G2Item, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 ry0 wx0")
		in.txn(2, 0, 3, txn.Committed, "ry0 wy0")
		in.txn(3, 4, 7, txn.Committed, "rx0 ry2")
	}},
	"overwritten by the past": {G0 + "-realtime", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "wx2")
		in.txn(2, 6, 10, txn.Committed, "wx0")
	}},
	"read of the future": {G1c + "-realtime", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "rx2")
		in.txn(2, 6, 10, txn.Committed, "wx0")
	}},
	"stale read": {GSingleItem + "-realtime", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "rx0 wx0")
		in.txn(2, 6, 10, txn.Committed, "rx0")
	}},
	"write skew and time": {G2Item + "-realtime", func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 wy0")
		in.txn(2, 0, 3, txn.Committed, "wx0")
		in.txn(3, 4, 10, txn.Committed, "ry0 rz4")
		in.txn(4, 0, 10, txn.Committed, "wz0 rx0")
	}},
	"own write of before not read": {GSingleItem + "-process", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "rx0 wx0")
		in.txn(1, 6, 10, txn.Committed, "rx0")
	}},
	"a client goes back": {GSingleItem + "-process", func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 wx0")
		in.txn(2, 1, 5, txn.Committed, "rx1")
		in.txn(2, 6, 10, txn.Committed, "rx0")
	}},
	"two clients go back": {GNonadjacentItem + "-process", func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "wx0")
		in.txn(1, 11, 20, txn.Committed, "ry0")
		in.txn(2, 0, 10, txn.Committed, "wy0")
		in.txn(2, 11, 20, txn.Committed, "rx0")
	}},
	"write skew and a client": {G2Item + "-process", func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rx0 wy0")
		in.txn(2, 0, 3, txn.Committed, "wx0")
		in.txn(2, 4, 10, txn.Committed, "ry0 rz4")
		in.txn(4, 0, 10, txn.Committed, "wz0 rx0")
	}},
	"phantom, inserted": {GSingle, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "sa:e ry2")
		in.txn(2, 0, 10, txn.Committed, "rc0- wc0 wy0")
	}},
	"phantom, deleted": {GSingleItem, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rc0 sa:e ry2")
		in.txn(2, 0, 10, txn.Committed, "rc0 wc0- wy0")
	}},
	"phantom, inserted again": {GSingle, func(in *injector) {
		in.txn(1, 0, 2, txn.Committed, "rc0 wc0-")
		in.txn(2, 3, 10, txn.Committed, "rc1- sa:e ry3")
		in.txn(3, 3, 10, txn.Committed, "rc1- wc1 wy0")
	}},
	"phantom inside a transaction": {GSingle, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rb0 sa:e rc2 sa:e")
		in.txn(2, 0, 10, txn.Committed, "rc0- wc0")
	}},
	"write skew over a range": {G2, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "sa:e rb0- wb0")
		in.txn(2, 0, 10, txn.Committed, "sa:e rc0- wc0")
	}},
	"write skew, range and row": {G2, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rb0 sa:e rx0 wx0")
		in.txn(2, 0, 10, txn.Committed, "rx0 rc0- wc0")
	}},
	"write skew, deleted": {G2Item, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rb0 rc0 sa:e wb0-")
		in.txn(2, 0, 10, txn.Committed, "rb0 rc0 sa:e wc0-")
	}},
	"long fork of scans": {GNonadjacent, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "rb0- wb0")
		in.txn(2, 0, 10, txn.Committed, "rc0- wc0")
		in.txn(3, 0, 10, txn.Committed, "rb1 sa:e")
		in.txn(4, 0, 10, txn.Committed, "rc2 sa:e")
	}},
	"read-only anomaly of scans": {G2, func(in *injector) {
		in.txn(1, 0, 10, txn.Committed, "sa:c sc:e rb0- wb0")
		in.txn(2, 0, 3, txn.Committed, "sc:e rd0- wd0")
		in.txn(3, 4, 7, txn.Committed, "sa:c rd2 sc:e")
	}},
	"stale scan": {GSingle + "-realtime", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "rc0- wc0")
		in.txn(2, 6, 10, txn.Committed, "sa:e")
	}},
	"own row not met": {GSingle + "-process", func(in *injector) {
		in.txn(1, 0, 5, txn.Committed, "rc0- wc0")
		in.txn(1, 6, 10, txn.Committed, "sa:e")
	}},
}

// injector appends transactions with operations in the syntax of parseHistory. Versions count from the first injected
// transaction.
type injector struct {
	t     *testing.T
	txns  []Txn
	first int
	from  time.Duration
}

func (in *injector) txn(client uint32, from, to int, status txn.Status, ops string) {
	n := len(in.txns) - in.first + 1
	x := Txn{ID: testID(uint64(n)) + 1<<39, Client: 500 + client*8, Status: status, Ops: parseOps(in.t, strings.Fields(ops)),
		Invoked: in.from + time.Duration(from)*time.Millisecond, Answered: in.from + time.Duration(to)*time.Millisecond}
	for i := range x.Ops {
		if o := &x.Ops[i]; o.Version != Initial {
			o.Version += 1 << 39
		}
	}
	in.txns = append(in.txns, x)
}

func inject(t *testing.T, class string, txns []Txn) []Txn {
	in := &injector{t: t, txns: txns, first: len(txns)}
	for i := range txns {
		in.from = max(in.from, txns[i].Answered+time.Millisecond)
	}
	injections[class].add(in)
	return in.txns
}

// TestInjected checks that Check finds each injected anomaly, with its name, in a history that is otherwise serial.
func TestInjected(t *testing.T) {
	for class, in := range injections {
		for seed := range uint64(10) {
			all := checkAll(t, historyOf(inject(t, class, serial(seed, 100, 6, 8, int(seed)))))
			if v := all[isolation.StrictSerializable]; v.Anomaly != in.anomaly {
				t.Errorf("%s, seed %d: found %q, not %q\n%s", class, seed, v.Anomaly, in.anomaly, v.Explanation)
			}
		}
	}
}

// adyaModels are the names of the levels in adya.
var adyaModels = map[isolation.Level]string{
	isolation.ReadCommitted:            "read-committed",
	isolation.SnapshotIsolation:        "snapshot-isolation",
	isolation.SessionSnapshotIsolation: "strong-session-snapshot-isolation",
	isolation.StrongSnapshotIsolation:  "strong-snapshot-isolation",
	isolation.Serializable:             "serializable",
	isolation.SessionSerializable:      "strong-session-serializable",
	isolation.StrictSerializable:       "strict-serializable",
}

// TestAgreesWithAdya compares verdicts and names with the adya crate on the same histories, at all levels. The crate
// does not support scans, so a scan is replaced by reads of all rows that it did not find. Lists cannot represent two
// writers of the same version without an aborted transaction, so for adya a lost update violates read committed.
func TestAgreesWithAdya(t *testing.T) {
	binary := adyaBinary(t)
	const seeds = 20
	var table strings.Builder
	fmt.Fprintf(&table, "%-30s %-8s", "injected", "name")
	for _, l := range isolation.Levels() {
		fmt.Fprintf(&table, " %s", l)
	}
	table.WriteString("   adya calls it\n")
	compare := func(class string, txns []Txn, agree map[isolation.Level]int) (*Verdict, []string) {
		translated := appends(t, expand(t, txns))
		names := map[isolation.Level][]string{}
		all := checkAll(t, historyOf(txns))
		for l, v := range all {
			valid, anomalies := askAdya(t, binary, adyaModels[l], translated)
			if v.Passed == valid {
				agree[l]++
			} else if l != isolation.ReadCommitted || v.Stats.Found[LostUpdate] == 0 {
				t.Errorf("%s, %v: we say %v %s, adya says %v %v\n%s", class, l, v.Passed, v.Anomaly, valid, anomalies, v.Explanation)
			}
			names[l] = anomalies
		}
		strict := all[isolation.StrictSerializable]
		if strings.HasSuffix(string(strict.Anomaly), "-process") { // adya ignores clients at levels with real time
			return strict, names[isolation.SessionSerializable]
		}
		return strict, names[isolation.StrictSerializable]
	}
	for _, class := range slices.Sorted(maps.Keys(injections)) {
		agree := map[isolation.Level]int{}
		named := 0
		names := map[string]int{}
		for seed := range uint64(seeds) {
			v, anomalies := compare(fmt.Sprintf("%s, seed %d", class, seed), inject(t, class, serial(seed, 100, 6, 8, 0)), agree)
			names[strings.Join(anomalies, " ")]++
			if sameName(v.Anomaly, anomalies) {
				named++
			} else {
				t.Errorf("%s, seed %d: we call it %q, adya %v", class, seed, v.Anomaly, anomalies)
			}
		}
		fmt.Fprintf(&table, "%-30s %2d/%d   ", class, named, seeds)
		for _, l := range isolation.Levels() {
			fmt.Fprintf(&table, " %*s", len(l.String()), fmt.Sprintf("%d/%d", agree[l], seeds))
		}
		fmt.Fprintf(&table, "   %v\n", names)
	}
	for name, random := range map[string]func(seed uint64) []Txn{
		"0 to 3 reads exchanged": func(seed uint64) []Txn {
			txns := serial(seed, 100, 8, 6, 0)
			mutate(rand.New(rand.NewPCG(seed, 5)), txns, int(seed)%4)
			return txns
		},
		"snapshots at one site": func(seed uint64) []Txn {
			return alone(interleaved(rand.New(rand.NewPCG(seed, 6)), 20, int(seed)%4, oneSite, true))
		},
		"snapshots at two sites": func(seed uint64) []Txn {
			return alone(interleaved(rand.New(rand.NewPCG(seed, 7)), 20, int(seed)%2, twoSites, true))
		},
	} {
		found, agree := map[string]int{}, map[isolation.Level]int{}
		for seed := range uint64(40) {
			v, _ := compare(fmt.Sprintf("%s, seed %d", name, seed), random(seed), agree)
			found[cmp.Or(string(v.Anomaly), "passes")]++
		}
		fmt.Fprintf(&table, "40 random histories (%s), verdicts that agree: %v of %v\n", name, agree, found)
	}
	t.Logf("\n%s", &table)
}

// alone moves overlapping transactions of a client to different clients, and omits scans that do not report deleted
// rows.
func alone(txns []Txn) []Txn {
	var until []time.Duration
	for i := range txns {
		x := &txns[i]
		c := slices.IndexFunc(until, func(d time.Duration) bool { return d < x.Invoked })
		if c < 0 {
			c = len(until)
			until = append(until, 0)
		}
		x.Client, until[c] = uint32(c), x.Answered
		x.Ops = slices.DeleteFunc(x.Ops, func(o Op) bool { return o.Kind == Scan && o.Gone })
	}
	return txns
}

// mutate replaces the versions of n reads with other versions of the same row.
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

// sameName reports whether our anomaly is among adya's. It treats predicates as items, because scans were translated
// into reads.
func sameName(ours Anomaly, theirs []string) bool {
	if ours == "" {
		return len(theirs) == 0
	}
	item := func(s string) string { return strings.Replace(s, "-item", "", 1) }
	return slices.ContainsFunc(theirs, func(s string) bool { return item(s) == item(string(ours)) })
}
