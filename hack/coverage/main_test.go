package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A block that occurs several times in a profile counts once. It counts as executed if it was executed in any of its
// entries. Blocks that were not executed are listed by function.
func TestTable(t *testing.T) {
	t.Chdir("../..")
	profile := filepath.Join(t.TempDir(), "profile")
	line := func(file, rest string) string { return module + "internal/base/queue/" + file + ":" + rest + "\n" }
	text := "mode: set\n" + line("queue.go", "13.30,13.60 1 1") + line("queue.go", "16.30,16.60 3 0") + line("queue.go", "16.30,16.60 3 0") + line("queue.go", "13.30,13.60 1 0") +
		module + "internal/engine/protocol/coco/broken.go:1.1,2.2 5 0\n"
	if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := command(profile, &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.Contains(got, "| `base/queue` | 4 | 0 | 25.0% |\n") || !strings.Contains(got, "internal/base/queue/queue.go Push [16]\n") || strings.Contains(got, "coco") {
		t.Error(got)
	}
	for _, wrong := range []string{"", "mode: set\n", "mode: set\nnonsense\n", "mode: set\nfile:1.2,3.4 x y\n"} {
		if err := os.WriteFile(profile, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := command(profile, &out); err == nil {
			t.Errorf("%q is taken for a profile", wrong)
		}
	}
}

// The rule excludes exactly the code that no correct scenario can reach. In the source below, a comment at each line
// says whether the line is excluded.
func TestRule(t *testing.T) {
	const source = `package p

// Kind does what the name says.
func (m *M) Kind() uint8 { return 1 } // counts
func (m *M) String() string { return "text" } // excluded
func PlaceLaw() int { return 1 } // excluded

// early is late with a mistake.
func early() { run() } // excluded

func act(m *M) error {
	if m.wrong == early { // counts
		run() // excluded
	}
	if m.wrong == none {
		run() // counts
	}
	if m.late && m.mistake == early {
		run() // excluded
	}
	if m.wrong == early || m.late {
		run() // counts
	}
	if err := m.act(); err != nil {
		return err // counts
	}
	switch {
	case m.wrong == early:
		run() // excluded
	case m.late:
		run() // counts
	default:
		panic("no") // excluded
	}
	return fmt.Errorf("late") // counts
}

func state(data []byte) error {
	r := codec.NewReader(data) // counts
	if r.Err() != nil {
		return nil // excluded
	}
	if r.Len() > 3 {
		r.Fail(long) // excluded
	}
	if r.Len() > 2 {
		run() // counts
		if r.Len() > 1 {
			return fmt.Errorf("short") // excluded
		}
	}
	return r.Err() // counts
}
`
	name := filepath.Join(t.TempDir(), "rule.go")
	if err := os.WriteFile(name, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scan(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(source, "\n") {
		code, want, says := strings.Cut(line, " // ")
		column := len(code) - len(strings.TrimLeft(code, "\t")) + 1
		if strings.HasPrefix(code, "func") {
			column = strings.Index(code, "{") + 1
		}
		if says && s.excludes(i+1, column) != (want == "excluded") {
			t.Errorf("line %d, %s: excluded is %v", i+1, strings.TrimSpace(line), want != "excluded")
		}
	}
}
