package isolation

import (
	"strings"
	"testing"
)

// TestImplies compares the implications between levels with the literature; the comments name the sources. For each
// pair of levels without an implication, package history contains a history that distinguishes the two.
func TestImplies(t *testing.T) {
	implied := map[Level][]Level{
		ReadCommitted: {},
		// Berenson et al. 1995, remark 8; Adya 1999.
		SnapshotIsolation: {ReadCommitted},
		// Daudjee and Salem 2006.
		SessionSnapshotIsolation: {ReadCommitted, SnapshotIsolation},
		StrongSnapshotIsolation:  {ReadCommitted, SnapshotIsolation, SessionSnapshotIsolation},
		// Crooks et al. 2017; Cerone and Gotsman 2018.
		Serializable: {ReadCommitted, SnapshotIsolation},
		// Daudjee and Salem 2004 and 2006.
		SessionSerializable: {ReadCommitted, SnapshotIsolation, SessionSnapshotIsolation, Serializable},
		StrictSerializable: {ReadCommitted, SnapshotIsolation, SessionSnapshotIsolation, StrongSnapshotIsolation, Serializable,
			SessionSerializable},
	}
	if len(implied) != len(Levels()) {
		t.Fatalf("%d levels are known, and %d expected", len(Levels()), len(implied))
	}
	for _, a := range Levels() {
		want := map[Level]bool{a: true}
		for _, b := range implied[a] {
			want[b] = true
		}
		for _, b := range Levels() {
			if got := Implies(a, b); got != want[b] {
				t.Errorf("that %v implies %v is %v", a, b, got)
			}
			if Implies(a, b) && b > a {
				t.Errorf("%v comes before %v, which it implies", a, b)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for i, l := range Levels() {
		if got, err := Parse(l.String()); got != l || err != nil || Names()[i] != l.String() {
			t.Errorf("%v is parsed as %v, %v", l, got, err)
		}
	}
	for _, name := range []string{"", "Serializable", "snapshot", "level 0"} {
		if l, err := Parse(name); l != 0 || err == nil || !strings.HasPrefix(err.Error(), `"`+name+`" is not one of read-committed, snapshot-isolation, `) {
			t.Errorf("%q is %v, %v", name, l, err)
		}
	}
	for l, want := range map[Level]string{0: "level 0", StrictSerializable + 1: "level 8"} {
		if l.String() != want {
			t.Errorf("it is called %v, not %s", l, want)
		}
	}
}
