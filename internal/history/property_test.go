package history

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/isolation"
	"github.com/geobench/geobench/internal/txn"
)

// serial returns the transactions of a history that is strictly serializable.
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

// Whatever took effect one after the other passes, in any order of recording, however many outcomes are unknown.
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

// interleaved returns a random small history of transactions that overlap: most of it is what a database with snapshots does
// that lets the first committer win, and some of it is not.
func interleaved(r *rand.Rand) []Txn {
	n, rows := 2+r.IntN(4), 1+r.IntN(3)
	type state struct {
		version txn.ID
		nth     uint8
	}
	now := map[txn.Key]state{}
	snapshots := make([]map[txn.Key]state, n)
	out := make([]Txn, n)
	started, running := 0, []int{}
	wrong := r.IntN(4) // quarters of the histories by how much is wrong in them
	for at := time.Duration(10); started < n || len(running) > 0; at += 10 {
		if started < n && (len(running) == 0 || r.IntN(2) == 0) {
			snapshots[started] = maps.Clone(now)
			x := &out[started]
			*x = Txn{ID: testID(uint64(started + 1)), Client: uint32(r.IntN(3)), Status: txn.Committed, Invoked: at - time.Duration(r.IntN(30))}
			running = append(running, started)
			started++
			continue
		}
		k := r.IntN(len(running))
		i := running[k]
		running = slices.Delete(running, k, k+1)
		x := &out[i]
		x.Answered = max(at+time.Duration(r.IntN(30)-5*wrong), x.Invoked)
		for range 1 + r.IntN(3) {
			key := txn.IntKey(1, uint64(r.IntN(rows)))
			if slices.ContainsFunc(x.Ops, func(o Op) bool { return o.Key == key }) {
				continue
			}
			seen := snapshots[i][key]
			if r.IntN(20) < wrong {
				seen = now[key]
			}
			kind := r.IntN(3)
			if kind < 2 {
				x.Ops = append(x.Ops, Op{Key: key, Version: seen.version, Known: true, Nth: seen.nth})
			}
			if kind == 0 || seen != now[key] && r.IntN(10) >= wrong {
				continue
			}
			x.Ops = append(x.Ops, Op{Kind: Write, Key: key, Version: seen.version, Known: true, Nth: 1})
			now[key] = state{x.ID, 1}
		}
	}
	return out
}

// explained says by trying all executions whether a level allows one that explains a small history. With snapshots, an execution is
// an order of starts and commits: a transaction reads what was committed when it started, and commits if nobody has
// overwritten since then what it overwrites. A serial one commits each transaction as soon as it has started.
func explained(txns []Txn, level isolation.Level) bool {
	var in []Txn
	seen := map[txn.ID]map[txn.Key]bool{}
	for _, t := range txns {
		if t.Status == txn.Committed {
			for _, o := range t.Ops {
				if o.Known && o.Version != t.ID {
					if seen[o.Version] == nil {
						seen[o.Version] = map[txn.Key]bool{}
					}
					seen[o.Version][o.Key] = true
				}
			}
		}
	}
	for _, t := range txns {
		switch {
		case t.Status == txn.Committed:
			in = append(in, t)
		case t.Status == txn.Unknown && seen[t.ID] != nil:
			// It wrote what was seen of it, and nothing is known of what it overwrote.
			t.Ops = nil
			for k := range seen[t.ID] {
				t.Ops = append(t.Ops, Op{Kind: Write, Key: k})
			}
			in = append(in, t)
		}
	}
	// mustFollow says that transaction i starts after j has committed.
	mustFollow := func(i, j int) bool {
		if in[j].Status != txn.Committed {
			return false
		}
		return isolation.Implies(level, isolation.StrongSnapshotIsolation) && in[j].Answered < in[i].Invoked ||
			isolation.Implies(level, isolation.SessionSnapshotIsolation) && in[j].Client == in[i].Client && sessionOrder(in, j, i)
	}
	serially := isolation.Implies(level, isolation.Serializable)
	now := map[txn.Key]txn.ID{}
	snapshots := make([]map[txn.Key]txn.ID, len(in))
	done := make([]bool, len(in))
	var try func(left int) bool
	// commit goes on with transaction i committed, if it may be.
	commit := func(i, left int) bool {
		before := now
		now = maps.Clone(now)
		defer func() { now, done[i] = before, false }()
		for _, o := range in[i].Ops {
			if o.Kind != Write || now[o.Key] == in[i].ID {
				continue
			}
			if before[o.Key] != snapshots[i][o.Key] || o.Known && o.Version != before[o.Key] {
				return false
			}
			now[o.Key] = in[i].ID
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
			starts := readsFrom(&in[i], now)
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
	return try(len(in))
}

// sessionOrder reports whether the client of transactions i and j had the answer to i before it sent j. Clients here also overlap
// with themselves: then the one that was answered last before j was sent counts, and what came before it.
func sessionOrder(in []Txn, i, j int) bool { return in[i].Answered <= in[j].Invoked }

// readsFrom reports whether a transaction reads from a snapshot, and its own writes over it.
func readsFrom(t *Txn, snapshot map[txn.Key]txn.ID) bool {
	own := map[txn.Key]bool{}
	for _, o := range t.Ops {
		version := snapshot[o.Key]
		if own[o.Key] {
			version = t.ID
		}
		if o.Kind == Read && o.Known && o.Version != version {
			return false
		}
		own[o.Key] = own[o.Key] || o.Kind == Write
	}
	return true
}

// disturb exchanges some versions for others, and some outcomes for others. It returns false when some orders cannot be told
// apart from others any more.
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
	if r.IntN(10) == 0 {
		// A blind write that does not say what it overwrote.
		if x := &txns[r.IntN(len(txns))]; len(x.Ops) > 0 {
			if o := &x.Ops[len(x.Ops)-1]; o.Kind == Write {
				o.Known, o.Version = false, Initial
				return false
			}
		}
	}
	return true
}

// Check agrees with trying all executions: it says exactly of those histories that none explains that they don't have the level.
// And no level is another one in disguise: of each two there is a history that has one and not the other, unless one implies
// the other.
func TestAgreesWithAllExecutions(t *testing.T) {
	counts := map[string]int{}
	apart := map[[2]isolation.Level]int{}
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		var txns []Txn
		complete := true
		switch seed % 4 {
		case 0:
			txns = serial(seed, 2+r.IntN(5), 1+r.IntN(4), 1+4+r.IntN(2), 20)
			complete = disturb(r, txns)
		case 1:
			txns = interleaved(r)
			complete = disturb(r, txns)
		default:
			txns = interleaved(r)
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
			if v.Passed != want && (want || complete && v.Stats.UnknownCommitted == 0) {
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

// A read of another version than the one that was there is caught, or the history has an order all the same.
func TestMutatedReads(t *testing.T) {
	caught, equivalent := 0, 0
	for seed := range uint64(100) {
		txns := serial(seed, 300, 10, 8, 0)
		mutate(rand.New(rand.NewPCG(seed, 4)), txns, 1)
		if v := Check(historyOf(txns), isolation.StrictSerializable); !v.Passed {
			caught++
			continue
		}
		// Then the reader fits between the write of that version and its replacement, which must be concurrent with it.
		equivalent++
	}
	t.Logf("%d caught, %d with another order", caught, equivalent)
	if caught < 95 {
		t.Errorf("%d of 100 were not caught", equivalent)
	}
}

func TestFile(t *testing.T) {
	txns := serial(1, 50, 10, 20, 10)
	txns[3].Ops = append(txns[3].Ops, Op{Kind: Read, Key: txn.StringKey(3, "gone"), Gone: true}, Op{Kind: Write, Key: txn.StringKey(3, "gone"), Nth: 9, Gone: true})
	for i := range txns {
		if txns[i].Status == txn.Unknown {
			txns[i].Answered = txns[i].Invoked
		}
	}
	var file bytes.Buffer
	w := NewWriter(&file, Header{Region: "west", ClockError: time.Millisecond})
	for i := range txns {
		w.Add(&txns[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if h := r.Header(); h.Region != "west" || h.ClockError != time.Millisecond {
		t.Errorf("the header is %+v", h)
	}
	for i := range txns {
		var got Txn
		if err := r.Next(&got); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(txns[i].Ops, got.Ops); len(txns[i].Ops) > 0 && d != "" {
			t.Fatalf("transaction %d: %s", i, d)
		}
		got.Ops = txns[i].Ops
		if d := cmp.Diff(txns[i], got); d != "" {
			t.Fatalf("transaction %d: %s", i, d)
		}
	}
	h := &History{}
	if err := h.ReadFile(bytes.NewReader(file.Bytes())); err != nil || h.Len() != len(txns) || h.ClockError != time.Millisecond {
		t.Errorf("%d transactions, %v", h.Len(), err)
	}
	for cut := range file.Len() {
		h := &History{}
		if err := h.ReadFile(bytes.NewReader(file.Bytes()[:cut])); err == nil {
			t.Fatalf("a file cut at byte %d of %d is accepted", cut, file.Len())
		}
	}
}

func TestWriterRefusesHugeTransactions(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, Header{})
	x := Txn{ID: testID(1), Status: txn.Committed}
	for i := range 150_000 {
		x.Ops = append(x.Ops, Op{Key: txn.IntKey(1, uint64(i)), Known: true})
	}
	w.Add(&x)
	if err := w.Close(); err == nil || err.Error() != "transaction 1.1 with 150000 operations takes 1650011 bytes of history, over 1048576" {
		t.Error(err)
	}
}

// The uncertainty of clocks takes away orders in time that they cannot tell, but not those of one client.
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

// A client that gave up on an answer has had all the answers before, though the late one comes later still.
func TestClientThatGaveUp(t *testing.T) {
	h := parseHistory(t, `
		1 west/0 0-5 ok rx0 wx0
		2 west/0 6-100 ok ry0
		3 west/0 20-25 ok rx0`)
	h.ClockError = time.Second
	if v := Check(h, isolation.StrictSerializable); v.Anomaly != GSingleItem+"-process" {
		t.Errorf("a client that does not see its own write after it gave up on another answer: %q", v.Anomaly)
	}
	// Two late answers come before what is sent after both.
	h = parseHistory(t, `
		1 west/0 0-40 ok rx0 wx0
		2 west/0 5-30 ok ry0 wy0
		3 west/0 35-37 ok rx0
		4 west/0 45-50 ok rx1 ry0`)
	if v := Check(h, isolation.SessionSnapshotIsolation); v.Anomaly != GSingleItem+"-process" || v.Cycle[0].Key != txn.StringKey(0, "y") {
		t.Errorf("a client that has had two answers late does not see one of them: %q", v.Explanation)
	}
}

func FuzzSplitTrace(f *testing.F) {
	ops := []Op{
		{Kind: Read, Key: txn.IntKey(1, 7), Version: testID(9), Known: true, Nth: 1},
		{Kind: Write, Key: txn.IntKey(1, 7), Version: testID(9), Known: true, Nth: 1},
		{Kind: Read, Key: txn.StringKey(2, "k"), Known: true},
		{Kind: Write, Key: txn.StringKey(2, "l"), Gone: true, Nth: 200},
	}
	f.Add(AppendTrace([]byte("result"), ops))
	f.Add(AppendTrace(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		result, ops, err := SplitTrace(b)
		if err != nil {
			return
		}
		for _, o := range ops {
			if !o.Key.Valid() {
				t.Errorf("key %v is accepted", o.Key)
			}
		}
		again, ops2, err := SplitTrace(AppendTrace(slices.Clone(result), ops))
		if err != nil || !bytes.Equal(again, result) || !slices.Equal(ops, ops2) {
			t.Errorf("%v comes back as %v, %v", ops, ops2, err)
		}
	})
}

func FuzzFile(f *testing.F) {
	var file bytes.Buffer
	w := NewWriter(&file, Header{Region: "west"})
	for _, x := range serial(1, 3, 2, 5, 0) {
		w.Add(&x)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h := &History{}
		if h.ReadFile(bytes.NewReader(b)) == nil && h.Len() < 1000 {
			Check(h, isolation.StrictSerializable)
		}
	})
}

// Any history at all gets a verdict, with an explanation whose steps hang together.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
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
				x.Ops = append(x.Ops, o)
			}
			h.Add(i%3, &x)
		}
		passed := true
		for level := isolation.ReadCommitted; level <= isolation.StrictSerializable; level++ {
			v := Check(h, level)
			if v.Passed && !passed {
				t.Errorf("%v passes, but a weaker level does not", level)
			}
			if v.Passed == (v.Explanation != "") {
				t.Errorf("passed is %v, and the explanation %q", v.Passed, v.Explanation)
			}
			passed = v.Passed
			for i, s := range v.Cycle {
				if len(v.Cycle) > 1 && s.To != v.Cycle[(i+1)%len(v.Cycle)].From || s.Text == "" {
					t.Errorf("step %d does not lead to the next: %+v", i, v.Cycle)
				}
			}
		}
	})
}
