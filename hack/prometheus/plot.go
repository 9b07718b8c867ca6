package main

import (
	"fmt"
	"html"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// drawing is a panel and the answers to its queries.
type drawing struct {
	dashboard string
	panel     panel
	answers   [][]series
	// stages and faults are the bands of the dashboard's annotations.
	stages, faults []series
}

// The grid of a page: 24 columns, as in Grafana.
const (
	columnWidth = 50
	rowHeight   = 34
)

var palette = []string{"#3274d9", "#e0752d", "#3f9d56", "#c4428b", "#8f6ed5", "#b8a000", "#1aa0a8", "#a05a2c", "#d64550", "#5f7a8c", "#7aa82a", "#345995"}

// plot draws what Grafana would show, one page for each dashboard: not with Grafana's means but with its data and its
// layout, so that a person can judge queries, units and names.
func plot(folder string, drawings []drawing, s *server) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	pages := map[string]*strings.Builder{}
	for _, d := range drawings {
		b := pages[d.dashboard]
		if b == nil {
			b = &strings.Builder{}
			fmt.Fprintf(b, `<!doctype html><meta charset="utf-8"><title>%s</title><style>
body{margin:0;background:#f4f5f5;font:12px "DejaVu Sans",sans-serif;color:#222;position:relative;width:%dpx}
div.p{position:absolute;background:#fff;border:1px solid #d8d9da;border-radius:3px;box-sizing:border-box;overflow:hidden}
div.p>b{display:block;padding:5px 8px;font-size:13px} h2{position:absolute;margin:0;font-size:14px;padding:8px}
table{border-collapse:collapse;width:100%%;font-size:11px}td,th{padding:3px 8px;border-top:1px solid #e4e5e6;text-align:left;white-space:nowrap}td.n,th.n{text-align:right}
.v{font-size:26px;color:#3274d9;text-align:center;padding-top:8px}.l{font-size:10px;line-height:1.5;padding:0 8px}.l i{display:inline-block;width:10px;height:3px;margin:2px 4px 2px 0}
</style>`, html.EscapeString(d.dashboard), 24*columnWidth)
			pages[d.dashboard] = b
		}
		g := d.panel.GridPos
		x, y, w, h := g.X*columnWidth, g.Y*rowHeight, g.W*columnWidth, g.H*rowHeight
		if d.panel.Type == "row" {
			fmt.Fprintf(b, `<h2 style="left:%dpx;top:%dpx">%s</h2>`, x, y, html.EscapeString(d.panel.Title))
			continue
		}
		fmt.Fprintf(b, `<div class="p" style="left:%dpx;top:%dpx;width:%dpx;height:%dpx"><b>%s</b>`, x+3, y+3, w-6, h-6, html.EscapeString(d.panel.Title))
		d.draw(b, w-6, h-6-28, s)
		b.WriteString("</div>\n")
	}
	for name, b := range pages {
		if err := os.WriteFile(filepath.Join(folder, strings.ToLower(name)+".html"), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (d *drawing) draw(b *strings.Builder, w, h int, s *server) {
	switch d.panel.Type {
	case "stat":
		d.stat(b)
	case "table":
		d.table(b)
	case "bargauge":
		d.bars(b, w)
	case "heatmap":
		d.heatmap(b, w, h, s)
	case "state-timeline":
		d.states(b, w, h, s)
	default:
		d.lines(b, w, h, s)
	}
}

func (d *drawing) unit() string { return d.panel.FieldConfig.Defaults.Unit }

func (d *drawing) legend(query int, labels map[string]string) string {
	out := d.panel.Targets[query].LegendFormat
	for k, v := range labels {
		out = strings.ReplaceAll(out, "{{"+k+"}}", v)
	}
	// A label that is not there is empty.
	for {
		i := strings.Index(out, "{{")
		j := strings.Index(out, "}}")
		if i < 0 || j < i {
			return strings.Join(strings.Fields(out), " ")
		}
		out = out[:i] + out[j+2:]
	}
}

// last is the last figure of a series.
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
			// What was shown while the run went on says more than what is left after it.
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

func (d *drawing) bars(b *strings.Builder, w int) {
	most := 0.0
	for _, a := range d.answers {
		for i := range a {
			if v, ok := last(&a[i]); ok {
				most = max(most, v)
			}
		}
	}
	for q, a := range d.answers {
		for i := range a {
			v, _ := last(&a[i])
			fmt.Fprintf(b, `<div class="l" style="font-size:11px;padding-top:6px">%s<span style="float:right">%s</span><div style="background:#3274d9;height:10px;width:%.0fpx"></div></div>`,
				html.EscapeString(d.legend(q, a[i].Labels)), format(v, d.unit()), v/max(most, 1e-12)*float64(w-20))
		}
	}
}

// frame is a chart's area in an SVG, with time to the right and values upwards.
type frame struct {
	left, top, width, height float64
	from, to                 time.Time
	low, high                float64
}

func (f *frame) x(at float64) float64 {
	begin := float64(f.from.UnixMilli()) / 1000
	return f.left + (at-begin)/f.to.Sub(f.from).Seconds()*f.width
}

func (f *frame) y(v float64) float64 {
	return f.top + f.height - (v-f.low)/(f.high-f.low)*f.height
}

// round makes the highest value one that can be divided into a few steps of 1, 2 or 5 times a power of ten.
func (f *frame) round() (step float64) {
	step = math.Pow(10, math.Floor(math.Log10(f.high/4)))
	for _, m := range []float64{5, 2} {
		if f.high/(m*step) >= 4 {
			step *= m
			break
		}
	}
	f.high = math.Ceil(f.high/step*1.02) * step
	return step
}

// bands shade the faults and divide the stages.
func (d *drawing) bands(b *strings.Builder, f *frame) {
	for i := range d.stages {
		if v := d.stages[i].Values; len(v) > 0 {
			fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#9db7dd" stroke-dasharray="3 3"/>`, f.x(v[0].at), f.x(v[0].at), f.top, f.top+f.height)
		}
	}
	for i := range d.faults {
		if v := d.faults[i].Values; len(v) > 0 {
			from, to := f.x(v[0].at), f.x(v[len(v)-1].at)
			fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#d64550" fill-opacity=".14"/>`, from, f.top, to-from, f.height)
			fmt.Fprintf(b, `<text x="%.1f" y="%.1f" font-size="10" fill="#a8222d">%s</text>`, from+3, f.top+10, html.EscapeString(d.faults[i].Labels["fault"]))
		}
	}
}

func (f *frame) axes(b *strings.Builder, unit string, every float64) {
	if every > 0 {
		for v := f.low; v <= f.high*(1+1e-9); v += every {
			fmt.Fprintf(b, `<line x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f" stroke="#e8e8e8"/><text x="%.0f" y="%.1f" font-size="10" text-anchor="end" fill="#555">%s</text>`,
				f.left, f.left+f.width, f.y(v), f.y(v), f.left-4, f.y(v)+3, format(v, unit))
		}
	}
	for i := range 5 {
		at := f.from.Add(f.to.Sub(f.from) * time.Duration(i) / 4)
		fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-size="10" text-anchor="middle" fill="#555">%.0f s</text>`,
			f.left+f.width*float64(i)/4, f.top+f.height+13, at.Sub(f.from).Seconds())
	}
}

func (d *drawing) lines(b *strings.Builder, w, h int, s *server) {
	var names strings.Builder
	f := &frame{left: 84, top: 6, width: float64(w) - 98, from: s.from, to: s.to}
	n := 0
	for _, a := range d.answers {
		n += len(a)
		for i := range a {
			for _, v := range a[i].Values {
				if !math.IsNaN(v.value) && !math.IsInf(v.value, 0) {
					f.high = max(f.high, v.value)
				}
			}
		}
	}
	if n == 0 {
		text := d.panel.FieldConfig.Defaults.NoValue
		if text == "" {
			text = "No data"
		}
		fmt.Fprintf(b, `<div class="v" style="color:#888">%s</div>`, text)
		return
	}
	if f.high == 0 {
		f.high = 1
	}
	every := f.round()
	legendHeight := 15*min((n+1)/2, 6) + 6
	f.height = float64(h-legendHeight) - 24
	fmt.Fprintf(b, `<svg width="%d" height="%d">`, w, h-legendHeight)
	f.axes(b, d.unit(), every)
	d.bands(b, f)
	i := 0
	for q, a := range d.answers {
		for j := range a {
			name := d.legend(q, a[j].Labels)
			color, dash := palette[i%len(palette)], ""
			for _, dashed := range []string{"objective", "declared", "tolerance"} {
				if strings.HasPrefix(name, dashed) {
					color, dash = "#888", ` stroke-dasharray="7 5"`
				}
			}
			var path strings.Builder
			pen := "M"
			for _, v := range a[j].Values {
				if math.IsNaN(v.value) || math.IsInf(v.value, 0) {
					pen = "M"
					continue
				}
				fmt.Fprintf(&path, "%s%.1f %.1f", pen, f.x(v.at), f.y(v.value))
				pen = "L"
			}
			fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6"%s/>`, path.String(), color, dash)
			if i < 12 {
				fmt.Fprintf(&names, `<span style="display:inline-block;width:49%%;height:15px;vertical-align:top;overflow:hidden;white-space:nowrap"><i style="background:%s"></i>%s</span>`, color, html.EscapeString(name))
			}
			i++
		}
	}
	fmt.Fprintf(b, `</svg><div class="l">%s</div>`, names.String())
}

func (d *drawing) states(b *strings.Builder, w, h int, s *server) {
	f := &frame{left: 200, top: 4, width: float64(w) - 220, from: s.from, to: s.to}
	f.height = float64(h) - 24
	fmt.Fprintf(b, `<svg width="%d" height="%d">`, w, h)
	f.axes(b, "short", 0)
	n := 0
	for _, a := range d.answers {
		n += len(a)
	}
	band := f.height / float64(max(n, 1))
	i := 0
	for q, a := range d.answers {
		for j := range a {
			y := f.top + band*float64(i)
			fmt.Fprintf(b, `<text x="%.0f" y="%.1f" font-size="11" text-anchor="end">%s</text>`, f.left-6, y+band/2+4, html.EscapeString(d.legend(q, a[j].Labels)))
			for _, v := range a[j].Values {
				if v.value == 1 {
					fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`,
						f.x(v.at), y+1, f.width/f.to.Sub(f.from).Seconds()*step.Seconds()+.5, band-2, palette[i%len(palette)])
				}
			}
			i++
		}
	}
	b.WriteString("</svg>")
}

// heatmap draws native histograms as they come, and classic ones from their cumulative buckets.
func (d *drawing) heatmap(b *strings.Builder, w, h int, s *server) {
	type cell struct{ at, low, high, rate float64 }
	var cells []cell
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
						cells = append(cells, cell{hist.at, k[0], k[1], k[2] / math.Log(k[1]/k[0])})
					}
				}
			}
			if le, err := strconv.ParseFloat(a[i].Labels["le"], 64); err == nil && !math.IsInf(le, 0) {
				bounds = append(bounds, bound{le, &a[i]})
			}
		}
		slices.SortFunc(bounds, func(a, b bound) int { return int(math.Copysign(1, a.le-b.le)) })
		below := map[float64]float64{}
		for i, k := range bounds {
			for _, v := range k.series.Values {
				if n := v.value - below[v.at]; n > 0 && i > 0 {
					cells = append(cells, cell{v.at, bounds[i-1].le, k.le, n / math.Log(k.le/bounds[i-1].le)})
				}
				below[v.at] = v.value
			}
		}
	}
	low, high, most := math.Inf(1), 0.0, 0.0
	for _, c := range cells {
		low, high, most = min(low, c.low), max(high, c.high), max(most, c.rate)
	}
	if most == 0 {
		return
	}
	f := &frame{left: 84, top: 6, width: float64(w) - 98, height: float64(h) - 30, from: s.from, to: s.to, low: math.Log10(low), high: math.Log10(high)}
	fmt.Fprintf(b, `<svg width="%d" height="%d">`, w, h)
	f.axes(b, "", 0)
	defer func() { b.WriteString("</svg>") }()
	for _, c := range cells {
		y := f.y(math.Log10(c.high))
		share := math.Sqrt(c.rate / most)
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="hsl(%.0f,85%%,%.0f%%)"/>`, f.x(c.at)-f.width/f.to.Sub(f.from).Seconds()*step.Seconds(), y,
			f.width/f.to.Sub(f.from).Seconds()*step.Seconds()+.4, f.y(math.Log10(c.low))-y+.4, 240-230*share, 70-20*share)
	}
	for e := math.Ceil(f.low*2) / 2; e <= f.high; e += 0.5 {
		fmt.Fprintf(b, `<text x="%.0f" y="%.1f" font-size="10" text-anchor="end" fill="#555">%s</text>`, f.left-4, f.y(e)+3, format(math.Pow(10, e), "s"))
	}
	d.bands(b, f)
}

// format writes a value as Grafana does in this unit.
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
	case "currencyUSD":
		return "$" + strconv.FormatFloat(v, 'g', 3, 64)
	}
	return scaled(v, 1000, "", "K", "M", "G")
}
