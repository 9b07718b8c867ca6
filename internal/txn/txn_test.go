package txn

import (
	"errors"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	tests := map[string]struct {
		key   Key
		table Table
		shard uint64
		print string
		valid bool
	}{
		"integer":           {IntKey(2, 17), 2, 17, "t2/17", true},
		"largest integer":   {IntKey(127, 1<<64-1), 127, 1<<64 - 1, "t127/18446744073709551615", true},
		"composite":         {CompositeKey(3, 5, []byte{1, 2}), 3, 5, "t3/5/0102", true},
		"string":            {StringKey(0, "Client17"), 0, uint64(HashString("Client17")), `t0/"Client17"`, true},
		"empty":             {"", 0, 0, "invalid key ", false},
		"integer cut short": {Key([]byte{1, 2, 3}), 1, 0, "invalid key 010203", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.key.Valid(); got != tc.valid {
				t.Errorf("Valid = %v", got)
			}
			if got := tc.key.String(); got != tc.print {
				t.Errorf("String = %q, want %q", got, tc.print)
			}
			if got := tc.key.Shard(); got != tc.shard {
				t.Errorf("Shard = %d, want %d", got, tc.shard)
			}
			if tc.valid && tc.key.Table() != tc.table {
				t.Errorf("Table = %d, want %d", tc.key.Table(), tc.table)
			}
		})
	}
}

// TestHashString holds the placement hash to murmurhash3's published vectors: with another hash, data would be placed
// otherwise than in the paper's systems.
func TestHashString(t *testing.T) {
	for s, want := range map[string]uint32{"": 0, "test": 0xba6bd213, "Hello, world!": 0xc0363e43, "The quick brown fox jumps over the lazy dog": 0x2e4ff723} {
		if got := HashString(s); got != want {
			t.Errorf("HashString(%q) = %#x, want %#x", s, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	id := MakeID(0xabcdef, 42)
	if id.Stream() != 0xabcdef || id.String() != "11259375.42" {
		t.Errorf("id %v of stream %#x", id, id.Stream())
	}
}

func TestPrepareRefuses(t *testing.T) {
	bad := errors.New("no such account")
	accesses := func(a []Access, err error) func([]byte, []Access) ([]Access, error) {
		return func([]byte, []Access) ([]Access, error) { return a, err }
	}
	r := NewRegistry(
		&Procedure{ID: 1, Name: "good", Accesses: accesses([]Access{{IntKey(0, 1), Read}}, nil)},
		&Procedure{ID: 2, Name: "malformed", Accesses: accesses(nil, bad)},
		&Procedure{ID: 3, Name: "idle", Accesses: accesses(nil, nil)},
		&Procedure{ID: 4, Name: "wild", Accesses: accesses([]Access{{"", Write}}, nil)},
		&Procedure{ID: 5, Name: "modeless", Accesses: accesses([]Access{{IntKey(0, 1), 0}}, nil)},
	)
	tests := map[ProcID]string{1: "", 2: "no such account", 3: "names no key", 4: "not a valid access", 5: "not a valid access", 6: "not registered", 0: "not registered"}
	for proc, want := range tests {
		tx := &Transaction{ID: 7, Proc: proc}
		err := r.Prepare(tx)
		switch {
		case want == "" && (err != nil || len(tx.Accesses) != 1):
			t.Errorf("procedure %d: %v, accesses %v", proc, err, tx.Accesses)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("procedure %d: %v, want %q", proc, err, want)
		}
	}
}

func TestTwoProceduresWithOneNumber(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewRegistry(&Procedure{ID: 1, Name: "a"}, &Procedure{ID: 1, Name: "b"})
}

func TestClasses(t *testing.T) {
	for want, c := range map[string]Class{
		"SH-SP": ClassOf(false, false), "SH-MP": ClassOf(false, true), "MH-SP": ClassOf(true, false), "MH-MP": ClassOf(true, true),
	} {
		if c.String() != want || c.MultiHome() != (want[0] == 'M') || c.MultiPartition() != (want[3] == 'M') {
			t.Errorf("%s: %v, multi-home %v, multi-partition %v", want, c, c.MultiHome(), c.MultiPartition())
		}
	}
}
