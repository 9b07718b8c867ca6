package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/geobench/geobench/hack/gittest"
)

// TestMain makes the test binary replace Vale if WORDS_TEST_VALE is set: every line with the word "bad" is then a
// finding of the rule Words.
func TestMain(m *testing.M) {
	if os.Getenv("WORDS_TEST_VALE") == "" {
		os.Exit(m.Run())
	}
	type alert struct {
		Check, Message string
		Line           int
	}
	found := map[string][]alert{}
	files, err := filepath.Glob("*.txt")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		for i, line := range strings.Split(string(body), "\n") {
			if strings.Contains(line, "bad") {
				found[file] = append(found[file], alert{style + ".Words", "write good", i + 1})
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}

// tree is a repository with a budget.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree {
	t.Helper()
	gittest.Isolate(t)
	t.Setenv("WORDS_TEST_VALE", "1")
	tr := tree{t, t.TempDir()}
	tr.git("init", "-q", "-b", "main")
	tr.git("config", "user.email", "test@example.com")
	tr.git("config", "user.name", "Test")
	tr.write("hack/words/styles/Geobench/Words.yml", "extends: existence\n")
	tr.write("hack/words/vale.ini", "StylesPath = styles\n")
	return tr
}

func (tr tree) write(name, body string) {
	tr.t.Helper()
	file := filepath.Join(tr.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(body), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr tree) git(args ...string) {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), "git", args...)
	cmd.Dir = tr.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func (tr tree) commit() {
	tr.t.Helper()
	tr.git("add", "-A")
	tr.git("commit", "-q", "-m", "test: change the tree")
}

// words runs a command of this program, and returns its output or its error.
func (tr tree) words(args ...string) string {
	tr.t.Helper()
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	var out strings.Builder
	args = append([]string{args[0], "-root", tr.dir, "-vale", self}, args[1:]...)
	if err := command(context.Background(), args, &out); err != nil {
		return "error: " + err.Error()
	}
	return out.String()
}

func (tr tree) want(got string, parts ...string) {
	tr.t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			tr.t.Errorf("%q is missing in the output:\n%s", part, got)
		}
	}
}

func TestBudgetMayOnlyShrink(t *testing.T) {
	tr := newTree(t)
	tr.write("README.md", "A bad line.\n\nA bad line.\n")
	tr.write("CHANGELOG.md", "- bad\n")
	tr.write("a/a.go", "// Package a is bad.\npackage a\n")
	tr.want(tr.words("lower"), "")
	tr.want(tr.words("check"), "4 findings are within the budget of 4")
	tr.commit()

	// New findings are shown, whether they are committed or not.
	tr.write("README.md", "A bad line.\n\nNew and bad.\n\nA bad line.\n")
	tr.commit()
	tr.write("docs/new.md", "Bad is good.\nThis is bad.\n")
	for _, sub := range []string{"check", "lower"} {
		got := tr.words(sub)
		tr.want(got, "Words in docs: 4 findings, 2 more than the budget of 2", "README.md:3: Words: write good",
			"docs/new.md:2: Words")
		if strings.Contains(got, "README.md:5") {
			t.Errorf("an old finding is shown as a new one:\n%s", got)
		}
	}

	// The budget cannot be raised by hand, even in a separate commit.
	budget := filepath.Join(tr.dir, filepath.FromSlash(budgetFile))
	body, err := os.ReadFile(budget)
	if err != nil {
		t.Fatal(err)
	}
	raised := strings.Replace(string(body), "docs           2", "docs           4", 1)
	tr.write(budgetFile, raised)
	tr.want(tr.words("check"), "Words in docs: the budget was raised from 2", "to 4")
	tr.commit()
	tr.want(tr.words("check"), "Words in docs: the budget was raised from 2", "to 4")

	// The findings of a changed rule are counted again, even if their number has increased.
	tr.write("hack/words/styles/Geobench/Words.yml", "extends: existence\n# new\n")
	tr.want(tr.words("check"), "Words in docs: the rule has changed: run make words")
	tr.want(tr.words("lower"), "")
	tr.want(tr.words("check"), "6 findings are within the budget of 6")

	// The budget is lowered after text was rewritten.
	tr.write("README.md", "Good.\n")
	tr.want(tr.words("check"), "3 findings are within the budget of 6")
	tr.want(tr.words("lower"), "")
	tr.want(tr.words("check"), "3 findings are within the budget of 3")
}

func TestNewestFindings(t *testing.T) {
	words := slot{"Words", docs}
	found := []finding{
		{"a.md", 3, "Words", docs, "old", 3}, {"a.md", 5, "Words", docs, "new", 9}, {"a.md", 7, "Words", comments, "", 9},
		{"a.md", 7, "Other", docs, "", 9}, {"b.md", 7, "Words", docs, "old", 9},
	}
	for name, test := range map[string]struct {
		lines map[int]bool
		want  string
	}{
		"the line itself":     {map[int]bool{3: true, 6: true}, "[a.md:3: Words: old]"},
		"end of the sentence": {map[int]bool{9: true}, "[a.md:5: Words: new]"},
		"next paragraph":      {map[int]bool{4: true, 10: true}, "[]"},
		"no history":          {nil, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := since{"1234", map[string]map[int]bool{"a.md": test.lines}}
			if got := fmt.Sprint(s.newest(found, words)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestBudgetMustFollow(t *testing.T) {
	tr := newTree(t)
	tr.want(tr.words("check"), "error: ", "budget.txt")
	tr.write("README.md", strings.Repeat("A bad line.\n\n", 20))
	tr.words("lower")
	tr.commit()
	tr.write("README.md", strings.Repeat("A bad line.\n\n", 14))
	tr.want(tr.words("check"), "Words in docs: 14 findings, far below the budget of 20: run make words")
	tr.words("lower")
	tr.want(tr.words("check"), "14 findings are within")
	tr.write("hack/words/styles/Geobench/Other.yml", "extends: existence\n")
	tr.want(tr.words("check"), "Other in docs: no budget: run make words")
	tr.words("lower")
	if err := os.Remove(filepath.Join(tr.dir, "hack/words/styles/Geobench/Other.yml")); err != nil {
		t.Fatal(err)
	}
	tr.want(tr.words("check"), "Other in docs: a budget for an unknown rule")
	tr.words("lower")
	tr.want(tr.words("check"), "14 findings are within")
}

func TestCheckWithoutGit(t *testing.T) {
	tr := newTree(t)
	tr.write("README.md", "Good.\n")
	tr.words("lower")
	if err := os.RemoveAll(filepath.Join(tr.dir, ".git")); err != nil {
		t.Fatal(err)
	}
	tr.want(tr.words("check"), "0 findings are within the budget of 0")
	tr.write("README.md", "Bad is bad.\n")
	tr.want(tr.words("check"), "Words in docs: 1 findings, 1 more than the budget of 0",
		"go run ./hack/words list -rule Words")
}

func TestList(t *testing.T) {
	tr := newTree(t)
	tr.write("README.md", "A bad line.\n")
	tr.write("docs/a.md", "A\nbad line.\n")
	tr.write("docs/ab.md", "A bad line.\n")
	tr.write("testdata/a.md", "A bad line.\n")
	tr.write("a/gen.go", "// Code generated by bad. DO NOT EDIT.\n\npackage a\n")
	tr.write("a/a.go", "package a\n\nvar x = `"+strings.Repeat("x", 120)+"`\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"list"}, "README.md:1: Words: write good\na/a.go:3: LineLength: 130 columns, 10 more than 120\n" +
			"docs/a.md:2: Words: write good\ndocs/ab.md:1: Words: write good\n4 findings\n"},
		{[]string{"list", "docs/a.md"}, "docs/a.md:2: Words: write good\n1 findings\n"},
		{[]string{"list", "./a/", "README.md"}, "README.md:1: Words: write good\n" +
			"a/a.go:3: LineLength: 130 columns, 10 more than 120\n2 findings\n"},
		{[]string{"list", "-rule", "LineLength", "."}, "a/a.go:3: LineLength: 130 columns, 10 more than 120\n1 findings\n"},
		{[]string{"list", "-rule", "Wrods"}, "error: -rule Wrods: no such rule; there are LineLength, Words"},
		{[]string{"check", "docs"}, "error: words check takes neither paths nor -rule: it counts the whole tree"},
		{[]string{"raise"}, "error: unknown command \"raise -root " + tr.dir},
	} {
		if got := tr.words(test.args...); !strings.HasPrefix(got, test.want) {
			t.Errorf("words %v: got\n%s, want\n%s", test.args, got, test.want)
		}
	}
}

func TestVersionsInShallowClone(t *testing.T) {
	tr := newTree(t)
	tr.words("lower")
	tr.commit()
	tr.write("README.md", "Good.\n")
	tr.commit()
	clone := tree{t, filepath.Join(t.TempDir(), "clone")}
	tr.git("clone", "-q", "--depth", "1", "file://"+tr.dir, clone.dir)
	clone.want(clone.words("check"), "0 findings are within the budget of 0")
	clone.write("README.md", "Bad and bad.\n")
	clone.want(clone.words("check"), "README.md:1: Words: write good")
}

func TestParseBudget(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"good":     {"# remark\n\nWords docs 12 abcd\n", ""},
		"short":    {"Words docs 12\n", "line 1: \"Words docs 12\" is not a rule"},
		"negative": {"\nWords docs -1 abcd\n", "line 2: "},
		"twice":    {"Words docs 1 abcd\nWords docs 2 abcd\n", "line 2: a second budget for Words in docs"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseBudget(test.text)
			if got := fmt.Sprint(err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) {
				t.Errorf("got %v, want %q", got, test.want)
			}
		})
	}
}

func TestAddedLines(t *testing.T) {
	diff := `diff --git a/x.go b/x.go
--- a/x.go
+++ b/x.go
@@ -1,0 +2,2 @@ func x
+a
+b
@@ -9 +11 @@
-c
+d
@@ -20,2 +22,0 @@
-e
-f
diff --git a/gone.go b/gone.go
--- a/gone.go
+++ /dev/null
@@ -1 +0,0 @@
-g
`
	want := map[string]map[int]bool{"x.go": {2: true, 3: true, 11: true}}
	if d := cmp.Diff(want, addedLines(diff)); d != "" {
		t.Errorf("added lines (-want +got):\n%s", d)
	}
}

func TestParseAlerts(t *testing.T) {
	chunks := map[string]chunk{"0.txt": {"docs/a.md", text{[]string{"x", "!"}, []int{7, 7}}}}
	for name, test := range map[string]struct{ out, want string }{
		"good":          {`{"0.txt": [{"Check": "Geobench.Words", "Message": "m", "Line": 1}]}`, "[docs/a.md:7: Words: m]"},
		"none":          {`{}`, "[]"},
		"beyond":        {`{"0.txt": [{"Check": "Geobench.Words", "Message": "m", "Line": 3}]}`, "line 3 of 0.txt"},
		"another style": {`{"0.txt": [{"Check": "Vale.Terms", "Message": "m", "Line": 1}]}`, "Vale.Terms in line 1"},
		"no JSON":       {`E201 invalid rule`, "E201 invalid rule"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := parseAlerts([]byte(test.out), chunks)
			got := fmt.Sprint(found)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
