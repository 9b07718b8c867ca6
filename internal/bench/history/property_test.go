package history

import (
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

// serial returns the transactions of a strictly serializable history.
func serial(seed uint64, n, clients, rows, unknownPercent int) []Txn {
	var out []Txn
	generate(seed, n, clients, rows, unknownPercent, func(_ int, t *Txn) {
		c := *t
		c.Ops = slices.Clone(t.Ops)
		out = append(out, c)
	})
	return out
}

func historyOf(txns []Txn) *History {
	h := &History{}
	regions(h)
	for i := range txns {
		h.Add(int(txns[i].Client)%8, &txns[i])
	}
	return h
}

// TestSerialHistoriesPass checks that serial executions pass, in any order of recording and with any number of unknown
// outcomes.
func TestSerialHistoriesPass(t *testing.T) {
	for seed := range uint64(20) {
		txns := serial(seed, 2000, 1+int(seed)*3, 1+5+int(seed), int(seed)%20)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(txns), func(i, j int) { txns[i], txns[j] = txns[j], txns[i] })
		v := Check(historyOf(txns), isolation.StrictSerializable)
		if !v.Passed {
			t.Fatalf("seed %d: %s", seed, v.Explanation)
		}
		if seed%20 > 10 && v.Stats.UnknownCommitted == 0 {
			t.Errorf("seed %d: no unknown transaction was found out: %+v", seed, v.Stats)
		}
	}
}

// rowState is the state of a row as a transaction sees it.
type rowState struct {
	version txn.ID
	nth     uint8
	there   bool
}

func (s rowState) read(k txn.Key) Op {
	return Op{Key: k, Version: s.version, Known: true, Nth: s.nth, Gone: !s.there}
}

// sites is the number of sites that interleaved simulates, and how they see each other's commits.
type sites int

const (
	oneSite sites = iota
	twoSites
)

// interleaved returns a small random history of overlapping transactions on a database with snapshots and the
// first-committer-wins rule. wrong is the frequency of deviations from this behavior; 0 means none. With two sites,
// each site has separate snapshots and learns the commits of the other site later: parallel snapshot isolation (Sovran
// et al. 2011).
func interleaved(r *rand.Rand, n, wrong int, sites sites, scans bool) []Txn {
	keys := make([]txn.Key, 1+r.IntN(4))
	now := [2]map[txn.Key]rowState{{}, {}}
	for i := range keys {
		keys[i] = txn.IntKey(1, uint64(i))
		now[0][keys[i]] = rowState{there: r.IntN(2) == 0}
		now[1][keys[i]] = now[0][keys[i]]
	}
	var later []func()
	snapshots := make([]map[txn.Key]rowState, n)
	out := make([]Txn, n)
	started, running := 0, []int{}
	for at := time.Duration(100); started < n || len(running) > 0; at += 10 {
		if started < n && (len(running) == 0 || r.IntN(2) == 0) {
			out[started] = Txn{ID: testID(uint64(started + 1)), Client: uint32(r.IntN(3)), Status: txn.Committed, Invoked: at - time.Duration(r.IntN(30))}
			snapshots[started] = maps.Clone(now[started%(1+int(sites))])
			running = append(running, started)
			started++
			continue
		}
		k := r.IntN(len(running))
		i := running[k]
		running = slices.Delete(running, k, k+1)
		x, here, there := &out[i], now[i%(1+int(sites))], now[(i+1)%(1+int(sites))]
		x.Answered = max(at+time.Duration(r.IntN(30)-10*wrong), x.Invoked)
		find := func(key txn.Key) rowState {
			if r.IntN(20) < wrong {
				return here[key]
			}
			return snapshots[i][key]
		}
		did := func(key txn.Key) bool {
			return slices.ContainsFunc(x.Ops, func(o Op) bool { return o.Kind != Scan && o.Key == key })
		}
		wrote := map[txn.Key]bool{}
		for range 1 + r.IntN(3) {
			if scans && r.IntN(3) == 0 {
				from, to := r.IntN(len(keys)), 1+r.IntN(len(keys))
				if from >= to {
					continue
				}
				scan := Op{Kind: Scan, Key: keys[from], To: txn.IntKey(1, uint64(to)), Gone: r.IntN(4) == 0}
				for _, key := range keys[from:to] {
					s := find(key)
					if o := s.read(key); !wrote[key] && !slices.Contains(x.Ops, o) && (s.there || s.version != Initial && !scan.Gone) {
						x.Ops = append(x.Ops, o)
					}
				}
				x.Ops = append(x.Ops, scan)
				continue
			}
			key := keys[r.IntN(len(keys))]
			if did(key) && r.IntN(2) == 0 || wrote[key] {
				continue
			}
			s := find(key)
			kind := r.IntN(3)
			if o := s.read(key); kind < 2 && !slices.Contains(x.Ops, o) {
				x.Ops = append(x.Ops, o)
			}
			// For the first-committer-wins rule, commits that this site has not received yet count as well.
			if latest := here[key]; kind == 0 || (s != latest || s != there[key]) && r.IntN(20) >= wrong {
				continue
			}
			wrote[key] = true
			w := Op{Kind: Write, Key: key, Version: s.version, Known: true, Nth: 1, Gone: r.IntN(3) == 0}
			x.Ops = append(x.Ops, w)
		}
		commit := func(site map[txn.Key]rowState) {
			for _, o := range x.Ops {
				if o.Kind == Write {
					site[o.Key] = rowState{x.ID, 1, !o.Gone}
				}
			}
		}
		commit(here)
		if sites == twoSites {
			later = append(later, func() { commit(there) })
			for r.IntN(3) == 0 && len(later) > 0 {
				later[0]()
				later = later[1:]
			}
		}
	}
	return out
}

// explained tries all executions and reports whether a level allows an execution that explains a small history. With
// snapshots, an execution is an order of starts and commits. A transaction reads the state that was committed when it
// started. It commits if, since its start, no other transaction has overwritten the versions that it overwrites. In a
// serial execution, each transaction commits immediately after its start. Rows may have been loaded or not.
func explained(txns []Txn, level isolation.Level) bool {
	var in []Txn
	seen := map[txn.ID]map[txn.Key]bool{}
	var keys []txn.Key
	for _, t := range txns {
		for _, o := range t.Ops {
			if t.Status != txn.Committed || o.Kind == Scan {
				continue
			}
			if !slices.Contains(keys, o.Key) {
				keys = append(keys, o.Key)
			}
			if o.Known && o.Version != t.ID {
				if seen[o.Version] == nil {
					seen[o.Version] = map[txn.Key]bool{}
				}
				seen[o.Version][o.Key] = true
			}
		}
	}
	for _, t := range txns {
		switch {
		case t.Status == txn.Committed:
			in = append(in, t)
		case t.Status == txn.Unknown && seen[t.ID] != nil:
			// An observed transaction has the writes that other transactions read; the versions that it overwrote are unknown.
			t.Ops = nil
			for k := range seen[t.ID] {
				t.Ops = append(t.Ops, Op{Kind: Write, Key: k})
			}
			in = append(in, t)
		}
	}
	// mustFollow reports whether transaction i starts after the commit of j. For transactions that a client sent at the
	// same time, the order of recording counts.
	mustFollow := func(i, j int) bool {
		if in[j].Status != txn.Committed {
			return false
		}
		sent := cmp.Or(cmp.Compare(in[j].Invoked, in[i].Invoked), cmp.Compare(j, i)) < 0
		return isolation.Implies(level, isolation.StrongSnapshotIsolation) && in[j].Answered < in[i].Invoked ||
			isolation.Implies(level, isolation.SessionSnapshotIsolation) && in[j].Client == in[i].Client && sent && in[j].Answered <= in[i].Invoked
	}
	serially := isolation.Implies(level, isolation.Serializable)
	now := map[txn.Key]rowState{}
	snapshots := make([]map[txn.Key]rowState, len(in))
	done := make([]bool, len(in))
	var try func(left int) bool
	// commit continues the search with transaction i committed, if that is allowed.
	commit := func(i, left int) bool {
		before := now
		now = maps.Clone(now)
		defer func() { now, done[i] = before, false }()
		for _, o := range in[i].Ops {
			if o.Kind != Write || now[o.Key].version == in[i].ID {
				continue
			}
			if before[o.Key].version != snapshots[i][o.Key].version || o.Known && o.Version != before[o.Key].version {
				return false
			}
			now[o.Key] = rowState{version: in[i].ID, there: !o.Gone}
		}
		done[i] = true
		return try(left - 1)
	}
	try = func(left int) bool {
		if left == 0 {
			return true
		}
		for i := range in {
			if done[i] {
				continue
			}
			if snapshots[i] != nil {
				if commit(i, left) {
					return true
				}
				continue
			}
			starts := readsFrom(&in[i], keys, now)
			for j := range in {
				starts = starts && (done[j] || i == j || !mustFollow(i, j))
			}
			if !starts {
				continue
			}
			snapshots[i] = maps.Clone(now)
			if serially && commit(i, left) || !serially && try(left) {
				return true
			}
			snapshots[i] = nil
		}
		return false
	}
	// load tries all sets of loaded rows that are compatible with the reads of initial versions.
	var load func(keys []txn.Key) bool
	load = func(keys []txn.Key) bool {
		if len(keys) == 0 {
			return try(len(in))
		}
		for _, s := range []rowState{{there: true}, {}} {
			agrees := true
			for _, t := range in {
				for _, o := range t.Ops {
					agrees = agrees && (o.Kind != Read || o.Key != keys[0] || !o.Known || o.Version != Initial || o.Gone != s.there)
				}
			}
			if now[keys[0]] = s; agrees && load(keys[1:]) {
				return true
			}
		}
		return false
	}
	return load(keys)
}

// readsFrom reports whether a transaction's reads match a snapshot with its own writes applied.
func readsFrom(t *Txn, keys []txn.Key, snapshot map[txn.Key]rowState) bool {
	own := map[txn.Key]rowState{}
	touched := map[txn.Key]bool{}
	for _, o := range t.Ops {
		if o.Kind == Scan {
			for _, k := range keys {
				s := snapshot[k]
				if o.Key <= k && k < o.To && !touched[k] && (s.there || s.version != Initial && !o.Gone) {
					return false
				}
			}
			continue
		}
		touched[o.Key] = true
		if o.Kind == Write {
			own[o.Key] = rowState{version: t.ID, there: !o.Gone}
			continue
		}
		s, ok := own[o.Key]
		if !ok {
			s = snapshot[o.Key]
		}
		if o.Known && (o.Version != s.version || o.Gone == s.there) {
			return false
		}
	}
	return true
}

// disturb replaces some versions and some outcomes. It returns false if the history no longer distinguishes some
// orders.
func disturb(r *rand.Rand, txns []Txn) (complete bool) {
	for range r.IntN(3) {
		x := &txns[r.IntN(len(txns))]
		if len(x.Ops) == 0 {
			continue
		}
		o := &x.Ops[r.IntN(len(x.Ops))]
		o.Nth = 0
		if n := r.IntN(len(txns) + 1); n == len(txns) {
			o.Version = Initial
		} else {
			o.Version = txns[n].ID
		}
	}
	if r.IntN(10) == 0 {
		txns[r.IntN(len(txns))].Status = txn.Aborted
	}
	if r.IntN(2) == 0 {
		// Let a scan miss a row that it had found.
		x := &txns[r.IntN(len(txns))]
		if at := slices.IndexFunc(x.Ops, func(o Op) bool { return o.Kind == Scan }); at > 0 && x.Ops[at-1].Kind == Read {
			x.Ops = slices.Delete(x.Ops, at-1, at)
		}
	}
	if r.IntN(10) == 0 {
		// Remove the overwritten version from a blind write.
		if x := &txns[r.IntN(len(txns))]; len(x.Ops) > 0 {
			if o := &x.Ops[len(x.Ops)-1]; o.Kind == Write {
				o.Known, o.Version = false, Initial
				return false
			}
		}
	}
	return true
}

// TestAgreesWithAllExecutions compares Check with trying all executions: Check must deny a level if and only if no
// execution explains the history. The levels must also be distinct: if one level does not imply another, some history
// must satisfy the first level but not the second.
func TestAgreesWithAllExecutions(t *testing.T) {
	counts := map[string]int{}
	apart := map[[2]isolation.Level]int{}
	for seed := range uint64(10_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var txns []Txn
		complete := true
		switch seed % 4 {
		case 0:
			txns = serial(seed, 2+r.IntN(5), 1+r.IntN(4), 1+4+r.IntN(2), 20)
			complete = disturb(r, txns)
		case 1:
			txns = interleaved(r, 2+r.IntN(4), r.IntN(4), oneSite, seed%8 < 4)
			complete = disturb(r, txns)
		case 2:
			txns = interleaved(r, 2+r.IntN(4), r.IntN(4), oneSite, seed%8 < 4)
		default:
			txns = interleaved(r, 4+r.IntN(2), r.IntN(2), twoSites, seed%8 < 4)
		}
		all := checkAll(t, historyOf(txns))
		for l, v := range all {
			counts[fmt.Sprintf("%v %s", l, v.Anomaly)]++
			for o, w := range all {
				if v.Passed && !w.Passed {
					apart[[2]isolation.Level{l, o}]++
				}
			}
			if l == isolation.ReadCommitted {
				continue
			}
			want := explained(txns, l)
			if v.Passed != want && (want || complete && v.Stats.UnknownCommitted == 0 && v.Stats.Unresolved == 0) {
				t.Fatalf("seed %d: %v passed is %v, but whether an execution explains it is %v\n%s\n%+v", seed, l, v.Passed, want, v.Explanation, txns)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		t.Log(k, counts[k])
	}
	if len(counts) < 60 {
		t.Errorf("there are %d kinds of histories", len(counts))
	}
	for _, a := range isolation.Levels() {
		for _, b := range isolation.Levels() {
			if n := apart[[2]isolation.Level{a, b}]; isolation.Implies(a, b) != (n == 0) {
				t.Errorf("%d histories have %v and not %v", n, a, b)
			}
		}
	}
}

// TestSnapshotHistoriesPass checks that histories of a database with snapshots have strong snapshot isolation, even if
// information about outcomes and deleted rows is missing.
func TestSnapshotHistoriesPass(t *testing.T) {
	unresolved := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 8))
		txns := interleaved(r, 60, 0, oneSite, true)
		for i := range txns {
			if r.IntN(100) < int(seed%20) {
				txns[i].Status, txns[i].Ops = txn.Unknown, nil
			}
			for k := range txns[i].Ops {
				// Some reads of missing rows do not name the transaction that deleted the row.
				if o := &txns[i].Ops[k]; o.Kind == Read && o.Gone && seed%2 == 0 && r.IntN(4) == 0 {
					o.Known, o.Version, o.Nth = false, Initial, 0
				}
			}
		}
		v := Check(historyOf(txns), isolation.StrongSnapshotIsolation)
		if !v.Passed {
			t.Fatalf("seed %d: %s", seed, v.Explanation)
		}
		unresolved += v.Stats.Unresolved
	}
	if unresolved == 0 {
		t.Error("all was told")
	}
}

// expand replaces each scan with reads of the rows in its range that it did not find, out of all rows of the history.
// These reads take the position of the scan.
func expand(t testing.TB, txns []Txn) []Txn {
	t.Helper()
	var keys []txn.Key
	for _, x := range txns {
		for _, o := range x.Ops {
			if x.Status == txn.Committed && o.Kind != Scan && !slices.Contains(keys, o.Key) {
				keys = append(keys, o.Key)
			}
		}
	}
	out := slices.Clone(txns)
	for i, x := range txns {
		var ops []Op
		met := map[txn.Key]bool{}
		for _, o := range x.Ops {
			if o.Kind != Scan {
				met[o.Key] = true
				ops = append(ops, o)
				continue
			}
			if o.Gone {
				t.Fatal("what a scan that does not meet deleted rows says is no read of a version")
			}
			for _, k := range keys {
				if o.Key <= k && k < o.To && !met[k] {
					met[k] = true
					ops = append(ops, Op{Key: k, Known: true, Gone: true})
				}
			}
		}
		out[i].Ops = ops
	}
	return out
}

// TestScansAgreeWithReads compares the verdicts on histories with scans and on their translations into reads. In a
// translation, a transaction reads each row that its scan did not find and finds it missing. The graph therefore has a
// separate dependency for each such row.
func TestScansAgreeWithReads(t *testing.T) {
	counts := map[string]int{}
	differs := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		var txns []Txn
		generateScans(seed, 150, 12, 2+r.IntN(3), 30, func(_ int, x *Txn) {
			c := *x
			c.Ops = slices.Clone(x.Ops)
			txns = append(txns, c)
		})
		switch seed % 4 {
		case 1:
			mutate(r, txns, 1+r.IntN(3))
		case 2, 3: // scans that miss rows
			for n := 0; n < 1+r.IntN(3); {
				x := &txns[r.IntN(len(txns))]
				if at := slices.IndexFunc(x.Ops, func(o Op) bool { return o.Kind == Scan }); at > 0 {
					k := r.IntN(at)
					x.Ops = slices.Delete(x.Ops, k, k+1)
					n++
				}
			}
		}
		scans, reads := checkAll(t, historyOf(txns)), checkAll(t, historyOf(expand(t, txns)))
		for l, v := range scans {
			if v.Passed != reads[l].Passed {
				t.Fatalf("seed %d, %v: passed is %v with scans, and %v with reads\n%s\n%s", seed, l, v.Passed, reads[l].Passed, v.Explanation, reads[l].Explanation)
			}
			if l == isolation.StrictSerializable {
				counts[string(v.Anomaly)]++
				if a := strings.Replace(string(reads[l].Anomaly), "-item", "", 1); a != strings.Replace(string(v.Anomaly), "-item", "", 1) {
					differs++
				}
			}
		}
	}
	t.Log(counts, differs)
	for _, a := range []Anomaly{"", GSingle, GSingleItem, PredicateReadMiss} {
		if counts[string(a)] < 10 {
			t.Errorf("%q: %d histories", a, counts[string(a)])
		}
	}
}

// TestTree checks that the nodes that cover a range of leaves have exactly these leaves below them.
func TestTree(t *testing.T) {
	for leaves := range uint32(40) {
		g := newGraph(3)
		var planted tree
		for range 2 {
			planted.plant(g, leaves)
			if !g.fill {
				g.counted()
			}
		}
		if n := max(1, 2*leaves) - 1; g.nodes() != int(3+n) {
			t.Fatalf("%d leaves make %d nodes", leaves, g.nodes()-3)
		}
		for from := range leaves + 1 {
			for to := from; to <= leaves; to++ {
				var below func(node uint32) []uint32
				below = func(node uint32) (out []uint32) {
					if g.first[node] == g.first[node+1] {
						return []uint32{node}
					}
					for _, e := range g.edges[g.first[node]:g.first[node+1]] {
						out = append(out, below(e&nodeMask)...)
					}
					return out
				}
				var got, want []uint32
				nodes := 0
				planted.cover(from, to, func(node uint32) { got, nodes = append(got, below(node)...), nodes+1 })
				for i := from; i < to; i++ {
					want = append(want, planted.leaf(i))
				}
				slices.Sort(got)
				if slices.Sort(want); !slices.Equal(got, want) || nodes > 2*bits.Len32(leaves) {
					t.Fatalf("of %d leaves, %d nodes cover those from %d to %d with %v, not %v", leaves, nodes, from, to, got, want)
				}
			}
		}
	}
}

// TestMutatedReads checks that a read of a version other than the current version is detected, unless the history still
// has a valid order.
func TestMutatedReads(t *testing.T) {
	caught, equivalent := 0, 0
	for seed := range uint64(100) {
		txns := serial(seed, 300, 10, 8, 0)
		mutate(rand.New(rand.NewPCG(seed, 4)), txns, 1)
		if v := Check(historyOf(txns), isolation.StrictSerializable); !v.Passed {
			caught++
			continue
		}
		// The history then has an order in which the reader is between the write of that version and its replacement. The
		// replacing transaction must be concurrent with the reader.
		equivalent++
	}
	t.Logf("%d caught, %d with another order", caught, equivalent)
	if caught < 95 {
		t.Errorf("%d of 100 were not caught", equivalent)
	}
}

// TestClockError checks that clock uncertainty removes real-time orders that the clocks cannot establish, but not the
// order of a client's transactions.
func TestClockError(t *testing.T) {
	h := parseHistory(t, `
		1 west/0 0-5 ok rx0 wx0
		2 east/1 6-9 ok rx0`)
	h.ClockError = 500 * time.Microsecond
	if v := Check(h, isolation.StrictSerializable); v.Passed {
		t.Error("a stale read 1 ms later passes, although clocks are right within 0.5 ms")
	}
	h.ClockError = time.Millisecond
	if v := Check(h, isolation.StrictSerializable); !v.Passed {
		t.Errorf("clocks that are wrong by 1 ms cannot tell this: %s", v.Explanation)
	}
	h = parseHistory(t, `
		1 west/0 0-5 ok rx0 wx0
		2 west/0 6-9 ok rx0`)
	h.ClockError = time.Second
	if v := Check(h, isolation.StrictSerializable); v.Anomaly != GSingleItem+"-process" {
		t.Errorf("a client that does not see its own write: %q", v.Anomaly)
	}
}

// TestClientThatGaveUp checks that a client that gave up on one answer is ordered after all earlier answers, although
// the late answer arrives afterwards.
func TestClientThatGaveUp(t *testing.T) {
	h := parseHistory(t, `
		1 west/0 0-5 ok rx0 wx0
		2 west/0 6-100 ok ry0
		3 west/0 20-25 ok rx0`)
	h.ClockError = time.Second
	if v := Check(h, isolation.StrictSerializable); v.Anomaly != GSingleItem+"-process" {
		t.Errorf("a client that does not see its own write after it gave up on another answer: %q", v.Anomaly)
	}
	// Two late answers precede the transactions that were sent after both arrived.
	h = parseHistory(t, `
		1 west/0 0-40 ok rx0 wx0
		2 west/0 5-30 ok ry0 wy0
		3 west/0 35-37 ok rx0
		4 west/0 45-50 ok rx1 ry0`)
	if v := Check(h, isolation.SessionSnapshotIsolation); v.Anomaly != GSingleItem+"-process" || v.Cycle[0].Key != txn.StringKey(0, "y") {
		t.Errorf("a client that has had two answers late does not see one of them: %q", v.Explanation)
	}
}

// FuzzCheck checks that Check returns a verdict for any history, with an explanation whose steps are connected.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	// A transaction found two rows of a cycle missing, and a scan had found only one of them.
	f.Add([]byte("00000001001000100200000000280800700A908080\x1d0+00100A0000000000000020%8000a02\xeb0800"))
	f.Fuzz(func(t *testing.T, b []byte) {
		next := func() int {
			if len(b) == 0 {
				return 0
			}
			v := int(b[0])
			b = b[1:]
			return v
		}
		h := &History{ClockError: time.Duration(next() % 3)}
		regions(h)
		for i := 1; len(b) > 0 && i < 30; i++ {
			x := Txn{ID: testID(uint64(i)), Client: uint32(next() % 4), Status: txn.Status(1 + next()%4)}
			x.Invoked = time.Duration(next())
			x.Answered = x.Invoked + time.Duration(next())
			for range next() % 6 {
				v := next()
				o := Op{Kind: Kind(v & 1), Key: txn.IntKey(0, uint64(v>>1&3)), Known: v&8 == 0, Gone: v&16 != 0, Nth: uint8(v >> 5 & 3)}
				if n := next() % 32; o.Known && n > 0 {
					o.Version = testID(uint64(n))
				}
				if v >= 224 { // 7 of 8 bits select a row; the largest values select a range
					o = Op{Kind: Scan, Key: o.Key, To: txn.IntKey(0, uint64(v>>1&3+1+v>>4&1)), Gone: o.Gone}
				}
				x.Ops = append(x.Ops, o)
			}
			h.Add(i%3, &x)
		}
		for _, v := range checkAll(t, h) {
			if v.Passed == (v.Explanation != "") {
				t.Errorf("passed is %v, and the explanation %q", v.Passed, v.Explanation)
			}
			for i, s := range v.Cycle {
				if len(v.Cycle) > 1 && s.To != v.Cycle[(i+1)%len(v.Cycle)].From || s.Text == "" {
					t.Errorf("step %d does not lead to the next: %+v", i, v.Cycle)
				}
			}
		}
	})
}
