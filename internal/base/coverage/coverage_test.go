package coverage

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestNamesAreChecked(t *testing.T) {
	defer func(was []*Mark) { registry = was }(registry)
	New("janus.slow-path", "It was slow")
	for name, doc := range map[string]string{
		"janus.slow-path": "It is there already", "slow-path": "No part", "janus.Slow": "A capital", "janus.slow-": "No end",
		"janus.other": "", "janus.bar": "a | b", "janus.lines": "a\nb",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q (%q) is taken", name, doc)
				}
			}()
			New(name, doc)
		}()
	}
}

func TestHits(t *testing.T) {
	defer func(was []*Mark) { registry = was }(registry)
	a, b := New("part.a", "A"), New("part.b", "B")
	var h Hits
	if h.Of(a) != 0 {
		t.Error("none is counted before the first")
	}
	h.Hit(b)
	h.Hit(b)
	if h.Of(a) != 0 || h.Of(b) != 2 || a.Part() != "part" {
		t.Errorf("got %d and %d of %s", h.Of(a), h.Of(b), a.Part())
	}
}

// Every mark in the source is named after its package and hit somewhere in that package. Every argument of Mark is a
// declared mark.
func TestMarksAreMarked(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^(?:var)?\s+(\w+)\s+= coverage\.New(?:Replaced)?\("([a-z]+)\.[a-z0-9-]+",\s+"[A-Z][^"]*[^".]"\)$`)
	marked := regexp.MustCompile(`\.Mark\((\w+)\)`)
	packages := 0
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "marks.go" || filepath.Base(filepath.Dir(path)) == "explore" {
			return err
		}
		packages++
		dir := filepath.Dir(path)
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		marks := map[string]bool{}
		var source []byte
		for _, f := range all {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			if f == path {
				source = text
			} else if !strings.HasSuffix(f, "_test.go") {
				for _, m := range marked.FindAllSubmatch(text, -1) {
					marks[string(m[1])] = true
				}
			}
		}
		found := declared.FindAllSubmatch(source, -1)
		if lines := strings.Count(string(source), "coverage.New"); lines != len(found) {
			t.Errorf("%s: %d of %d marks have a sentence with a capital letter and without full stop", path, len(found), lines)
		}
		for _, m := range found {
			if name := filepath.Base(dir); string(m[2]) != name {
				t.Errorf("%s: mark %s belongs to %s", path, m[2], name)
			}
			if !marks[string(m[1])] {
				t.Errorf("%s: %s is marked nowhere", path, m[1])
			}
			delete(marks, string(m[1]))
		}
		delete(marks, "p") // name of a parameter that passes a mark on
		for name := range marks {
			t.Errorf("%s: %s is marked and is no mark", path, name)
		}
		return nil
	})
	if err != nil || packages < 9 {
		t.Errorf("%d packages have marks, %v", packages, err)
	}
}
