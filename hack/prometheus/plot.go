package main

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/geobench/geobench/internal/base/chart"
)

// drawing is a panel with the results of its queries.
type drawing struct {
	dashboard string
	panel     panel
	answers   [][]series
	// stages and faults are the series for the bands that mark stages and faults.
	stages, faults []series
}

// columnWidth and rowHeight are the dimensions of a page's grid in pixels. It has 24 columns, as in Grafana.
const (
	columnWidth = 50
	rowHeight   = 34
)

// plot draws each dashboard on a page that approximates Grafana's display. It uses no Grafana, but has the same data
// and layout, so that a person can check queries, units and names.
func plot(folder string, drawings []drawing, s *server) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	pages := map[string]*strings.Builder{}
	for i, d := range drawings {
		b := pages[d.dashboard]
		if b == nil {
			b = &strings.Builder{}
			fmt.Fprintf(b, `<!doctype html><meta charset="utf-8"><title>%s</title><style>
body{margin:0;background:#f4f5f5;font:12px "DejaVu Sans",sans-serif;color:#222;position:relative;width:%dpx}
div.p{position:absolute;background:#fff;border:1px solid #d8d9da;border-radius:3px;box-sizing:border-box;overflow:hidden}
div.p>b{display:block;padding:5px 8px;font-size:13px} h2{position:absolute;margin:0;font-size:14px;padding:8px}
table{border-collapse:collapse;width:100%%;font-size:11px}td,th{padding:3px 8px;border-top:1px solid #e4e5e6;text-align:left;white-space:nowrap}td.n,th.n{text-align:right}
.v{font-size:26px;color:#0068a8;text-align:center;padding-top:8px}.none{color:#888}svg{display:block;max-width:100%%;max-height:calc(100%% - 28px)}
%s</style>`, html.EscapeString(d.dashboard), 24*columnWidth, chart.CSS(false))
			pages[d.dashboard] = b
		}
		g := d.panel.GridPos
		x, y, w, h := g.X*columnWidth, g.Y*rowHeight, g.W*columnWidth, g.H*rowHeight
		if d.panel.Type == "row" {
			fmt.Fprintf(b, `<h2 style="left:%dpx;top:%dpx">%s</h2>`, x, y, html.EscapeString(d.panel.Title))
			continue
		}
		fmt.Fprintf(b, `<div class="p" style="left:%dpx;top:%dpx;width:%dpx;height:%dpx"><b>%s</b>`, x+3, y+3, w-6, h-6, html.EscapeString(d.panel.Title))
		d.draw(b, fmt.Sprintf("panel%d", i), w-6, h-6-28, s)
		b.WriteString("</div>\n")
	}
	for name, b := range pages {
		if err := os.WriteFile(filepath.Join(folder, strings.ToLower(name)+".html"), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (d *drawing) draw(b *strings.Builder, id string, w, h int, s *server) {
	switch d.panel.Type {
	case "stat":
		d.stat(b)
	case "table":
		d.table(b)
	case "bargauge":
		d.bars(b, id, w)
	case "heatmap":
		d.heatmap(b, id, w, h, s)
	case "state-timeline":
		d.states(b, id, w, s)
	default:
		d.lines(b, id, w, h, s)
	}
}

func (d *drawing) unit() string { return d.panel.FieldConfig.Defaults.Unit }

func (d *drawing) legend(query int, labels map[string]string) string {
	out := d.panel.Targets[query].LegendFormat
	for k, v := range labels {
		out = strings.ReplaceAll(out, "{{"+k+"}}", v)
	}
	// Remove the placeholders of labels that the series lacks.
	for {
		i := strings.Index(out, "{{")
		j := strings.Index(out, "}}")
		if i < 0 || j < i {
			return strings.Join(strings.Fields(out), " ")
		}
		out = out[:i] + out[j+2:]
	}
}

// last returns the last value of a series.
func last(s *series) (float64, bool) {
	if s.Value != nil {
		return s.Value.value, !math.IsNaN(s.Value.value)
	}
	for i := len(s.Values) - 1; i >= 0; i-- {
		if !math.IsNaN(s.Values[i].value) {
			return s.Values[i].value, true
		}
	}
	return 0, false
}

func (d *drawing) stat(b *strings.Builder) {
	for _, a := range d.answers {
		for i := range a {
			// Use the values during the run, because they are more informative than the values after it.
			values := a[i].Values
			if len(values) == 0 {
				continue
			}
			fmt.Fprintf(b, `<div class="v">%s</div>`, format(values[len(values)*2/3].value, d.unit()))
		}
	}
}

func (d *drawing) table(b *strings.Builder) {
	rename, index := d.panel.Transformations[1].Options.RenameByName, d.panel.Transformations[1].Options.IndexByName
	units := map[string]string{}
	for _, o := range d.panel.FieldConfig.Overrides {
		units[o.Matcher.Options] = fmt.Sprint(o.Properties[0].Value)
	}
	rows := map[string]map[string]string{}
	numeric := map[string]bool{}
	for q, answer := range d.answers {
		for i := range answer {
			keys := slices.Sorted(maps.Keys(answer[i].Labels))
			id := ""
			for _, k := range keys {
				id += k + "=" + answer[i].Labels[k] + ","
			}
			if rows[id] == nil {
				rows[id] = map[string]string{}
				for k, v := range answer[i].Labels {
					rows[id][k] = v
				}
			}
			column := "Value #" + d.panel.Targets[q].RefID
			unit := d.unit()
			if u := units[rename[column]]; u != "" {
				unit = u
			}
			if v, ok := last(&answer[i]); ok {
				rows[id][column] = format(v, unit)
			}
			numeric[column] = true
		}
	}
	columns := slices.Collect(maps.Keys(index))
	columns = slices.DeleteFunc(columns, func(c string) bool { return c == "Value" })
	slices.SortFunc(columns, func(a, b string) int { return index[a] - index[b] })
	class := func(c string) string {
		if numeric[c] {
			return ` class="n"`
		}
		return ""
	}
	b.WriteString("<table><tr>")
	for _, c := range columns {
		fmt.Fprintf(b, "<th%s>%s</th>", class(c), html.EscapeString(rename[c]))
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString("</tr><tr>")
		for _, c := range columns {
			fmt.Fprintf(b, "<td%s>%s</td>", class(c), html.EscapeString(rows[id][c]))
		}
	}
	b.WriteString("</tr></table>")
}

func (d *drawing) bars(b *strings.Builder, id string, w int) {
	c := &chart.Rows{Title: d.panel.Title, About: "Bars.", Width: float64(w)}
	for q, a := range d.answers {
		for i := range a {
			v, _ := last(&a[i])
			c.Rows = append(c.Rows, chart.Row{Name: d.legend(q, a[i].Labels), Bar: v, Value: format(v, d.unit())})
		}
	}
	b.WriteString(c.Draw().SVG(id))
}

// over returns an empty chart that covers the time of the run, with bands for its stages and faults.
func (d *drawing) over(s *server, w int) *chart.Lines {
	c := &chart.Lines{
		Title: d.panel.Title, About: "Over time.", XLabel: "seconds", XTop: s.seconds(float64(s.to.UnixMilli()) / 1000), Width: float64(w),
		YTick: func(v float64) string { return format(v, d.unit()) },
	}
	for i := range d.stages {
		if v := d.stages[i].Values; len(v) > 0 {
			c.Divides = append(c.Divides, s.seconds(v[0].at))
		}
	}
	for i := range d.faults {
		if v := d.faults[i].Values; len(v) > 0 {
			c.Bands = append(c.Bands, chart.Band{From: s.seconds(v[0].at), To: s.seconds(v[len(v)-1].at), Name: d.faults[i].Labels["fault"]})
		}
	}
	return c
}

// seconds converts a Unix time to seconds since the start of the plots.
func (s *server) seconds(at float64) float64 { return at - float64(s.from.UnixMilli())/1000 }

// named is the maximum number of entries in the legend of a panel.
const named = 12

func (d *drawing) lines(b *strings.Builder, id string, w, h int, s *server) {
	c := d.over(s, w)
	lines, references := 0, 0
	for q, a := range d.answers {
		for i := range a {
			line := chart.Series{Name: d.legend(q, a[i].Labels), Class: lines}
			if slices.ContainsFunc([]string{"objective", "declared", "tolerance"}, func(of string) bool { return strings.HasPrefix(line.Name, of) }) {
				line.Class = chart.Class(chart.Grey, references)
				references++
			} else {
				lines++
			}
			if lines+references > named {
				line.Name = ""
			}
			for _, v := range a[i].Values {
				if !math.IsNaN(v.value) && !math.IsInf(v.value, 0) {
					line.Points = append(line.Points, chart.Point{X: s.seconds(v.at), Y: v.value})
					continue
				}
				// After a gap, continue with a new line that has no entry in the legend.
				if len(line.Points) > 0 {
					c.Series = append(c.Series, line)
					line.Name, line.Points = "", nil
				}
			}
			c.Series = append(c.Series, line)
		}
	}
	if lines+references == 0 {
		fmt.Fprintf(b, `<div class="v none">%s</div>`, html.EscapeString(cmp.Or(d.panel.FieldConfig.Defaults.NoValue, "No data")))
		return
	}
	b.WriteString(c.Within(float64(h)).SVG(id))
}

func (d *drawing) states(b *strings.Builder, id string, w int, s *server) {
	c := &chart.Rows{Title: d.panel.Title, About: "States over time.", XLabel: "seconds", Width: float64(w)}
	for q, a := range d.answers {
		for i := range a {
			r := chart.Row{Name: d.legend(q, a[i].Labels), Class: len(c.Rows)}
			for _, v := range a[i].Values {
				if from := s.seconds(v.at); v.value == 1 {
					if n := len(r.Spans); n > 0 && from <= r.Spans[n-1][1]+1e-3 {
						r.Spans[n-1][1] = from + step.Seconds()
						continue
					}
					r.Spans = append(r.Spans, [2]float64{max(from, 0), from + step.Seconds()})
				}
			}
			c.Rows = append(c.Rows, r)
		}
	}
	b.WriteString(c.Draw().SVG(id))
}

// heatmap draws a heat map from native histograms, or from the cumulative buckets of classic histograms.
func (d *drawing) heatmap(b *strings.Builder, id string, w, h int, s *server) {
	c := d.over(s, w)
	most := 0.0
	add := func(at, low, high, count float64) {
		rate := count / math.Log(high/low)
		most = max(most, rate)
		c.Cells = append(c.Cells, chart.Cell{Left: max(s.seconds(at)-step.Seconds(), 0), Right: s.seconds(at), Bottom: low, Top: high, Share: rate})
	}
	for _, a := range d.answers {
		type bound struct {
			le     float64
			series *series
		}
		var bounds []bound
		for i := range a {
			for _, hist := range a[i].Histograms {
				for _, k := range hist.buckets {
					if k[2] > 0 {
						add(hist.at, k[0], k[1], k[2])
					}
				}
			}
			if le, err := strconv.ParseFloat(a[i].Labels["le"], 64); err == nil && !math.IsInf(le, 0) {
				bounds = append(bounds, bound{le, &a[i]})
			}
		}
		slices.SortFunc(bounds, func(a, b bound) int { return cmp.Compare(a.le, b.le) })
		below := map[float64]float64{}
		for i, k := range bounds {
			for _, v := range k.series.Values {
				if n := v.value - below[v.at]; n > 0 && i > 0 {
					add(v.at, bounds[i-1].le, k.le, n)
				}
				below[v.at] = v.value
			}
		}
	}
	if most == 0 {
		return
	}
	for i := range c.Cells {
		c.Cells[i].Share = math.Sqrt(c.Cells[i].Share / most)
	}
	c.LogY, c.YTick = true, func(v float64) string { return format(v, "s") }
	b.WriteString(c.Within(float64(h)).SVG(id))
}

// format formats a value in a unit like Grafana.
func format(v float64, unit string) string {
	scaled := func(v float64, base float64, units ...string) string {
		i := 0
		for math.Abs(v) >= base && i < len(units)-1 {
			v /= base
			i++
		}
		return strings.TrimSpace(strconv.FormatFloat(v, 'g', 3, 64) + " " + units[i])
	}
	if v == 0 {
		return "0"
	}
	switch unit {
	case "s":
		if math.Abs(v) < 1 {
			return scaled(v*1e6, 1000, "µs", "ms", "s")
		}
		return strconv.FormatFloat(v, 'g', 3, 64) + " s"
	case "bytes":
		return scaled(v, 1024, "B", "KiB", "MiB", "GiB")
	case "Bps":
		return scaled(v, 1000, "B/s", "kB/s", "MB/s", "GB/s")
	case "ops":
		return scaled(v, 1000, "ops/s", "K ops/s", "M ops/s")
	case "percentunit":
		return strconv.FormatFloat(v*100, 'g', 3, 64) + "%"
	}
	return scaled(v, 1000, "", "K", "M", "G")
}
