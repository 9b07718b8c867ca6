package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	docs      = "docs"
	comments  = "comments"
	changelog = "changelog"
	code      = "code"
)

const (
	lineLength = "LineLength"
	columns    = 120
)

// parts returns the parts of the tree in which the findings of a rule are counted.
func parts(rule string) []string {
	if rule == lineLength {
		return []string{code}
	}
	return []string{docs, comments, changelog}
}

// finding is a violation of a rule.
type finding struct {
	File                string // relative to the repository, with slashes
	Line                int
	Rule, Part, Message string
	// end is the last line of the paragraph. A sentence or phrase may extend over several lines.
	end int
}

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.File, f.Line, f.Rule, f.Message)
}

// skipped are folders without text of our own. Folders whose names start with a dot are skipped as well.
var skipped = []string{"testdata", "bin", "out"}

// survey returns all findings in the tree, sorted by file and line.
func survey(ctx context.Context, root string, v vale) ([]finding, error) {
	var found []finding
	texts := map[string]text{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name = filepath.ToSlash(name)
		switch filepath.Ext(name) {
		case ".md":
			body, err := os.ReadFile(path)
			texts[name] = markdown(string(body))
			return err
		case ".go":
			body, err := os.ReadFile(path)
			if err != nil || generated(body) {
				return err
			}
			texts[name] = goComments(name, body)
			found = append(found, longLines(name, string(body))...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	prose, err := v.lint(ctx, texts)
	if err != nil {
		return nil, err
	}
	found = append(found, prose...)
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Message, b.Message))
	})
	return found, nil
}

// partOf returns the part of the tree to which the prose of a file belongs.
func partOf(name string) string {
	switch {
	case name == "CHANGELOG.md":
		return changelog
	case strings.HasSuffix(name, ".go"):
		return comments
	}
	return docs
}

// longLines returns the findings for lines of a Go file with more than 120 columns. As in the linter lll, a tab counts
// as one column. Directives are exempt, because they cannot be wrapped.
func longLines(name, body string) (found []finding) {
	n := 0
	for line := range strings.Lines(body) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if length := utf8.RuneCountInString(line); length > columns && !directive(strings.TrimSpace(line)) {
			message := fmt.Sprintf("%d columns, %d more than %d", length, length-columns, columns)
			found = append(found, finding{name, n, lineLength, code, message, n})
		}
	}
	return found
}
