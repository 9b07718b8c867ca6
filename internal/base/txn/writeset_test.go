package txn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestWriteSetScan checks that a transaction sees the same rows of a range as if its writes were already in the
// database. This must hold in both directions and with every limit, although Scan reads only the widened range of the
// database.
func TestWriteSetScan(t *testing.T) {
	group := OrderedKey(1, 7, []byte{1}, nil)
	key := func(i int) Key { return group + Key(byte(i)) }
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 0))
		rows, seen := map[Key]string{}, map[Key]string{}
		for range r.IntN(8) {
			rows[key(r.IntN(12))] = "old"
		}
		for k, v := range rows {
			seen[k] = v
		}
		var w WriteSet
		for range r.IntN(8) {
			k := key(r.IntN(12))
			if r.IntN(3) == 0 {
				w.Delete(k)
				delete(seen, k)
			} else {
				v := fmt.Sprint(r.IntN(100))
				w.Put(k, []byte(v))
				seen[k] = v
			}
		}
		from, to := r.IntN(12), r.IntN(12)
		if from >= to {
			continue
		}
		g := Range{From: key(from), To: key(to), Reverse: r.IntN(2) == 0, Limit: r.IntN(5)}
		collect := func(rows map[Key]string, g Range, f func(Key, []byte) bool) {
			var keys []Key
			for k := range rows {
				if g.Contains(k) {
					keys = append(keys, k)
				}
			}
			slices.Sort(keys)
			if g.Reverse {
				slices.Reverse(keys)
			}
			for i, k := range keys {
				if g.Limit > 0 && i == g.Limit || !f(k, []byte(rows[k])) {
					return
				}
			}
		}
		tell := func(b *strings.Builder) func(Key, []byte) bool {
			n := 0
			return func(k Key, v []byte) bool {
				fmt.Fprintf(b, "%v=%s ", k, v)
				n++
				return n < 6
			}
		}
		var want, got strings.Builder
		collect(seen, g, tell(&want))
		err := w.Scan(g, func(g Range, f func(Key, []byte) bool) error {
			collect(rows, g, f)
			return nil
		}, tell(&got))
		if err != nil || got.String() != want.String() {
			t.Fatalf("seed %d: %v of %v with writes %v: %s, want %s (%v)", seed, &g, rows, w.Entries(), &got, &want, err)
		}
	}
}

// TestOwn checks that writes with copied values do not keep the original memory, and that appending to a value does not
// overwrite the next value.
func TestOwn(t *testing.T) {
	message := []byte("onetwo")
	writes := []WriteEntry{{Key: "a", Value: message[:3]}, {Key: "b", Deleted: true}, {Key: "c", Value: message[3:]}}
	Own(writes)
	clear(message)
	_ = append(writes[0].Value, "more"...)
	if a, c := string(writes[0].Value), string(writes[2].Value); a != "one" || c != "two" || !writes[1].Deleted {
		t.Errorf("values %q and %q, want one and two; the second is deleted: %v", a, c, writes[1].Deleted)
	}
}
