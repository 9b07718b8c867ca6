package codec

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/internal/base/txn"
)

func TestUvarint(t *testing.T) {
	for _, v := range []uint64{0, 1, 127, 128, 16383, 16384, 1 << 32, 1<<63 - 1, 1 << 63, math.MaxUint64} {
		b := AppendUvarint(nil, v)
		if len(b) != SizeUvarint(v) {
			t.Errorf("SizeUvarint(%d) = %d, want %d", v, SizeUvarint(v), len(b))
		}
		r := NewReader(b)
		if got := r.Uvarint(); got != v || r.Done() != nil {
			t.Errorf("%d comes back as %d, %v", v, got, r.Done())
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		body []byte
		read func(*Reader)
		want string
	}{
		"empty byte":       {nil, func(r *Reader) { r.Uint8() }, "at byte 0 of 0: the body ends early"},
		"short word":       {make([]byte, 7), func(r *Reader) { r.Uint64() }, "ends early"},
		"cut varint":       {[]byte{0x80, 0x80}, func(r *Reader) { r.Uvarint() }, "ends early"},
		"padded varint":    {[]byte{0x80, 0}, func(r *Reader) { r.Uvarint() }, "longer than it need be"},
		"long varint":      {bytes.Repeat([]byte{0xff}, 11), func(r *Reader) { r.Uvarint() }, "longer than 64 bits"},
		"65 bits":          {append(bytes.Repeat([]byte{0xff}, 9), 2), func(r *Reader) { r.Uvarint() }, "longer than 64 bits"},
		"bytes too long":   {[]byte{3, 1, 2}, func(r *Reader) { r.Bytes() }, "at byte 1 of 3: the body ends early"},
		"count":            {[]byte{3, 0, 0, 0, 0, 0}, func(r *Reader) { r.Count(2) }, "3 elements of at least 2 bytes do not fit into 5 bytes"},
		"left over":        {[]byte{1, 2}, func(r *Reader) { r.Uint8() }, "1 bytes are left over"},
		"number too large": {[]byte{9}, func(r *Reader) { r.UvarintMax(8) }, "9 is more than 8"},
		"status":           {[]byte{1, 1, 6, 0, 0}, func(r *Reader) { r.Outcome(&txn.Outcome{}) }, "0x6 does not hold the status"},
		"cause":            {[]byte{1, 1, 7 << 3, 0, 0}, func(r *Reader) { r.Outcome(&txn.Outcome{}) }, "0x38 does not hold the status"},
		"no extras":        {[]byte{1, 1, 3, 0, 0}, func(r *Reader) { r.Transaction(&txn.Transaction{}) }, "0 does not say what comes with a transaction"},
		"range":            {[]byte{0, 1, 0x6b}, func(r *Reader) { r.Range() }, "is not a valid range"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(tc.body)
			tc.read(&r)
			err := r.Done()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v does not say %q", err, tc.want)
			}
			if r.Uint8() != 0 || r.Uvarint() != 0 || r.Bytes() != nil || r.Uint64() != 0 || r.Err() != err {
				t.Error("the first error does not stick")
			}
		})
	}
}

func FuzzTransaction(f *testing.F) {
	f.Add(AppendTransaction(nil, &txn.Transaction{ID: txn.MakeID(7, 1<<39), Proc: 300, Args: []byte("args")}))
	group := txn.OrderedKey(1, 2, []byte("g"), nil)
	f.Add(AppendTransaction(nil, &txn.Transaction{ID: 1, Proc: 1, Attempt: 3, Found: true, Footprint: txn.Footprint{
		Accesses: []txn.Access{{Key: txn.IntKey(0, 1), Mode: txn.Write}, {Key: group, Mode: txn.Read}},
		Ranges:   []txn.Range{txn.Prefix(group), txn.Point(group + "a"), {From: group + "b", To: group + "c", Reverse: true, Limit: 300}}, Exact: true,
	}}))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		var x, y txn.Transaction
		r.Transaction(&x)
		if r.Done() != nil {
			return
		}
		again := AppendTransaction(nil, &x)
		if !bytes.Equal(again, b) || SizeTransaction(&x) != len(b) || len(b) < MinTransaction {
			t.Fatalf("%x comes back as %x, size %d", b, again, SizeTransaction(&x))
		}
		r = NewReader(again)
		r.Transaction(&y)
		if d := cmp.Diff(x, y); d != "" || r.Done() != nil {
			t.Fatal(d, r.Done())
		}
	})
}

func FuzzOutcome(f *testing.F) {
	f.Add(AppendOutcome(nil, &txn.Outcome{ID: txn.MakeID(1<<24-1, 1), Status: txn.Aborted, Reason: "funds", Result: []byte{1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		var x txn.Outcome
		r.Outcome(&x)
		if r.Done() != nil {
			return
		}
		again := AppendOutcome(nil, &x)
		if !bytes.Equal(again, b) || SizeOutcome(&x) != len(b) || len(b) < MinOutcome {
			t.Fatalf("%x comes back as %x, size %d", b, again, SizeOutcome(&x))
		}
	})
}

func BenchmarkTransaction(b *testing.B) {
	t := &txn.Transaction{ID: txn.MakeID(3, 100_000), Proc: 2, Args: make([]byte, 200)}
	buf := make([]byte, 0, 300)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendTransaction(buf[:0], t)
		r := NewReader(buf)
		var x txn.Transaction
		r.Transaction(&x)
		if r.Err() != nil {
			b.Fatal(r.Err())
		}
	}
}

func TestWrites(t *testing.T) {
	for _, writes := range [][]txn.WriteEntry{
		nil,
		{{Key: txn.IntKey(1, 2), Value: []byte("v")}},
		{{Key: txn.IntKey(1, 2), Deleted: true}, {Key: txn.StringKey(3, "name")}, {Key: txn.OrderedKey(4, 5, nil, []byte("row")), Value: make([]byte, 300)}},
	} {
		b := AppendWrites(nil, writes)
		if len(b) != SizeWrites(writes) {
			t.Errorf("%v takes %d bytes, not %d", writes, len(b), SizeWrites(writes))
		}
		r := NewReader(b)
		if got := r.Writes(); !reflect.DeepEqual(got, writes) || r.Done() != nil {
			t.Errorf("%v came back as %v, %v", writes, got, r.Done())
		}
		for n := range len(b) - 1 {
			if r := NewReader(b[:n]); n > 0 && r.Writes() != nil && r.Done() == nil {
				t.Errorf("%d of %d bytes are taken for writes", n, len(b))
			}
		}
	}
	r := NewReader(AppendWrites(nil, []txn.WriteEntry{{Key: "no key", Value: []byte("v")}}))
	if r.Writes(); r.Err() == nil {
		t.Error("a write to what is no key is read")
	}
}

func TestFlags(t *testing.T) {
	for f := range 4 {
		a, b := f&1 != 0, f&2 != 0
		packed := Flags(a, b)
		r := NewReader([]byte{packed, packed})
		if gotA, gotB := r.Flags(); gotA != a || gotB != b || r.Err() != nil {
			t.Errorf("%v and %v come back as %v and %v, %v", a, b, gotA, gotB, r.Err())
		}
		if got := r.Flag(); got != a || (r.Err() == nil) == b {
			t.Errorf("%v and %v come back as %v alone, %v", a, b, got, r.Err())
		}
	}
	r := NewReader([]byte{4})
	if r.Flags(); r.Err() == nil {
		t.Error("a third flag is taken")
	}
}
