// Package chart draws all charts of Geobench, for reports, experiments and dashboards. A chart is converted to a
// Drawing. A Drawing is written as an SVG, which follows the page's light or dark mode, or as a PNG. Equal charts yield
// identical files.
package chart

import (
	"encoding/xml"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Drawing is the list of a chart's shapes and texts, which can be written as SVG or PNG. Lengths are in CSS pixels; y
// grows downwards.
type Drawing struct {
	// Title is the name of the drawing for blind readers.
	Title string

	width, height float64
	about         string
	items         []item
}

type place struct{ x, y float64 }

// item is a stroke, an area or a text, with the style of its class.
type item struct {
	class  string
	dash   int     // index in dashes
	points []place // a line; closed and filled for an area
	text   string  // at points[0]
	anchor string  // start, middle or end
	turned bool    // the text reads upwards
	radius float64 // a circle around points[0]
}

func (s *Drawing) line(class string, points ...place) { s.dashed(class, 0, points...) }

func (s *Drawing) dashed(class string, dash int, points ...place) {
	if len(points) > 1 {
		s.items = append(s.items, item{class: class, dash: dash, points: points})
	}
}

func (s *Drawing) rect(class string, x0, y0, x1, y1 float64) {
	s.items = append(s.items, item{class: class, points: []place{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}})
}

func (s *Drawing) circle(class string, x, y, radius float64) {
	s.items = append(s.items, item{class: class, points: []place{{x, y}}, radius: radius})
}

func (s *Drawing) text(class, anchor string, x, y float64, text string) {
	s.items = append(s.items, item{class: class, points: []place{{x, y}}, text: text, anchor: anchor})
}

// style is the appearance of a class, with the colours for a light and for a dark background.
type style struct {
	light, dark string
	// width is the width of a stroke; 0 means a fill.
	width float64
	dash  []float64
	// opacity is the opacity of a fill; 0 means 1.
	opacity float64
	// size is the size of a text; 0 for strokes and areas.
	size float64
	bold bool
}

// seriesColours are distinguishable with all kinds of colour vision, and have a contrast of at least 3:1 to the
// background. Lines also differ in their dashes (Class).
var seriesColours = []struct{ light, dark string }{
	{"#0068a8", "#5bb8f5"}, {"#c24e00", "#ff9a52"}, {"#00795a", "#3fd0a4"}, {"#a8327d", "#f29fce"},
	{"#7d5800", "#e6bd4d"}, {"#4a49c4", "#aaa9ff"}, {"#56606e", "#b7c0cc"}, {"#9c1616", "#ff8a8a"},
}

// Grey is the number of the colour, for Class, of the baseline with which other series are compared.
const Grey = 6

// dashes contains, for each style of a line, the lengths of alternating strokes and gaps.
var dashes = [][]float64{nil, {6, 3}, {2, 3}, {8, 3, 2, 3}, {12, 3}, {4, 2}, {1, 2}, {10, 2, 2, 2, 2, 2}}

// shades is the number of shades of cells.
const shades = 10

const (
	inkLight, inkDark     = "#1c2430", "#e8ecf2"
	mutedLight, mutedDark = "#566072", "#a9b3c2"
	fontSize              = 13.0
)

// styles contains the styles of all classes.
var styles = func() map[string]style {
	m := map[string]style{
		"grid":    {light: "#dfe4ea", dark: "#343c48", width: 1},
		"axis":    {light: mutedLight, dark: mutedDark, width: 1},
		"tick":    {light: mutedLight, dark: mutedDark, size: fontSize},
		"label":   {light: inkLight, dark: inkDark, size: fontSize},
		"strong":  {light: inkLight, dark: inkDark, size: fontSize, bold: true},
		"band":    {light: "#c4302b", dark: "#ff7b72", opacity: 0.16},
		"bandend": {light: "#c4302b", dark: "#ff7b72", width: 1, dash: []float64{3, 2}},
		"bandtag": {light: "#a3201c", dark: "#ff9d96", size: fontSize},
		"divide":  {light: mutedLight, dark: mutedDark, width: 1, dash: []float64{2, 4}},
		"mark":    {light: inkLight, dark: inkDark, width: 2.5},
		"whisker": {light: mutedLight, dark: mutedDark, width: 1.5},
	}
	for i := range shades {
		m[fmt.Sprintf("h%d", i)] = style{light: seriesColours[0].light, dark: seriesColours[0].dark, opacity: float64(i+1) / shades}
	}
	for i, c := range seriesColours {
		m[fmt.Sprintf("s%d", i)] = style{light: c.light, dark: c.dark, width: 2}
		m[fmt.Sprintf("t%d", i)] = style{light: c.light, dark: c.dark, width: 2}
		m[fmt.Sprintf("e%d", i)] = style{light: c.light, dark: c.dark, width: 1.2}
		m[fmt.Sprintf("f%d", i)] = style{light: c.light, dark: c.dark}
		m[fmt.Sprintf("b%d", i)] = style{light: c.light, dark: c.dark, opacity: 0.35}
	}
	return m
}()

// CSS returns the style sheet for all drawings of a page, for a light or a dark background.
func CSS(dark bool) string { return css(dark, func(string) bool { return true }) }

// css returns the styles of the classes for which used returns true, sorted by name.
func css(dark bool, used func(class string) bool) string {
	var b strings.Builder
	// Sort the names, so that equal drawings give equal files.
	for _, name := range slices.Sorted(maps.Keys(styles)) {
		if !used(name) {
			continue
		}
		s := styles[name]
		colour := s.light
		if dark {
			colour = s.dark
		}
		switch {
		case s.size > 0:
			weight := ""
			if s.bold {
				weight = ";font-weight:600"
			}
			fmt.Fprintf(&b, ".c-%s{fill:%s;font-size:%gpx%s}\n", name, colour, s.size, weight)
		case s.width > 0:
			fmt.Fprintf(&b, ".c-%s{fill:none;stroke:%s;stroke-width:%g", name, colour, s.width)
			if s.dash != nil {
				b.WriteString(";stroke-dasharray:" + spaced(s.dash))
			}
			b.WriteString("}\n")
		default:
			fmt.Fprintf(&b, ".c-%s{fill:%s", name, colour)
			if s.opacity > 0 {
				fmt.Fprintf(&b, ";fill-opacity:%g", s.opacity)
			}
			b.WriteString("}\n")
		}
	}
	return b.String()
}

const fontFamily = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif"

func spaced(lengths []float64) string { return strings.Trim(fmt.Sprint(lengths), "[]") }

// SVG returns the drawing for a page that includes CSS. id must be unique on the page.
func (s *Drawing) SVG(id string) string { return s.svg(id, false) }

// File returns the drawing as a separate SVG file. id must be unique on a page that includes the file.
func (s *Drawing) File(id string) string { return s.svg(id, true) }

// svg returns the SVG. If alone is set, the SVG includes styles and a background.
func (s *Drawing) svg(id string, alone bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"`, num(s.width), num(s.height), id, id)
	if alone {
		fmt.Fprintf(&b, ` width="%s" height="%s"`, num(s.width), num(s.height))
	}
	fmt.Fprintf(&b, ` font-family="%s">`, escape(fontFamily))
	fmt.Fprintf(&b, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, escape(s.Title), id, escape(s.about))
	if alone {
		used := func(class string) bool {
			return slices.ContainsFunc(s.items, func(i item) bool { return i.class == class })
		}
		fmt.Fprintf(&b, "<style>.ground{fill:#ffffff}\n%s@media (prefers-color-scheme:dark){.ground{fill:#14181f}\n%s}</style>", css(false, used), css(true, used))
		b.WriteString(`<rect class="ground" width="100%" height="100%"/>`)
	}
	for i := range s.items {
		s.items[i].svg(&b)
	}
	b.WriteString("</svg>")
	return b.String()
}

func (i *item) svg(b *strings.Builder) {
	p := i.points[0]
	switch {
	case i.text != "":
		fmt.Fprintf(b, `<text class="c-%s" x="%s" y="%s" text-anchor="%s"`, i.class, num(p.x), num(p.y), i.anchor)
		if i.turned {
			fmt.Fprintf(b, ` transform="rotate(-90 %s %s)"`, num(p.x), num(p.y))
		}
		fmt.Fprintf(b, ">%s</text>", escape(i.text))
	case i.radius > 0:
		fmt.Fprintf(b, `<circle class="c-%s" cx="%s" cy="%s" r="%s"/>`, i.class, num(p.x), num(p.y), num(i.radius))
	default:
		b.WriteString(`<path class="c-` + i.class + `"`)
		if i.dash > 0 {
			b.WriteString(` stroke-dasharray="` + spaced(dashes[i.dash]) + `"`)
		}
		b.WriteString(` d="`)
		for k, p := range i.points {
			if k == 0 {
				b.WriteString("M")
			} else {
				b.WriteString("L")
			}
			b.WriteString(num(p.x) + " " + num(p.y))
		}
		if styles[i.class].width == 0 {
			b.WriteString("Z")
		}
		b.WriteString(`"/>`)
	}
}

// num formats a length with at most one decimal.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a Builder does not fail
	return b.String()
}

// textWidth returns the estimated width of a text of size fontSize, in CSS pixels.
func textWidth(s string) float64 { return 0.56 * fontSize * float64(len([]rune(s))) }
