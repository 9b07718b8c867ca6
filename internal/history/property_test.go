package history

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		v := Check(historyOf(txns), StrictSerializable)
		if !v.Passed {
			t.Fatalf("seed %d: %s", seed, v.Explanation)
		}
		if seed%20 > 10 && v.Stats.UnknownCommitted == 0 {
			t.Errorf("seed %d: no unknown transaction was found out: %+v", seed, v.Stats)
		}
	}
}

// possible says by trying all orders whether a small history has a serial one, which agrees with real time if strict.
func possible(txns []Txn, strict bool) bool {
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
	last := map[txn.Key]txn.ID{}
	used := make([]bool, len(in))
	var try func(placed int) bool
	try = func(placed int) bool {
		if placed == len(in) {
			return true
		}
	next:
		for i := range in {
			if used[i] {
				continue
			}
			for j := range in {
				if strict && !used[j] && j != i && in[j].Status == txn.Committed && in[j].Answered < in[i].Invoked {
					continue next
				}
			}
			before := map[txn.Key]txn.ID{}
			ok := true
			for _, o := range in[i].Ops {
				if _, wrote := before[o.Key]; o.Known && o.Version != last[o.Key] && !(o.Kind == Write && wrote) {
					ok = false
					break
				}
				if o.Kind == Write {
					if _, wrote := before[o.Key]; !wrote {
						before[o.Key] = last[o.Key]
					}
					last[o.Key] = in[i].ID
				}
			}
			used[i] = true
			if ok && try(placed+1) {
				return true
			}
			used[i] = false
			for k, id := range before {
				last[k] = id
			}
		}
		return false
	}
	return try(0)
}

// Check agrees with trying all orders, on histories in which some versions were exchanged for others and some outcomes
// for others: it says exactly of those that have no serial order that they have none.
func TestAgreesWithAllOrders(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		txns := serial(seed, 2+r.IntN(5), 1+r.IntN(4), 1+4+r.IntN(2), 20)
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
		complete := true
		if r.IntN(10) == 0 {
			// A blind write that does not say what it overwrote: some orders cannot be told apart from others.
			if x := &txns[r.IntN(len(txns))]; len(x.Ops) > 0 {
				if o := &x.Ops[len(x.Ops)-1]; o.Kind == Write {
					o.Known, o.Version, complete = false, Initial, false
				}
			}
		}
		h := historyOf(txns)
		for _, level := range []Level{Serializable, StrictSerializable} {
			v := Check(h, level)
			complete := complete && v.Stats.UnknownCommitted == 0
			want := possible(txns, level == StrictSerializable)
			if v.Passed != want && (complete || want) {
				t.Fatalf("seed %d: %v passed is %v, but whether there is an order is %v\n%s\n%+v", seed, level, v.Passed, want, v.Explanation, txns)
			}
			counts[fmt.Sprintf("%v %v %s", level, v.Passed, v.Anomaly)]++
		}
	}
	t.Log(counts)
	if len(counts) < 12 {
		t.Errorf("few kinds of histories: %v", counts)
	}
}

// A read of another version than the one that was there is caught, or the history has an order all the same.
func TestMutatedReads(t *testing.T) {
	caught, equivalent := 0, 0
	for seed := range uint64(100) {
		txns := serial(seed, 300, 10, 8, 0)
		mutate(rand.New(rand.NewPCG(seed, 4)), txns, 1)
		if v := Check(historyOf(txns), StrictSerializable); !v.Passed {
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
	if v := Check(h, StrictSerializable); v.Passed {
		t.Error("a stale read 1 ms later passes, although clocks are right within 0.5 ms")
	}
	h.ClockError = time.Millisecond
	if v := Check(h, StrictSerializable); !v.Passed {
		t.Errorf("clocks that are wrong by 1 ms cannot tell this: %s", v.Explanation)
	}
	h = parseHistory(t, `
		1 west/0 0-5 ok rx0 wx0
		2 west/0 6-9 ok rx0`)
	h.ClockError = time.Second
	if v := Check(h, StrictSerializable); v.Anomaly != GSingle+"-process" {
		t.Errorf("a client that does not see its own write: %q", v.Anomaly)
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
			Check(h, StrictSerializable)
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
		for level := ReadCommitted; level <= StrictSerializable; level++ {
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
