package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const sums = `area: sums
hunt: tests ./sums

mutant: one-more
file: sums/sums.go
wrong: A sum is one too large.
-	return a + b
+	return a + b + 1

mutant: of-large-numbers
file: sums/sums.go
wrong: Sums of large numbers are wrong.
-	return a + b
+	return min(a+b, 1000)

mutant: the-other-way-round
file: sums/sums.go
wrong: A sum is added the other way round.
equivalent: Addition is commutative.
-	return a + b
+	return b + a

mutant: no-code
file: sums/sums.go
wrong: The file is none of Go.
-	return a + b
+	return a +

mutant: counts-on
file: sums/sums.go
wrong: It never ends.
-	for i < n {
-		i++
+	for i < n {
+		i--
`

func mutants(t *testing.T, list string) []*Mutant {
	t.Helper()
	all, err := parse("sums.txt", list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func hunter(t *testing.T, root string, limit time.Duration) (*Hunter, *bytes.Buffer) {
	t.Helper()
	results, err := OpenResults(filepath.Join(t.TempDir(), "out", "mutants.json"))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	return &Hunter{Root: root, Tmp: t.TempDir(), Limit: limit, Results: results, Log: &log}, &log
}

// Mutants are hunted without modifying the tree. A mutant that does not compile does not stop the hunt for other
// mutants. A surviving mutant is an error unless it is listed as equivalent. A mutant with a valid result is not hunted
// again.
func TestHunt(t *testing.T) {
	root := module(t)
	all := mutants(t, sums)
	killed, survives, equivalent, wrong := all[0], all[1], all[2], all[3]
	h, log := hunter(t, root, time.Minute)
	before, err := os.ReadFile(filepath.Join(root, "sums", "sums.go"))
	if err != nil {
		t.Fatal(err)
	}
	err = h.Hunt(t.Context(), all[:4])
	if err == nil || !strings.Contains(err.Error(), "sums/no-code: the mutant does not compile") || strings.Contains(err.Error(), killed.ID()) {
		t.Fatalf("error %v, want that no-code does not compile", err)
	}
	if r := h.Results.Of(killed); r.Killer != "TestOf" || r.Hunt != "tests ./sums" || r.TestFile != "sums/sums_test.go" {
		t.Errorf("%s: %+v, want it killed by TestOf", killed.ID(), r)
	}
	if r := h.Results.Of(wrong); r != nil {
		t.Errorf("%s: %v, want nothing", wrong.ID(), r)
	}
	if r := h.Results.Of(survives); r.Killed() || r.CPU == 0 {
		t.Errorf("%s: %+v, want it to survive", survives.ID(), r)
	}
	err = h.Results.Unexplained(all[:3])
	if err == nil || !strings.Contains(err.Error(), "sums.txt:10: sums/of-large-numbers survives") || strings.Contains(err.Error(), equivalent.Name) {
		t.Errorf("error %v, want that of-large-numbers survives, and nothing else", err)
	}
	if after, err := os.ReadFile(filepath.Join(root, "sums", "sums.go")); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the tree was changed: %s", after)
	}

	log.Reset()
	again, err := OpenResults(h.Results.path)
	if err != nil {
		t.Fatal(err)
	}
	h.Results = again
	if err := h.Hunt(t.Context(), all[:3]); err != nil || log.Len() > 0 {
		t.Errorf("hunted again: %s (%v)", log, err)
	}
}

// A mutant that does not terminate is killed by the time limit, together with all its processes.
func TestNoEnd(t *testing.T) {
	root := module(t)
	h, _ := hunter(t, root, 16*time.Second)
	r, err := h.hunt(t.Context(), mutants(t, sums)[4])
	if err != nil {
		t.Fatal(err)
	}
	if r.Killer != byTime && r.Killer != "TestUp"+noEnd {
		t.Errorf("%+v, want it killed by time", r)
	}
}

// Tests that fail without a mutant and tests that do not exist kill no mutant. An interrupt stops the hunt.
func TestNothingToHuntWith(t *testing.T) {
	root := module(t)
	all := mutants(t, sums)
	h, _ := hunter(t, root, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Hunt(ctx, all[:1]); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("error %v, want that it was interrupted", err)
	}
	broken := strings.Replace(string(read(t, root, "sums/sums_test.go")), "!= 4", "!= 6", 1)
	if err := os.WriteFile(filepath.Join(root, "sums", "sums_test.go"), []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Hunt(t.Context(), all[:1]); err == nil || !strings.Contains(err.Error(), "tests ./sums, without a mutant: fails by itself: TestOf") {
		t.Errorf("error %v, want that the tests fail by themselves", err)
	}
	if len(h.Results.By) > 0 {
		t.Errorf("%v is kept of a mutant that nothing sound has hunted", h.Results.By)
	}
	// The remaining hunts are used, and the hunt that fails without a mutant is reported once for all mutants.
	two := mutants(t, sums)[:2]
	for _, m := range two {
		m.Hunts = append(m.Hunts, Hunt{Package: "./doubles"})
	}
	err := h.Hunt(t.Context(), two)
	if err == nil || strings.Count(err.Error(), "fails by itself: TestOf") != 1 || !strings.Contains(err.Error(), "of-large-numbers: it survives, but was not hunted by all that should") {
		t.Errorf("error %v, want that tests ./sums fails by itself, once, and what was not hunted by it", err)
	}
	if r := h.Results.Of(two[0]); len(h.Results.By) != 1 || r == nil || r.Killer != "TestDouble" {
		t.Errorf("%+v, want %s killed by TestDouble and no other", h.Results.By, two[0].ID())
	}
	all[0].Hunts[0].Run = "TestProduct"
	if err := h.Hunt(t.Context(), all[:1]); err == nil || !strings.Contains(err.Error(), "there is no such test") {
		t.Errorf("error %v, want that there is no such test", err)
	}
}

func read(t *testing.T, root, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A result is valid until one of its inputs changes. If a test killed the mutant, the inputs are the code and that
// test. If the mutant survived, they are the code and all tests.
func TestHolds(t *testing.T) {
	for name, tc := range map[string]struct {
		file             string
		killed, survived bool
	}{
		"nothing":          {"", true, true},
		"the code":         {"sums/sums.go", false, false},
		"the killing test": {"sums/sums_test.go", false, false},
		"another test":     {"sums/up_test.go", true, false},
		"a test's data":    {"sums/testdata/data.txt", true, false},
		"another package":  {"go.mod", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := module(t)
			m := mutants(t, sums)[0]
			was, err := fingerprint(root, m)
			if err != nil {
				t.Fatal(err)
			}
			killed := &Result{Hunt: "tests ./sums", Killer: "TestOf/large", Fingerprint: was}
			killed.killedBy(root, m.Hunts[0])
			survived := &Result{Fingerprint: was}
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(root, tc.file), append(read(t, root, tc.file), "// more\n"...), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			now, err := fingerprint(root, m)
			if err != nil {
				t.Fatal(err)
			}
			if killed.Holds(root, now) != tc.killed || survived.Holds(root, now) != tc.survived {
				t.Errorf("a kill holds: %v, a survival: %v", killed.Holds(root, now), survived.Holds(root, now))
			}
		})
	}
}

func TestTable(t *testing.T) {
	all := mutants(t, sums+"\n"+strings.ReplaceAll(sums[strings.Index(sums, "mutant: one-more"):strings.Index(sums, "\nmutant: of")], "one-more", "by-a-seed"))
	r := &Results{By: map[string]*Result{
		"sums/one-more":            {Hunt: "tests ./sums", Killer: "TestOf", CPU: 2},
		"sums/of-large-numbers":    {CPU: 3},
		"sums/the-other-way-round": {CPU: 3},
		"sums/no-code":             {Hunt: "tests ./sums", Killer: byTime, CPU: 10},
		"sums/counts-on":           {Hunt: "tests ./sums", Killer: "TestUp" + noEnd, CPU: 10},
		"sums/by-a-seed":           {Hunt: "worlds janus 3", Killer: "seed 2, convergence", CPU: 4},
	}}
	const want = "" +
		"| area | mutants | killed by tests | by worlds | by time | equivalent | survive | CPU time |\n" +
		"|---   |---      |---              |---        |---      |---         |---      |---       |\n" +
		"| sums | 6       | 1               | 1         | 2       | 1          | 1       | 32 s     |\n" +
		"| all  | 6       | 1               | 1         | 2       | 1          | 1       | 32 s     |\n" +
		"\n4 of 6 mutants were killed (66.7%; 80.0% of those that are not equivalent), in 32 s of CPU time.\n" +
		"- `sums/of-large-numbers` survives: Sums of large numbers are wrong. Nobody knows why.\n" +
		"- `sums/the-other-way-round` survives: A sum is added the other way round. Addition is commutative.\n"
	if got := r.Table(all); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.By["sums/the-other-way-round"] = &Result{Hunt: "tests ./sums", Killer: "TestOf"}
	if err := r.Unexplained(all[2:3]); err == nil || !strings.Contains(err.Error(), "it is listed as equivalent and was killed by tests ./sums: TestOf") {
		t.Errorf("error %v, want that it is not equivalent", err)
	}
}

func TestChoose(t *testing.T) {
	all := mutants(t, sums)
	for name, tc := range map[string]struct {
		area, only, shard string
		want, err         string
	}{
		"all":         {"", "", "", "one-more of-large-numbers the-other-way-round no-code counts-on", ""},
		"by name":     {"sums", "^o|no", "", "one-more of-large-numbers no-code", ""},
		"a shard":     {"", "", "1/2", "of-large-numbers no-code", ""},
		"a part":      {"sum", "", "", "", "no mutant is left"},
		"no shard":    {"", "", "2/2", "", `-shard: "2/2" is not I/N`},
		"bad pattern": {"", "(", "", "", "-only: error parsing regexp"},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(all, tc.area, tc.only, tc.shard)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %s", err, tc.err)
				}
				return
			}
			var names []string
			for _, m := range chosen {
				names = append(names, m.Name)
			}
			if got := strings.Join(names, " "); err != nil || got != tc.want {
				t.Errorf("%s (%v), want %s", got, err, tc.want)
			}
		})
	}
}

// The end of a command's output is kept, even if the command writes to both streams concurrently. The race detector
// checks this.
func TestBothOutputs(t *testing.T) {
	h, _ := hunter(t, t.TempDir(), time.Minute)
	const script = `(i=0; while [ $i -lt 3000 ]; do echo "out $i"; i=$((i+1)); done) & i=0; while [ $i -lt 3000 ]; do echo "err $i" >&2; i=$((i+1)); done; wait; echo end; echo end >&2`
	out, err := (&prey{Hunter: h}).run(t.Context(), nil, "sh", "-c", script)
	if err != nil || !bytes.Contains(out, []byte("end")) {
		t.Errorf("it said %q (%v)", out, err)
	}
}
