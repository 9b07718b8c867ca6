package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/chart/charttest"
)

// A page contains the charts of all panels that can be drawn, with all data that their queries returned.
func TestPlot(t *testing.T) {
	from := time.Unix(1_700_000_000, 0)
	s := &server{from: from, to: from.Add(30 * time.Second)}
	values := func(of func(second int) float64) (out []sample) {
		for i := range 31 {
			out = append(out, sample{at: float64(from.Unix() + int64(i)), value: of(i)})
		}
		return out
	}
	on := func(low, high int) []sample {
		return values(func(i int) float64 {
			if i < low || i > high {
				return math.NaN()
			}
			return 1
		})
	}
	wave := func(height float64) func(int) float64 {
		return func(i int) float64 {
			if i == 12 {
				return math.NaN()
			}
			return height * (1.5 + math.Sin(float64(i)/3))
		}
	}
	region := func(name string, v []sample) series {
		return series{Labels: map[string]string{"region": name}, Values: v}
	}
	stages := []series{{Labels: map[string]string{"stage": "Measure"}, Values: on(5, 30)[5:]}}
	faults := []series{{Labels: map[string]string{"fault": "cut"}, Values: on(10, 20)[10:21]}}
	var buckets []series
	for i, le := range []string{"0.001", "0.01", "0.1", "1"} {
		buckets = append(buckets, series{Labels: map[string]string{"le": le}, Values: values(func(second int) float64 { return float64(i * (10 + second)) })})
	}
	panels := map[string]struct {
		answer []series
		unit   string
		says   []string // substrings of the page, in addition to the title
	}{
		"timeseries":     {[]series{region("eu", values(wave(1000))), region("us", values(wave(200))), region("declared", values(func(int) float64 { return 500 }))}, "ops", []string{">eu<", ">us<", ">declared<", ">cut<", ">2 K ops/s<"}},
		"bargauge":       {[]series{region("eu", values(wave(1000))), region("us", values(wave(200)))}, "bytes", []string{">eu<", ">us<", " B<"}},
		"heatmap":        {buckets, "s", []string{`class="c-h9"`, ">100 ms<", ">cut<"}},
		"state-timeline": {[]series{region("Warmup", on(0, 4)), region("Measure", on(5, 30))}, "short", []string{">Warmup<", ">Measure<"}},
	}
	var drawings []drawing
	y := 0
	for kind, p := range panels {
		d := drawing{dashboard: "Run", answers: [][]series{p.answer}, stages: stages, faults: faults}
		d.panel.Type, d.panel.Title, d.panel.Targets = kind, "the "+kind, []target{{LegendFormat: "{{region}}"}}
		d.panel.FieldConfig.Defaults.Unit = p.unit
		d.panel.GridPos.Y, d.panel.GridPos.W, d.panel.GridPos.H = y, 12, 8
		y += 8
		drawings = append(drawings, d)
	}
	folder := t.TempDir()
	if err := plot(folder, drawings, s); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(folder, "run.html"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	charts := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(charts) != len(panels) {
		t.Fatalf("%d charts, want %d", len(charts), len(panels))
	}
	for _, svg := range charts {
		charttest.Inside(t, svg[:min(len(svg), 200)], svg)
		for kind, p := range panels {
			if !strings.Contains(svg, ">the "+kind+"<") {
				continue
			}
			for _, want := range p.says {
				if !strings.Contains(svg, want) {
					t.Errorf("%s does not say %q:\n%s", kind, want, svg)
				}
			}
		}
	}
	if n := strings.Count(page, `class="c-s0"`); n != 3 {
		t.Errorf("the line of eu, which has a gap, has %d strokes, want two parts and one in the legend", n)
	}
}
