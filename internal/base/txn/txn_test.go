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
		"largest integer":   {IntKey(31, 1<<64-1), 31, 1<<64 - 1, "t31/18446744073709551615", true},
		"ordered":           {OrderedKey(3, 5, []byte{1}, []byte{0, 255}), 3, 5, "t3/5/[01]00ff", true},
		"group":             {OrderedKey(3, 5, nil, nil), 3, 5, "t3/5/[]", true},
		"everywhere":        {EverywhereKey(4, []byte{0, 9}), 4, 0, "t4/*/0009", true},
		"composite":         {CompositeKey(3, 5, []byte{1, 2}), 3, 5, "t3/5/0102", true},
		"string":            {StringKey(0, "Client17"), 0, uint64(HashString("Client17")), `t0/"Client17"`, true},
		"empty":             {"", 0, 0, "invalid key ", false},
		"integer cut short": {Key([]byte{1, 2, 3}), 1, 0, "invalid key 010203", false},
		"group cut short":   {Key([]byte{0x41, 0, 0, 0, 0, 0, 0, 0, 5, 2, 1}), 1, 5, "invalid key 4100000000000000050201", false},
		"two marks":         {Key([]byte{0x61, 0, 0, 0, 0, 0, 0, 0, 5, 0}), 1, 0, "invalid key 61000000000000000500", false},
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

// TestHashString compares the placement hash with published test vectors of murmurhash3. With a different hash, data
// would be placed differently than in the paper's systems.
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

func TestUnits(t *testing.T) {
	group := OrderedKey(3, 5, []byte("ab"), nil)
	row := OrderedKey(3, 5, []byte("ab"), []byte{255, 255})
	if row.Unit() != group || group.Unit() != group || IntKey(1, 2).Unit() != IntKey(1, 2) {
		t.Errorf("units %v and %v", row.Unit(), group.Unit())
	}
	next := OrderedKey(3, 5, []byte("ac"), nil)
	if end := group.End(); row >= end || next < end || Key("\xff\xff").End() != "" {
		t.Errorf("group %v ends at %x", group, string(end))
	}
}

// row returns a key in the given group (a, b, ...) of a table.
func row(group string, n byte) Key { return OrderedKey(1, 0, []byte(group), []byte{n}) }

func TestRanges(t *testing.T) {
	between := func(from, to byte) Range { return Range{From: row("a", from), To: row("a", to)} }
	limited := func(r Range, limit int, reverse bool) Range { r.Limit, r.Reverse = limit, reverse; return r }
	for name, tc := range map[string]struct {
		r, s   Range
		valid  bool // whether r is valid
		covers bool // whether r covers s
	}{
		"a row":                        {Point(IntKey(1, 2)), Point(IntKey(1, 2)), true, true},
		"another row":                  {Point(IntKey(1, 2)), Point(IntKey(1, 3)), true, false},
		"a group":                      {Prefix(row("a", 0).Unit()), between(3, 9), true, true},
		"two groups":                   {Range{From: row("a", 1), To: row("b", 2)}, between(1, 2), false, true},
		"rows without a group":         {Range{From: IntKey(1, 1), To: IntKey(1, 5)}, Point(IntKey(1, 2)), false, true},
		"backwards":                    {between(5, 2), Point(row("a", 3)), false, false},
		"a row of a range":             {between(2, 5), Point(row("a", 2)), true, true},
		"its end":                      {between(2, 5), Point(row("a", 5)), true, false},
		"a part":                       {between(2, 5), limited(between(3, 4), 7, true), true, true},
		"more":                         {between(2, 5), between(2, 6), true, false},
		"a row of the first three":     {limited(between(2, 5), 3, false), Point(row("a", 3)), true, false},
		"the first two of three":       {limited(between(2, 5), 3, false), limited(between(2, 5), 2, false), true, true},
		"two of three, a shorter one":  {limited(between(2, 5), 3, false), limited(between(2, 4), 2, false), true, true},
		"two of three, begun later":    {limited(between(2, 5), 3, false), limited(between(3, 5), 2, false), true, false},
		"all of the first three":       {limited(between(2, 5), 3, false), between(2, 5), true, false},
		"the first two, not the last":  {limited(between(2, 5), 3, true), limited(between(2, 5), 2, false), true, false},
		"the last two of three":        {limited(between(2, 5), 3, true), limited(between(3, 5), 2, true), true, true},
		"the last two of an early end": {limited(between(2, 5), 3, true), limited(between(2, 4), 2, true), true, false},
		"a limit below zero":           {limited(between(2, 5), -1, true), Point(row("a", 3)), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.r.Valid(); got != tc.valid {
				t.Errorf("%v is valid: %v", &tc.r, got)
			}
			if got := tc.r.Covers(&tc.s); tc.valid && got != tc.covers {
				t.Errorf("%v covers %v: %v", &tc.r, &tc.s, got)
			}
		})
	}
}

func TestFootprint(t *testing.T) {
	var f Footprint
	f.Add(IntKey(0, 1), ReadWrite)
	f.Add(row("a", 1), Write)
	f.Add(row("a", 2), Read)
	f.Add(EverywhereKey(2, []byte("x")), Read)
	f.AddScan(Range{From: row("b", 1), To: row("b", 9), Limit: 2})
	f.Exact = true
	if err := f.check(); err != nil {
		t.Error(err)
	}
	if len(f.Accesses) != 3 || f.Accesses[1] != (Access{row("a", 0).Unit(), ReadWrite}) {
		t.Errorf("accesses %v", f.Accesses)
	}
	reads := map[bool][]Range{
		true:  {Point(IntKey(0, 1)), Point(row("a", 2)), {From: row("b", 1), To: row("b", 5), Limit: 1}, Point(EverywhereKey(2, []byte("y")))},
		false: {Point(IntKey(0, 2)), Point(row("a", 1)), Prefix(row("a", 0).Unit()), Point(row("b", 1)), {From: row("c", 1), To: row("c", 2)}},
	}
	for want, ranges := range reads {
		for _, r := range ranges {
			if f.Reads(&r) != want {
				t.Errorf("reads %v: %v", &r, !want)
			}
		}
	}
	for k, want := range map[Key]bool{IntKey(0, 1): true, row("a", 77): true, row("b", 1): false, IntKey(0, 3): false, EverywhereKey(2, []byte("x")): false} {
		if f.Writes(k) != want {
			t.Errorf("writes %v: %v", k, !want)
		}
	}
}

func TestPrepareRefuses(t *testing.T) {
	bad := errors.New("no such account")
	declare := func(f Footprint, err error) func([]byte, *Footprint) error {
		return func(_ []byte, to *Footprint) error { *to = f; return err }
	}
	exact := func(a ...Access) Footprint { return Footprint{Accesses: a, Exact: true} }
	group := row("a", 1).Unit()
	tests := []struct {
		declare func([]byte, *Footprint) error
		want    string
	}{
		{declare(exact(Access{IntKey(0, 1), Read}), nil), ""},
		{declare(exact(), bad), "no such account"},
		{declare(exact(), nil), "names no key"},
		{declare(Footprint{}, nil), ""},
		{declare(exact(Access{"", Write}), nil), "not a valid access"},
		{declare(exact(Access{IntKey(0, 1), 0}), nil), "not a valid access"},
		{declare(exact(Access{row("a", 1), Write}), nil), "not a valid access"},
		{declare(exact(Access{EverywhereKey(1, nil), Read}), nil), "not a valid access"},
		{declare(exact(Access{group, Write}), nil), ""},
		{declare(exact(Access{group, Read}), nil), "names no range"},
		{declare(Footprint{[]Access{{group, Write}}, []Range{Prefix(group)}, true}, nil), "is not among the accesses that read"},
		{declare(Footprint{[]Access{{group, Read}}, []Range{{From: group, To: row("b", 1)}}, true}, nil), "not a range of one group"},
	}
	for i, tc := range tests {
		r := NewRegistry(&Procedure{ID: 1, Name: "p", Declare: tc.declare})
		err := r.Prepare(&Transaction{ID: 7, Proc: 1})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%d: %v, want %q", i, err, tc.want)
		}
	}
	if err := NewRegistry().Prepare(&Transaction{Proc: 1}); err == nil || !strings.Contains(err.Error(), "not registered") {
		t.Error(err)
	}
	for mode, want := range map[Mode]bool{Read: true, Write: false, ReadWrite: false} {
		f := exact(Access{IntKey(0, 1), Read}, Access{IntKey(0, 2), mode})
		err := NewRegistry(&Procedure{ID: 1, Name: "p", ReadOnly: true, Declare: declare(f, nil)}).Prepare(&Transaction{Proc: 1})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "p: the footprint writes t0/2, although the procedure is said to be ReadOnly") {
			t.Errorf("mode %d of a procedure that is read-only: %v", mode, err)
		}
	}
	// If a reconnaissance has found the footprint of a transaction (Found), Prepare checks it but does not declare it
	// again.
	r := NewRegistry(&Procedure{ID: 1, Name: "p", Declare: declare(exact(), bad)})
	found := &Transaction{Proc: 1, Found: true, Footprint: exact(Access{IntKey(0, 1), Read})}
	if err := r.Prepare(found); err != nil || len(found.Accesses) != 1 {
		t.Error(err)
	}
	found.Accesses[0].Mode = 0
	if r.Prepare(found) == nil {
		t.Error("takes an invalid footprint")
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

// oneRow is a Ctx with a single row, or with an error.
type oneRow struct {
	Ctx
	key   Key
	value []byte
	err   error
}

func (o oneRow) Get(k Key) ([]byte, error) {
	switch {
	case o.err != nil:
		return nil, o.err
	case k != o.key:
		return nil, ErrNotFound
	}
	return o.value, nil
}

func TestGetRow(t *testing.T) {
	const missing = Abort("no-row")
	failed := errors.New("the database has failed")
	for name, c := range map[string]struct {
		key     Key
		minSize int
		fails   error // error of the Ctx
		want    string
		err     error
	}{
		"long enough": {"k", 3, nil, "row", nil},
		"longer":      {"k", 0, nil, "row", nil},
		"too short":   {"k", 4, nil, "", missing},
		"not there":   {"x", 0, nil, "", missing},
		"failed":      {"k", 3, failed, "", failed},
	} {
		v, err := GetRow(oneRow{key: "k", value: []byte("row"), err: c.fails}, c.key, c.minSize, missing)
		if string(v) != c.want || err != c.err {
			t.Errorf("%s: %q, %v, want %q, %v", name, v, err, c.want, c.err)
		}
	}
}
