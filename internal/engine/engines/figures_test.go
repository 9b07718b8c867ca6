package engines

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines/enginestest"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Declarations are complete. Figures with the same name have the same declaration in all engines, because metrics and
// dashboards identify figures by name.
func TestFiguresAreDeclared(t *testing.T) {
	snake := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	first := map[string]protocol.Figure{}
	for _, e := range All() {
		own := map[string]bool{}
		for _, f := range e.Figures {
			if !snake.MatchString(f.Name) || own[f.Name] {
				t.Errorf("%s: the name %q is not snake_case, or there twice", e.Name, f.Name)
			}
			own[f.Name] = true
			if f.Kind != protocol.Counter && f.Kind != protocol.Gauge || f.Unit == "" || !slices.Contains(protocol.Topics(), f.Topic) {
				t.Errorf("%s: %s has no kind, unit or topic: %+v", e.Name, f.Name, f)
			}
			if !strings.HasSuffix(f.Doc, ".") || strings.ContainsAny(f.Doc, "|\n") {
				t.Errorf("%s: the text of %s is no sentence for a table: %q", e.Name, f.Name, f.Doc)
			}
			was, there := first[f.Name]
			if there && (was.Kind != f.Kind || was.Unit != f.Unit || was.Topic != f.Topic) {
				t.Errorf("%s: %s is a %v in %s about %q, and of another engine a %v in %s about %q", e.Name, f.Name, f.Kind, f.Unit, f.Topic, was.Kind, was.Unit, was.Topic)
			}
			first[f.Name] = f
		}
	}
}

// Engines report the declared figures and nothing else, and no counter falls.
func TestFiguresAreReported(t *testing.T) {
	for _, e := range All() {
		t.Run(e.Name, func(t *testing.T) {
			reported := enginestest.Figures(t, e)
			for _, f := range e.Figures {
				if _, ok := reported[f.Name]; !ok {
					t.Errorf("%s declares %s, and never reports it", e.Name, f.Name)
				}
			}
		})
	}
}

// The pages of engines have the tables that make generate writes.
func TestPagesListFigures(t *testing.T) {
	for _, e := range All() {
		name := "../../../docs/protocols/" + e.Name + ".md"
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := page(e, text)
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !bytes.Equal(text, want):
			t.Errorf("%s: the table of figures is not that of Engine.Figures; make generate writes it", name)
		}
	}
}

// A page without the lines that enclose the table is refused rather than left as it is.
func TestPageWithoutTable(t *testing.T) {
	for _, text := range []string{"", "# Calvin\n", figuresBegin, figuresEnd, figuresEnd + figuresBegin} {
		if _, err := page(all[0], []byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// FiguresAbout returns each name of a topic once, and only names of the requested kind.
func TestFiguresAbout(t *testing.T) {
	for _, topic := range protocol.Topics() {
		counters, gauges := FiguresAbout(topic, protocol.Counter), FiguresAbout(topic, protocol.Gauge)
		all := slices.Sorted(slices.Values(slices.Concat(counters, gauges)))
		if len(counters) == 0 || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("%s: counters %v, gauges %v", topic, counters, gauges)
		}
	}
	if got := FiguresAbout(protocol.AboutConflicts, protocol.Gauge); !slices.Contains(got, "pending") {
		t.Errorf("gauges about conflicts are %v, without sdur's pending", got)
	}
}
