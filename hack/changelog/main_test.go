package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const before = `# Changelog

Newest first.

## v0.1.0 (28 November 2026)

- Everything.
`

// tree creates a repository with these entries in docs/changes.
func tree(t *testing.T, entries map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	folder := filepath.Join(root, "docs", "changes")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	entries["README.md"] = "# How to\n\n- list\n"
	for name, text := range entries {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestEntriesAreChecked(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"right":        {"more-regions.added.md", "Ten regions.\n", ""},
		"two lines":    {"more-regions.added.md", "Ten regions,\nand more.\n", ""},
		"no kind":      {"more-regions.md", "Ten regions.", "WORDS.KIND.md"},
		"another kind": {"more-regions.new.md", "Ten regions.", "breaking, added, changed, fixed, removed, contributors"},
		"upper case":   {"MoreRegions.added.md", "Ten regions.", "in lower case"},
		"empty":        {"more-regions.added.md", " \n", "it is empty"},
		"too long":     {"more-regions.added.md", strings.Repeat("é", 501), "501 characters, more than 500"},
		"a list":       {"more-regions.added.md", "- Ten regions.", "one paragraph"},
		"a heading":    {"more-regions.added.md", "# Regions", "one paragraph"},
		"paragraphs":   {"more-regions.added.md", "Ten regions.\n\nMore text.", "one paragraph"},
	} {
		err := command(tree(t, map[string]string{tc.file: tc.text}), time.Now(), []string{"check"}, &strings.Builder{})
		if got := ""; err != nil {
			got = err.Error()
			if tc.want == "" || !strings.Contains(got, tc.want) || !strings.Contains(got, tc.file) {
				t.Errorf("%s: %v", name, err)
			}
		} else if tc.want != "" {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRelease(t *testing.T) {
	root := tree(t, map[string]string{
		"z.fixed.md":    "A lost answer ([faults](../faults.md)).",
		"b.added.md":    "Ten regions,\nand a map.",
		"a.added.md":    "A map ([top](../../README.md)).",
		"c.breaking.md": "`old` is `new`.",
	})
	day := time.Date(2027, 1, 5, 0, 0, 0, 0, time.UTC)
	for _, bad := range []struct{ version, want string }{{"0.2.0", "like v0.2.0"}, {"v0.1.0", "already"}} {
		if err := command(root, day, []string{"release", bad.version}, nil); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.version, err)
		}
	}
	if err := command(root, day, []string{"release", "v0.2.0"}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := `# Changelog

Newest first.

## v0.2.0 (5 January 2027)

### Breaking changes

- ` + "`old` is `new`." + `

### Added

- A map ([top](README.md)).
- Ten regions,
  and a map.

### Fixed

- A lost answer ([faults](docs/faults.md)).

## v0.1.0 (28 November 2026)

- Everything.
`
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if err := command(root, day, []string{"release", "v0.3.0"}, nil); err == nil || !strings.Contains(err.Error(), "nothing to release") {
		t.Errorf("without entries: %v", err)
	}
}
