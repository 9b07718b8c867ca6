package main

import (
	"fmt"
	"strings"
)

var source = Datasource{Type: "prometheus", UID: "${datasource}"}

// query is a PromQL expression and the name of its series.
type query struct{ expr, legend string }

// chart describes a panel of a dashboard.
type chart struct {
	kind                     string // timeseries, stat, heatmap, table, state-timeline or bargauge
	title, description, unit string
	queries                  []query
	width, height            int
	stacked                  bool
	max                      *float64
	limit                    *float64          // value at which a horizontal line is drawn
	columns                  map[string]string // headings of a table's columns, by label or refId
	order                    []string          // headings of a table's columns, in order
	zero                     string            // text in place of an empty result
	exemplars                bool
	units                    map[string]string // units of a table's columns, by heading, where they differ from unit
}

// section is a heading and the charts below it.
type section struct {
	title  string
	charts []chart
}

func num(v float64) *float64 { return &v }

// build arranges the charts of the sections in 24 columns, from left to right and from top to bottom.
func build(sections []section) []Panel {
	var panels []Panel
	id, y := 1, 0
	for _, s := range sections {
		panels = append(panels, Panel{ID: id, Type: "row", Title: s.title, Collapsed: new(bool), GridPos: GridPos{H: 1, W: 24, X: 0, Y: y}})
		id, y = id+1, y+1
		x, tallest := 0, 0
		for _, c := range s.charts {
			if x+c.width > 24 {
				x, y, tallest = 0, y+tallest, 0
			}
			p := c.panel()
			p.ID, p.GridPos = id, GridPos{H: c.height, W: c.width, X: x, Y: y}
			panels = append(panels, p)
			id, x, tallest = id+1, x+c.width, max(tallest, c.height)
		}
		y += tallest
	}
	return panels
}

// objective is the name of series that are limits. They are drawn as dashed lines.
const objective = "objective"

func (c *chart) panel() Panel {
	p := Panel{
		Type: c.kind, Title: c.title, Description: c.description, Datasource: &source,
		FieldConfig: &FieldConfig{Defaults: Field{Unit: c.unit, NoValue: c.zero, Max: c.max}, Overrides: []Override{}},
		Options:     map[string]any{},
	}
	instant := c.kind == "table" || c.kind == "bargauge"
	for i, q := range c.queries {
		format := "time_series"
		switch {
		case c.kind == "table":
			format = "table"
		case c.kind == "heatmap":
			format = "heatmap"
		}
		p.Targets = append(p.Targets, Target{
			RefID: string(rune('A' + i)), Datasource: source, Expr: q.expr, LegendFormat: q.legend, Format: format,
			EditorMode: "code", Instant: instant, Range: !instant, Exemplar: c.exemplars && i == 0,
		})
	}
	d := &p.FieldConfig.Defaults
	switch c.kind {
	case "timeseries":
		d.Min, d.Color = num(0), &Color{Mode: "palette-classic"}
		stacking, fill := "none", 8
		if c.stacked {
			stacking, fill = "normal", 40
		}
		d.Custom = map[string]any{
			"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 2, "fillOpacity": fill, "showPoints": "never",
			"spanNulls": false, "stacking": map[string]any{"mode": stacking, "group": "A"},
		}
		if c.limit != nil {
			d.Thresholds = &Thresholds{Mode: "absolute", Steps: []Step{{Color: "transparent"}, {Color: "red", Value: c.limit}}}
			d.Custom["thresholdsStyle"] = map[string]any{"mode": "dashed"}
		}
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
			Matcher: Matcher{ID: "byRegexp", Options: "/^(" + objective + "|declared|tolerance)/"},
			Properties: []Property{
				{ID: "custom.lineStyle", Value: map[string]any{"fill": "dash", "dash": []int{8, 6}}},
				{ID: "custom.fillOpacity", Value: 0}, {ID: "custom.lineWidth", Value: 1},
				{ID: "custom.stacking", Value: map[string]any{"mode": "none"}},
			},
		})
		p.Options["legend"] = map[string]any{"displayMode": "table", "placement": "bottom", "showLegend": true, "calcs": []string{"mean", "max", "lastNotNull"}}
		p.Options["tooltip"] = map[string]any{"mode": "multi", "sort": "desc"}
	case "stat":
		d.Color = &Color{Mode: "thresholds"}
		d.Thresholds = &Thresholds{Mode: "absolute", Steps: []Step{{Color: "blue"}}}
		if c.limit != nil {
			d.Thresholds.Steps = []Step{{Color: "green"}, {Color: "red", Value: c.limit}}
		}
		p.Options["reduceOptions"] = map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
		p.Options["colorMode"], p.Options["graphMode"], p.Options["textMode"] = "value", "area", "auto"
	case "heatmap":
		p.Options["calculate"] = false
		p.Options["yAxis"] = map[string]any{"unit": c.unit, "axisPlacement": "left"}
		p.Options["color"] = map[string]any{"mode": "scheme", "scheme": "Turbo", "scale": "exponential", "exponent": 0.5, "steps": 64, "fill": "dark-blue"}
		p.Options["cellGap"] = 0
		p.Options["filterValues"] = map[string]any{"le": 1e-9}
		p.Options["tooltip"] = map[string]any{"mode": "single", "yHistogram": true, "showColorScale": true}
		p.Options["legend"] = map[string]any{"show": true}
	case "state-timeline":
		d.Color = &Color{Mode: "palette-classic"}
		d.Mappings = []map[string]any{{"type": "value", "options": map[string]any{"1": map[string]any{"text": " ", "index": 0}}}}
		d.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
		p.Options["mergeValues"], p.Options["showValue"], p.Options["alignValue"], p.Options["rowHeight"] = true, "never", "left", 0.9
		p.Options["legend"] = map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false}
	case "bargauge":
		d.Min, d.Color = num(0), &Color{Mode: "continuous-BlYlRd"}
		p.Options["orientation"], p.Options["displayMode"] = "horizontal", "basic"
		p.Options["reduceOptions"] = map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	case "table":
		c.table(&p)
	default:
		panic(fmt.Sprintf("panel %s: kind %q", c.title, c.kind))
	}
	return p
}

// table turns the results of all queries into a table with a row for each set of labels.
func (c *chart) table(p *Panel) {
	exclude := map[string]bool{"Time": true}
	for i := range c.queries {
		exclude[fmt.Sprintf("Time %d", i+1)] = true
	}
	rename, index := map[string]string{}, map[string]int{}
	for from, to := range c.columns {
		if len(from) == 1 {
			from = "Value #" + from
			if len(c.queries) == 1 {
				rename["Value"] = to
			}
		}
		rename[from] = to
		for i, heading := range c.order {
			if heading == to {
				index[from] = i
			}
		}
	}
	p.Transformations = []Transformation{
		{ID: "merge", Options: map[string]any{}},
		{ID: "organize", Options: map[string]any{"excludeByName": exclude, "renameByName": rename, "indexByName": index}},
	}
	p.Options["cellHeight"], p.Options["showHeader"] = "sm", true
	for heading, unit := range c.units {
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, Override{
			Matcher: Matcher{ID: "byName", Options: heading}, Properties: []Property{{ID: "unit", Value: unit}},
		})
	}
	sortOverrides(p.FieldConfig.Overrides)
}

func sortOverrides(o []Override) {
	for i := range o {
		for j := i + 1; j < len(o); j++ {
			if strings.Compare(o[j].Matcher.Options.(string), o[i].Matcher.Options.(string)) < 0 {
				o[i], o[j] = o[j], o[i]
			}
		}
	}
}

// wide returns the chart with this width and height.
func wide(c chart, width, height int) chart { c.width, c.height = width, height; return c }

// empty sets the text that charts show if they have no data, and returns the charts.
func empty(means string, charts ...chart) []chart {
	for i := range charts {
		charts[i].zero = means
	}
	return charts
}

func lines(title, description, unit string, queries ...query) chart {
	return chart{kind: "timeseries", title: title, description: description, unit: unit, queries: queries, width: 12, height: 9}
}

func figure(title, description, unit, expr string) chart {
	return chart{kind: "stat", title: title, description: description, unit: unit, queries: []query{{expr, ""}}, width: 4, height: 4}
}
