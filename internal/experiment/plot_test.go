//go:build full

package experiment

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestDrawings(t *testing.T) {
	tests := map[string]struct {
		text    string
		figures []float64
		want    string
	}{
		"numbers":     {small, []float64{1000, 2000, 500, 2500}, "clientsPerRegion"},
		"logarithmic": {replaced(t, "values: [2, 4]", "values: [1, 10, 1000]"), []float64{1, 20, 30000}, "clientsPerRegion"},
		"durations":   {replaced(t, sweepLine, "- {path: spec.load.thinkTime, values: [0s, 5ms]}"), []float64{10, 20}, "thinkTime"},
		"names":       {replaced(t, sweepLine, "- {path: database.spec.engine.parameters.ordering, values: [leader, epochs]}"), []float64{10, 20}, "ordering"},
		"two parameters": {replaced(t, sweepLine, sweepLine+"\n    - {path: spec.seed, values: [1, 2]}"), []float64{10, 20, 30},
			"near, seed 2"},
		"repetitions":   {replaced(t, "  sweep:", "  repetitions: 3\n  sweep:"), []float64{10, 20, 30, 40}, "clientsPerRegion"},
		"nothing ended": {small, []float64{0}, "clientsPerRegion"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := mustRead(t, tc.text)
			folder := t.TempDir()
			files, err := e.Draw(invented(e, tc.figures...), folder)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) != 2*len(plotted) {
				t.Fatalf("%d files, want %d", len(files), 2*len(plotted))
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(f, ".png") {
					if !bytes.HasPrefix(b, []byte("\x89PNG")) {
						t.Errorf("%s is no PNG", f)
					}
					continue
				}
				wellFormed(t, f, b)
				for _, want := range []string{tc.want, "(SIMULATED)"} {
					if !bytes.Contains(b, []byte(want)) {
						t.Errorf("%s does not say %q", f, want)
					}
				}
			}
		})
	}
	t.Run("nothing to draw", func(t *testing.T) {
		e := mustRead(t, replaced(t, "  sweep:\n    "+sweepLine+"\n", ""))
		if files, err := e.Draw(invented(e, 1), t.TempDir()); err != nil || len(files) > 0 {
			t.Errorf("files %v, error %v", files, err)
		}
	})
}
