package engines

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// FiguresAbout returns the names of the figures of a kind that engines declare for a topic, each once, in engine order.
func FiguresAbout(topic protocol.Topic, kind protocol.Kind) (names []string) {
	seen := map[string]bool{}
	for _, e := range all {
		for _, f := range e.Figures {
			if f.Topic == topic && f.Kind == kind && !seen[f.Name] {
				seen[f.Name] = true
				names = append(names, f.Name)
			}
		}
	}
	return names
}

// Marker lines that enclose the table of figures in an engine's page.
const (
	figuresBegin = "<!-- Written by make generate from Engine.Figures. -->\n"
	figuresEnd   = "<!-- End of the generated part. -->\n"
)

// FigureTable returns the table of an engine's figures, in Markdown.
func FigureTable(e *protocol.Engine) string {
	var b strings.Builder
	b.WriteString("| figure | kind | unit | about | |\n|---|---|---|---|---|\n")
	for _, f := range e.Figures {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind, f.Unit, strings.ToLower(string(f.Topic)), f.Doc)
	}
	return b.String()
}

// page returns the text of an engine's page with its table of figures updated.
func page(e *protocol.Engine, text []byte) ([]byte, error) {
	before, rest, begins := bytes.Cut(text, []byte(figuresBegin))
	_, after, ends := bytes.Cut(rest, []byte(figuresEnd))
	if !begins || !ends {
		return nil, fmt.Errorf("the page of engine %s has no table of figures; add the lines\n%s%s", e.Name, figuresBegin, figuresEnd)
	}
	return bytes.Join([][]byte{before, []byte(figuresBegin), []byte(FigureTable(e)), []byte(figuresEnd), after}, nil), nil
}

// WritePages updates the table of figures in the page of each engine, NAME.md in folder.
func WritePages(folder string) error {
	for _, e := range all {
		name := filepath.Join(folder, e.Name+".md")
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if text, err = page(e, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
