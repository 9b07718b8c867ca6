package catalog

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// TestAbortsAreListed checks that each workload lists every reason for which its procedures abort, because claims about
// unlisted reasons are rejected.
func TestAbortsAreListed(t *testing.T) {
	made := regexp.MustCompile(`txn\.Abort\("([^"]+)"\)`)
	for i := range table {
		e := &table[i]
		var found, listed []string
		files, err := filepath.Glob("../" + e.name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", e.name, len(files), err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range made.FindAllStringSubmatch(string(text), -1) {
				found = append(found, m[1])
			}
		}
		for _, a := range e.aborts {
			listed = append(listed, string(a))
		}
		slices.Sort(found)
		slices.Sort(listed)
		if !slices.Equal(slices.Compact(found), listed) || len(listed) == 0 {
			t.Errorf("%s: its procedures abort for %q, and it lists %q", e.name, found, listed)
		}
	}
}
