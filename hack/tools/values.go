package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// valuesTable returns the values of a chart as a Markdown table. A row has a key and its comment in values.yaml, which
// starts with "# --". A key without such a comment must contain keys with comments.
func valuesTable(text string) (string, error) {
	type key struct {
		indent    int
		path      string
		described bool // the key or a key that contains it has a comment
		leaf      bool
	}
	var (
		table   strings.Builder
		within  []key
		comment []string
		last    key
		bare    []error
	)
	check := func(next int) {
		if last.path != "" && !last.described && (last.leaf || next <= last.indent) {
			bare = append(bare, fmt.Errorf("%s is not described: write a comment that starts with # -- above it", last.path))
		}
	}
	table.WriteString("| value | default | |\n|---|---|---|\n")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		indent := len(line) - len(trimmed)
		switch {
		case trimmed == "":
			comment = nil
			continue
		case strings.HasPrefix(trimmed, "# -- "):
			comment = []string{strings.TrimPrefix(trimmed, "# -- ")}
			continue
		case strings.HasPrefix(trimmed, "#"):
			if comment != nil {
				comment = append(comment, strings.TrimSpace(strings.TrimPrefix(trimmed, "#")))
			}
			continue
		}
		name, value, ok := strings.Cut(trimmed, ":")
		if !ok || strings.HasPrefix(trimmed, "- ") {
			continue // an item of a list is not a key
		}
		for len(within) > 0 && within[len(within)-1].indent >= indent {
			within = within[:len(within)-1]
		}
		check(indent)
		value = strings.TrimSpace(value)
		k := key{indent: indent, path: name, leaf: value != "", described: comment != nil}
		if len(within) > 0 {
			k.path = within[len(within)-1].path + "." + name
			k.described = k.described || within[len(within)-1].described
		}
		if comment != nil {
			shown := "`" + value + "`"
			if value == "" {
				shown = "see values.yaml"
			}
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", k.path, shown, strings.ReplaceAll(strings.Join(comment, " "), "|", "\\|"))
		}
		within, last, comment = append(within, k), k, nil
	}
	check(0)
	return table.String(), errors.Join(bare...)
}

const (
	tableStart = "<!-- values: written by hack/tools sync-chart -->\n"
	tableEnd   = "<!-- end of values -->\n"
)

// insertTable replaces the text between two marks in a README with the table.
func insertTable(readme []byte, table string) ([]byte, error) {
	before, rest, ok := bytes.Cut(readme, []byte(tableStart))
	if !ok {
		return nil, fmt.Errorf("no line %q to write the values after", strings.TrimSpace(tableStart))
	}
	_, after, ok := bytes.Cut(rest, []byte(tableEnd))
	if !ok {
		return nil, fmt.Errorf("no line %q to write the values before", strings.TrimSpace(tableEnd))
	}
	return bytes.Join([][]byte{before, []byte(tableStart), []byte(table), []byte(tableEnd), after}, nil), nil
}
