package history

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
)

func TestFile(t *testing.T) {
	txns := serial(1, 50, 10, 20, 10)
	txns[2].Ops = scanOps()
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
		if d := gocmp.Diff(txns[i].Ops, got.Ops); len(txns[i].Ops) > 0 && d != "" {
			t.Fatalf("transaction %d: %s", i, d)
		}
		got.Ops = txns[i].Ops
		if d := gocmp.Diff(txns[i], got); d != "" {
			t.Fatalf("transaction %d: %s", i, d)
		}
	}
	h := &History{}
	if err := h.ReadFile(bytes.NewReader(file.Bytes()), anySize); err != nil || h.Len() != len(txns) || h.ClockError != time.Millisecond {
		t.Errorf("%d transactions, %v", h.Len(), err)
	}
	for cut := range file.Len() {
		h := &History{}
		if err := h.ReadFile(bytes.NewReader(file.Bytes()[:cut]), anySize); err == nil {
			t.Fatalf("a file cut at byte %d of %d is accepted", cut, file.Len())
		}
	}
}

// anySize is larger than any test file.
var anySize = Size{1 << 40, 1 << 40}

// TestReadFileIsBounded checks that reading stops once a file exceeds its announced size, or has keys that are too
// long. Such a file might have no end.
func TestReadFileIsBounded(t *testing.T) {
	file := func(transactions int, key string) io.Reader {
		var b bytes.Buffer
		w := NewWriter(&b, Header{Region: "r"})
		for i := range transactions {
			w.Add(&Txn{ID: txn.MakeID(1, uint64(i+1)), Status: txn.Committed, Ops: []Op{{Key: txn.Key(fmt.Sprintf("%s%d", key, i))}, {Key: txn.Key(key)}}})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	short, long := "\x80k", "\x80"+strings.Repeat("k", 200)
	for name, c := range map[string]struct {
		file io.Reader
		most Size
		want string
	}{
		"as said":              {file(3, short), Size{3, 6}, ""},
		"more transactions":    {file(4, short), Size{3, 100}, "more than the 3 transactions and 100 operations"},
		"more operations":      {file(3, short), Size{3, 5}, "more than the 3 transactions and 5 operations"},
		"keys longer than any": {file(3, long), Size{3, 6}, "more than 64 bytes per operation"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &History{}
			if err := h.ReadFile(c.file, c.most); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if int64(h.Len()) > c.most.Transactions {
				t.Errorf("%d transactions were read", h.Len())
			}
		})
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

// pointOps returns operations of all kinds on rows, and scanOps adds scans of ranges.
func pointOps() []Op {
	return []Op{
		{Kind: Read, Key: txn.IntKey(1, 7), Version: testID(9), Known: true, Nth: 1},
		{Kind: Write, Key: txn.IntKey(1, 7), Version: testID(9), Known: true, Nth: 1},
		{Kind: Read, Key: txn.StringKey(2, "k"), Known: true, Gone: true},
		{Kind: Write, Key: txn.StringKey(2, "l"), Gone: true, Nth: 200},
	}
}

func scanOps() []Op {
	ops := append(pointOps(),
		Op{Kind: Scan, Key: txn.IntKey(1, 3), To: txn.IntKey(1, 9)},
		Op{Kind: Read, Key: txn.IntKey(1, 3), Version: testID(9), Known: true, Nth: 1},
		Op{Kind: Scan, Key: txn.IntKey(1, 3), To: "\x02", Gone: true},
		Op{Kind: Scan, Key: txn.IntKey(1, 3), To: txn.IntKey(1, 4)},
		Op{Kind: Write, Key: txn.IntKey(1, 3), Version: testID(9), Known: true, Nth: 1})
	return append([]Op{{Kind: Scan, Key: txn.StringKey(2, "a"), To: txn.StringKey(2, "b")}}, ops...)
}

// TestEncoding checks that the encoding of operations has not changed, and that scans survive encoding and decoding.
func TestEncoding(t *testing.T) {
	const points = "040a0901000000000000000701096b0602826b00001502826cc8"
	if got := hex.EncodeToString(AppendOps(nil, pointOps())); got != points {
		t.Errorf("operations are encoded as %s, and were as %s", got, points)
	}
	b := AppendOps(nil, scanOps())
	if got, rest, err := DecodeOps(b); !slices.Equal(got, scanOps()) || len(rest) > 0 || err != nil {
		t.Errorf("%+v comes back as %+v, %x, %v", scanOps(), got, rest, err)
	}
	key := "09010000000000000003"
	for name, bad := range map[string]string{
		"a scan that writes":                 "0181" + key + "0102",
		"a scan with a version":              "0182" + key + "000102",
		"a scan with a number":               "0188" + key + "0102",
		"a first scan like the one before":   "01a00102",
		"a range that ends at its beginning": "0180" + key + key,
		"a range without an end":             "0180" + key + "00",
		"a range cut short":                  "0180" + key,
		"a range from no key":                "018001010102",
	} {
		b, err := hex.DecodeString(bad)
		if err != nil {
			t.Fatal(err)
		}
		if ops, _, err := DecodeOps(b); err == nil {
			t.Errorf("%s is decoded as %+v", name, ops)
		}
	}
}

func FuzzSplitTrace(f *testing.F) {
	f.Add(AppendTrace([]byte("result"), pointOps()))
	f.Add(AppendTrace([]byte("result"), scanOps()))
	f.Add(AppendTrace(nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		result, ops, err := SplitTrace(b)
		if err != nil {
			return
		}
		for _, o := range ops {
			if !o.Key.Valid() || o.Kind == Scan && o.To <= o.Key || o.Kind != Scan && o.To != "" {
				t.Errorf("%+v is accepted", o)
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
	w.Add(&Txn{ID: testID(100), Status: txn.Committed, Ops: scanOps()})
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h := &History{}
		if h.ReadFile(bytes.NewReader(b), anySize) == nil && h.Len() < 1000 {
			Check(h, isolation.StrictSerializable)
		}
	})
}
