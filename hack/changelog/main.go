// Command changelog checks the entries in docs/changes and moves them into CHANGELOG.md.
//
//	changelog check            checks names, kinds and lengths
//	changelog release VERSION  writes the section of a version, dated today, and removes the entries
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// longest is the maximum length of an entry in characters.
const longest = 500

// kinds lists the kinds of entries with their headings, in the order of the section for a release.
var kinds = []struct{ name, heading string }{
	{"breaking", "Breaking changes"},
	{"added", "Added"},
	{"changed", "Changed"},
	{"fixed", "Fixed"},
	{"removed", "Removed"},
	{"contributors", "For contributors"},
}

var (
	fileName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.([a-z]+)\.md$`)
	versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)
)

func main() {
	if err := command(".", time.Now(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "changelog:", err)
		os.Exit(1)
	}
}

func command(root string, now time.Time, args []string, out io.Writer) error {
	entries, err := read(filepath.Join(root, "docs", "changes"))
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "check":
		fmt.Fprintf(out, "%d entries since the last version\n", len(entries))
		return nil
	case len(args) == 2 && args[0] == "release":
		return release(root, args[1], now, entries)
	}
	return fmt.Errorf("%q: write check, or release VERSION", strings.Join(args, " "))
}

// entry is an entry of docs/changes, which describes a change that users notice.
type entry struct{ path, kind, text string }

// read returns the entries in a folder, sorted by name. Its error describes every entry that violates a rule.
func read(folder string) (entries []entry, err error) {
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, f := range files {
		if f.Name() == "README.md" {
			continue
		}
		path := filepath.Join(folder, f.Name())
		body, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		e := entry{path: path, text: strings.TrimSpace(string(body))}
		if m := fileName.FindStringSubmatch(f.Name()); m != nil {
			e.kind = m[2]
		}
		if err := e.check(); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
		}
		entries = append(entries, e)
	}
	return entries, errors.Join(wrong...)
}

func (e entry) check() error {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	switch n := utf8.RuneCountInString(e.text); {
	case !slices.Contains(names, e.kind):
		return fmt.Errorf("name it WORDS.KIND.md in lower case, with a kind of %s", strings.Join(names, ", "))
	case n == 0:
		return errors.New("it is empty: say what users can do now, or what differs")
	case n > longest:
		return fmt.Errorf("%d characters, more than %d: link to the page that has the details", n, longest)
	case strings.HasPrefix(e.text, "- "), strings.HasPrefix(e.text, "#"), strings.Contains(e.text, "\n\n"):
		return errors.New("write one paragraph without a list marker or a heading")
	}
	return nil
}

// release inserts the section of a version above all earlier sections, and deletes the files of its entries.
func release(root, version string, now time.Time, entries []entry) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("version %q: write it like v0.2.0", version)
	}
	if len(entries) == 0 {
		return errors.New("docs/changes has no entries: there is nothing to release")
	}
	path := filepath.Join(root, "CHANGELOG.md")
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Contains(string(old), "\n## "+version+" ") {
		return fmt.Errorf("CHANGELOG.md has a section of %s already: choose the next version", version)
	}
	head, rest, ok := strings.Cut(string(old), "\n## ")
	if !ok {
		return errors.New("CHANGELOG.md has no section of a version: the new one goes above it")
	}
	section := fmt.Sprintf("\n## %s (%s)\n", version, now.Format("2 January 2006"))
	for _, k := range kinds {
		first := true
		for _, e := range entries {
			if e.kind != k.name {
				continue
			}
			if first {
				section += "\n### " + k.heading + "\n\n"
			}
			first = false
			section += "- " + strings.ReplaceAll(relink(e.text), "\n", "\n  ") + "\n"
		}
	}
	if err := os.WriteFile(path, []byte(head+section+"\n## "+rest), 0o644); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(e.path); err != nil {
			return err
		}
	}
	return nil
}

// relink converts links relative to docs/changes into links relative to the root of the repository.
func relink(text string) string {
	text = strings.ReplaceAll(text, "](../../", "](")
	return strings.ReplaceAll(text, "](../", "](docs/")
}
