package workloadtest_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

// TestDatabaseFindsBrokenProcedures runs correct and faulty procedures on two rows without a group and on a group of
// two rows.
func TestDatabaseFindsBrokenProcedures(t *testing.T) {
	a, b := txn.IntKey(0, 1), txn.IntKey(0, 2)
	group := txn.Prefix(txn.OrderedKey(1, 3, nil, nil))
	first, second := txn.OrderedKey(1, 3, nil, []byte{1}), txn.OrderedKey(1, 3, nil, []byte{2})
	runs := uint64(0)
	get := func(c txn.Ctx, k txn.Key) []byte {
		v, err := c.Get(k)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, c := range map[string]struct {
		readOnly bool
		also     func(*txn.Footprint)
		run      func(c txn.Ctx, args []byte) ([]byte, error)
		want     string
	}{
		"a sound one": {false, nil, func(c txn.Ctx, args []byte) ([]byte, error) {
			n := 0
			err := c.Scan(group, func(txn.Key, []byte) bool { n++; return true })
			if err != nil {
				return nil, err
			}
			values, err := c.GetAll([]txn.Key{a, b})
			if err != nil {
				return nil, err
			}
			c.Put(a, append([]byte{byte(n)}, values[0]...))
			c.Put(b, values[1]) // Values may be passed on.
			return c.Get(a)
		}, ""},
		"a sound one that aborts": {false, nil, func(txn.Ctx, []byte) ([]byte, error) { return nil, txn.Abort("enough") }, ""},
		"a write of one that is read-only": {true, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			c.Put(a, []byte("x"))
			return nil, nil
		}, "broken: the procedure writes t0/1, although it is said to be ReadOnly"},
		"a deletion of one that is read-only": {true, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			c.Delete(a)
			return nil, nil
		}, "the procedure deletes t0/1, although it is said to be ReadOnly"},
		"a deletion from a table that is not listed": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			c.Delete(b)
			return nil, nil
		}, "the procedure deletes t0/2, and table 0 is not among its Deletes"},
		"an undeclared row": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			c.Put(txn.IntKey(0, 9), []byte("x"))
			return nil, nil
		}, "the procedure writes t0/9, which its footprint does not name"},
		"another result": {false, nil, func(txn.Ctx, []byte) ([]byte, error) {
			runs++
			return binary.BigEndian.AppendUint64(nil, runs), nil
		}, "the second time, though it read the same rows"},
		"another write": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			runs++
			c.Put(a, binary.BigEndian.AppendUint64(nil, runs))
			return nil, nil
		}, "to t0/1 the second time, though it read the same rows"},
		"one write more": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			if runs++; runs%2 == 0 {
				c.Put(a, nil)
			}
			c.Put(b, nil)
			return nil, nil
		}, "rows, and "},
		"another end": {false, nil, func(txn.Ctx, []byte) ([]byte, error) {
			if runs++; runs%2 == 0 {
				return nil, txn.Abort("even")
			}
			return nil, nil
		}, "even"},
		"a change of what Get returned": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			get(c, a)[0]++
			return nil, nil
		}, "the procedure changes the value of t0/1 that it got"},
		"a change of what GetAll returned": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			values, err := c.GetAll([]txn.Key{a, b})
			values[1][0]++
			return nil, err
		}, "the procedure changes the value of t0/2 that it got"},
		"a change of what Scan gave": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return nil, c.Scan(group, func(_ txn.Key, v []byte) bool { v[0]++; return true })
		}, "that it scanned"},
		"an append to what Get returned": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return append(get(c, a), 'x'), nil
		}, "the procedure changes the value of t0/1 that it got, or what lies behind it in memory"},
		"a change of what was put": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			v := []byte("x")
			c.Put(a, v)
			v[0] = 'y'
			return nil, nil
		}, "the procedure changes the value of t0/1 that it has put"},
		"a change of the arguments": {false, nil, func(_ txn.Ctx, args []byte) ([]byte, error) {
			args[0]++
			return nil, nil
		}, "the procedure changes its arguments"},
		"a Get in a scan": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return nil, c.Scan(group, func(txn.Key, []byte) bool { get(c, a); return true })
		}, "the procedure reads t0/1 from the function that it gave to Scan"},
		"a Put in a scan": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return nil, c.Scan(group, func(txn.Key, []byte) bool { c.Put(a, nil); return false })
		}, "the procedure writes t0/1 from the function that it gave to Scan"},
		"a scan in a scan": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return nil, c.Scan(group, func(txn.Key, []byte) bool {
				return c.Scan(group, func(txn.Key, []byte) bool { return false }) == nil
			})
		}, "from the function that it gave to Scan"},
		"an abort in place of the database's error": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			_, err := c.Get(a)
			if err == nil {
				_, err = c.Get(b)
			}
			if err != nil {
				err = txn.Abort("no-row")
			}
			return nil, err
		}, "broken: the procedure returns the error no-row where its read 1 of 2 has failed: return the error of the database as it is"},
		"another error around the database's": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			if _, err := c.GetAll([]txn.Key{a, b}); err != nil {
				return nil, fmt.Errorf("cannot read: %w", err)
			}
			return nil, nil
		}, "the procedure returns the error cannot read: the database has failed where its read 1 of 2 has failed"},
		"no error": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			return nil, c.Scan(group, func(txn.Key, []byte) bool {
				return true
			})
		}, ""},
		"an error that nobody looks at": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			_ = c.Scan(group, func(txn.Key, []byte) bool { return true })
			return nil, nil
		}, "the procedure returns the error <nil> where its read 1 of 1 has failed"},
		"a value that is not there": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			v, err := c.Get(a)
			return v[:1], err
		}, "the procedure returns the error panic: runtime error: slice bounds out of range"},
		"a read after the error": {false, nil, func(c txn.Ctx, _ []byte) ([]byte, error) {
			_, first := c.Get(a)
			_, second := c.Get(b)
			return nil, cmp.Or(first, second)
		}, "broken: the procedure reads on where its read 1 of 2 has failed: return the error of the database at once"},
		"a row that is named twice": {false, func(f *txn.Footprint) { f.Add(a, txn.Write) }, func(txn.Ctx, []byte) ([]byte, error) { return nil, nil },
			"broken: the footprint names t0/1 twice: add a row without a group once"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &txn.Procedure{ID: 1, Name: "broken", ReadOnly: c.readOnly, Run: c.run, Declare: func(_ []byte, f *txn.Footprint) error {
				mode := txn.ReadWrite
				if c.readOnly {
					mode = txn.Read
				}
				f.Add(a, mode)
				f.Add(b, mode)
				f.AddScan(group)
				f.Exact = true
				if c.also != nil {
					c.also(f)
				}
				return nil
			}}
			got := failures(t, func(t testing.TB) {
				d := workloadtest.New(t, p)
				for _, k := range []txn.Key{a, b, first, second} {
					d.Hash.Load(k, []byte("value"))
				}
				d.Run(&txn.Transaction{ID: 1, Proc: 1, Args: []byte("args")})
				if r, _ := d.Get(b); string(r.Value) != "value" {
					t.Errorf("a procedure has changed a value of the database: %q", r.Value)
				}
			})
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("failures: %q, want %q", got, c.want)
			}
		})
	}
}
