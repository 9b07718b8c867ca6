package plot

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/chart/charttest"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/experimenttest"
)

func TestDrawings(t *testing.T) {
	tests := map[string]struct {
		text    string
		figures []float64
		want    string
	}{
		"numbers":     {experimenttest.Small, []float64{1000, 2000, 500, 2500}, "clientsPerRegion"},
		"logarithmic": {experimenttest.Replaced(t, "values: [2, 4]", "values: [1, 10, 1000]"), []float64{1, 20, 30000}, "clientsPerRegion"},
		"durations":   {experimenttest.Replaced(t, experimenttest.SweepLine, "- {path: spec.load.thinkTime, values: [0s, 5ms]}"), []float64{10, 20}, "thinkTime"},
		"names":       {experimenttest.Replaced(t, experimenttest.SweepLine, "- {path: database.spec.engine.parameters.ordering, values: [leader, epochs]}"), []float64{10, 20}, "ordering"},
		"two parameters": {experimenttest.Replaced(t, experimenttest.SweepLine, experimenttest.SweepLine+"\n    - {path: spec.seed, values: [1, 2]}"), []float64{10, 20, 30},
			"near, seed 2"},
		"repetitions":   {experimenttest.Replaced(t, "  sweep:", "  repetitions: 3\n  sweep:"), []float64{10, 20, 30, 40}, "clientsPerRegion"},
		"nothing ended": {experimenttest.Small, []float64{0}, "clientsPerRegion"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := experimenttest.MustRead(t, tc.text)
			folder := t.TempDir()
			files, err := Draw(e, experimenttest.Invented(e, tc.figures...), folder)
			if err != nil {
				t.Fatal(err)
			}
			drawings := figures + 2*2 // and two more figures in each of two regions
			if slices.Equal(tc.figures, []float64{0}) {
				// With invented results of 0, there are no figures by region, no bytes on the wire, and no cost per transaction.
				drawings = figures - 3
			}
			if len(files) != 2*drawings {
				t.Fatalf("%d files, want SVG and PNG of each of %d drawings", len(files), drawings)
			}
			say(t, files, tc.want, "(SIMULATED)")
		})
	}
	t.Run("types", func(t *testing.T) {
		e := experimenttest.MustRead(t, experimenttest.Small)
		folder := t.TempDir()
		files, err := Draw(e, experimenttest.WithTypes(t, e, experimenttest.Invented(e, 1000, 2000)), folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 2*(figures+2*2+2*3+1) {
			t.Fatalf("%d files, want SVG and PNG of each of the figures, of 2 in each of 2 regions, of 3 of each of 2 types, and of the reasons of aborts", len(files))
		}
		say(t, []string{filepath.Join(folder, "small-p50-in-b.svg")}, "median latency in b (SIMULATED)", ">near<", ">far<")
		say(t, []string{filepath.Join(folder, "small-reasons.svg"), filepath.Join(folder, "small-reasons.png")},
			">near<", ">clientsPerRegion=2<", ">far<", ">clientsPerRegion=4<", ">certification<", ">wounded<", ">42.86%<", "(SIMULATED)")
		say(t, []string{filepath.Join(folder, "small-p99-amalgamate.svg")}, "99th percentile of latency of amalgamate (SIMULATED)", ">near<", ">far<")
	})
	t.Run("nodes", func(t *testing.T) {
		e := experimenttest.MustRead(t, experimenttest.Replaced(t, "expression: \"min(tput('near')) > max(tput('far'))\"",
			"expression: \"[2, 4].all(n, spread(ofNodes('dataBytes', 'near', n)) < 2.0)\", measured: \"box(ofNodes('operations', 'far', 4))\""))
		folder := t.TempDir()
		files, err := Draw(e, experimenttest.Invented(e, 1000, 2000), folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 2*(figures+2*2+2) {
			t.Fatalf("%d files, want SVG and PNG of each of the figures, of 2 in each of 2 regions, and of 2 of the nodes", len(files))
		}
		say(t, []string{filepath.Join(folder, "small-nodes-dataBytes.svg"), filepath.Join(folder, "small-nodes-dataBytes.png")},
			"small: data per node (SIMULATED)", ">near<", ">clientsPerRegion=2<", ">far<", ">clientsPerRegion=4<", ">most / mean 1.33<")
		say(t, []string{filepath.Join(folder, "small-nodes-operations.svg")}, "operations during the run")
	})
	t.Run("nothing to draw", func(t *testing.T) {
		e := experimenttest.MustRead(t, experimenttest.Replaced(t, "  sweep:\n    "+experimenttest.SweepLine+"\n", ""))
		if files, err := Draw(e, experimenttest.Invented(e, 1), t.TempDir()); err != nil || len(files) > 0 {
			t.Errorf("files %v, error %v", files, err)
		}
	})
}

// figures is the number of figures of an experiment with a sweep, without figures by region.
const figures = 8

// TestTimeline draws more lines than there are colors.
func TestTimeline(t *testing.T) {
	e := experimenttest.MustRead(t, experimenttest.Replaced(t, "values: [2, 4]", "values: [2, 4, 6, 8]"))
	r := experimenttest.WithFaults(t, e, experimenttest.Invented(e, 1000))
	folder := t.TempDir()
	files, err := Draw(e, r, folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2*(figures+2*2+1) {
		t.Fatalf("%d files, want SVG and PNG of each of the figures, of 2 in each of 2 regions, and of the timeline", len(files))
	}
	say(t, []string{filepath.Join(folder, "small-timeline.svg"), filepath.Join(folder, "small-timeline.png")},
		">cut<", ">kill<", ">near clientsPerRegion=8<", ">far clientsPerRegion=8<", "stroke-dasharray", "(SIMULATED)")
}

// say checks that the SVG files contain the texts, and that the content of each file matches its extension.
func say(t *testing.T, files []string, texts ...string) {
	t.Helper()
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
		charttest.Inside(t, f, string(b))
		for _, want := range texts {
			if !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s does not say %q", f, want)
			}
		}
	}
}

// A drawn line marks the same points as lower bounds as the line in the experiment's data.
func TestLinesMarkLowerBounds(t *testing.T) {
	s := seriesOf(&experiment.Line{X: []float64{1, 2}, Y: []float64{1, 140}, LowerBound: []bool{false, true}}, 0)
	if !slices.Equal(s.LowerBound, []bool{false, true}) {
		t.Errorf("%+v", s)
	}
}
