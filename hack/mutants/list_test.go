package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
)

const root = "../.."

// The text that each mutant edits occurs exactly once in the current tree. There are at least 12 mutants for every
// engine, and at least 40 for the packages that engines, load generators and results use.
func TestLists(t *testing.T) {
	all, err := ReadLists("lists")
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(root, all); err != nil {
		t.Error(err)
	}
	count := map[string]int{}
	for _, m := range all {
		count[m.Area]++
		for _, h := range m.Hunts {
			if _, known := engines.Lookup(h.Engine); h.Engine != "" && !known {
				t.Errorf("%s: %s: hunt: %q is no engine", m.At, m.ID(), h.Engine)
			}
		}
	}
	for _, name := range engines.Names() {
		if count[name] < 12 {
			t.Errorf("%s has %d mutants, not 12", name, count[name])
		}
	}
	shared := 0
	for _, area := range []string{"wire", "journal", "consensus", "checker", "load", "results"} {
		shared += count[area]
	}
	if shared < 40 {
		t.Errorf("wire, journal, consensus, checker, load and results have %d mutants, not 40", shared)
	}
}

// Documentation states the number of mutants. This test fails if a stated number is outdated.
func TestPagesCountTheMutants(t *testing.T) {
	all, err := ReadLists("lists")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("in %d places", len(all))
	for _, page := range []string{"Makefile", "docs/correctness.md"} {
		if text := string(read(t, root, page)); !strings.Contains(text, want) {
			t.Errorf("%s does not say that mutants break the code %s", page, want)
		}
	}
}

// Each list contains the mutants of one area, and its name is the name of the area.
func TestEveryAreaIsOneList(t *testing.T) {
	all, err := ReadLists("lists")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if file, _, _ := strings.Cut(m.At, ":"); file != m.Area+".txt" {
			t.Errorf("%s: area %s belongs into %s.txt", m.At, m.Area, m.Area)
		}
	}
}

const sum1 = `# Sums.
area: sums
hunt: tests ./sums

mutant: one-more
file: sums/sums.go
wrong: A sum is one too large.
-	return a + b
+	return a + b + 1
`

func TestParse(t *testing.T) {
	list, err := parse("sums.txt", sum1)
	if err != nil {
		t.Fatal(err)
	}
	m := list[0]
	if len(list) != 1 || m.ID() != "sums/one-more" || m.At != "sums.txt:5" || m.File != "sums/sums.go" || m.Wrong != "A sum is one too large." {
		t.Errorf("%+v", m)
	}
	if len(m.Hunts) != 1 || m.Hunts[0].String() != "tests ./sums" {
		t.Errorf("hunts %v", m.Hunts)
	}
	if strings.Join(m.Old, "|") != "return a + b" || strings.Join(m.New, "|") != "return a + b + 1" {
		t.Errorf("%q becomes %q", m.Old, m.New)
	}
}

func TestWrongLists(t *testing.T) {
	for name, tc := range map[string]struct{ list, want string }{
		"a key that there is not":   {strings.Replace(sum1, "wrong:", "why:", 1), `sums.txt:7: "why" cannot stand here`},
		"a line that is none":       {strings.Replace(sum1, "-\treturn", "return", 1), "is neither `key: value` nor a line of an edit"},
		"a hunt that is none":       {strings.Replace(sum1, "tests ./sums", "fuzz ./sums", 1), "`fuzz ./sums`"},
		"worlds without seeds":      {strings.Replace(sum1, "tests ./sums", "worlds janus hostile", 1), "worlds ENGINE SEEDS"},
		"worlds of a kind":          {strings.Replace(sum1, "tests ./sums", "worlds janus 3 easy", 1), "[hostile] [slow] [core] [replace]"},
		"a mutant without an area":  {strings.Replace(sum1, "area: sums\n", "", 1), `"mutant" cannot stand here`},
		"nothing said":              {strings.Replace(sum1, "wrong: A sum is one too large.\n", "", 1), "wrong: it must say in a sentence what is broken"},
		"nothing that hunts":        {strings.Replace(sum1, "hunt: tests ./sums\n", "", 1), "hunt: there must be one"},
		"no such test":              {strings.Replace(sum1, "tests ./sums", "tests ./sums TestProduct", 1), "./sums has no test TestProduct"},
		"no such file":              {strings.Replace(sum1, "file: sums/sums.go", "file: sums/products.go", 1), "products.go: no such file"},
		"no edit":                   {strings.Replace(sum1, "+\treturn a + b + 1", "+\treturn a + b", 1), "the edit must have lines that go"},
		"the code is another":       {strings.Replace(sum1, "-\treturn a + b", "-\treturn a - b", 1), "has the lines that are edited 0 times, not once"},
		"the code is there twice":   {strings.Replace(sum1, "-\treturn a + b", "-}", 1), "has the lines that are edited 3 times, not once"},
		"a name that has been used": {sum1 + "\n" + sum1[strings.Index(sum1, "mutant:"):], "the name is taken at sums.txt:5"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := parse("sums.txt", tc.list)
			if err == nil {
				err = Check(module(t), list)
			}
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(tc.want, "`fuzz ./sums`", `"fuzz ./sums"`)) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
}

// module creates a Go module with small packages and tests, and returns its folder.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "module example\n\ngo 1.25\n",
		"sums/sums.go":           "// Package sums adds.\npackage sums\n\n// Of adds.\nfunc Of(a, b int) int {\n\treturn a + b\n}\n\n// Up counts up to n.\nfunc Up(n int) (i int) {\n\tfor i < n {\n\t\ti++\n\t}\n\treturn i\n}\n",
		"sums/sums_test.go":      "package sums\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tif Of(2, 2) != 4 {\n\t\tt.Fail()\n\t}\n}\n",
		"sums/up_test.go":        "package sums\n\nimport \"testing\"\n\nfunc TestUp(t *testing.T) {\n\tif Up(2) != 2 {\n\t\tt.Fail()\n\t}\n}\n",
		"sums/testdata/data.txt": "2 + 2 = 4\n",
		"doubles/doubles.go":     "// Package doubles doubles.\npackage doubles\n\nimport \"example/sums\"\n\n// Of doubles.\nfunc Of(a int) int { return sums.Of(a, a) }\n",
		"doubles/of_test.go":     "package doubles\n\nimport \"testing\"\n\nfunc TestDouble(t *testing.T) {\n\tif Of(3) != 6 {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
