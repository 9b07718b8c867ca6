package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// scene is a drawing: what charts are made of, before it becomes SVG or, in a build with -tags full, PNG. Lengths are in
// CSS pixels; y grows downwards.
type scene struct {
	width, height float64
	title         string
	// about says in words what the chart shows, for those who do not see it.
	about string
	items []item
}

type point struct{ x, y float64 }

// item is one stroke, area or text, styled by its class.
type item struct {
	class  string
	points []point // a line; closed and filled for an area
	text   string  // at points[0]
	anchor string  // start, middle or end
	turned bool    // a text that reads upwards
	radius float64 // a circle around points[0]
}

func (s *scene) line(class string, points ...point) {
	if len(points) > 1 {
		s.items = append(s.items, item{class: class, points: points})
	}
}

func (s *scene) rect(class string, x0, y0, x1, y1 float64) {
	s.items = append(s.items, item{class: class, points: []point{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}})
}

func (s *scene) circle(class string, x, y, radius float64) {
	s.items = append(s.items, item{class: class, points: []point{{x, y}}, radius: radius})
}

func (s *scene) text(class, anchor string, x, y float64, text string) {
	s.items = append(s.items, item{class: class, points: []point{{x, y}}, text: text, anchor: anchor})
}

// style is how a class looks: its colour on light and on dark ground.
type style struct {
	light, dark string
	// width of a stroke; 0 fills.
	width float64
	dash  []float64
	// opacity of a fill; 0 is 1.
	opacity float64
	// size of a text; 0 is no text.
	size float64
	bold bool
}

// seriesColours can be told apart by people of all colour vision, and have a contrast of 3:1 or more with their ground;
// lines differ in their dashes too.
var seriesColours = []struct{ light, dark string }{
	{"#0068a8", "#5bb8f5"}, {"#c24e00", "#ff9a52"}, {"#00795a", "#3fd0a4"}, {"#a8327d", "#f29fce"},
	{"#7d5800", "#e6bd4d"}, {"#4a49c4", "#aaa9ff"}, {"#56606e", "#b7c0cc"}, {"#9c1616", "#ff8a8a"},
}

var dashes = [][]float64{nil, {6, 3}, {2, 3}, {8, 3, 2, 3}, {12, 3}, {4, 2}, {1, 2}, {10, 2, 2, 2, 2, 2}}

const (
	inkLight, inkDark     = "#1c2430", "#e8ecf2"
	mutedLight, mutedDark = "#566072", "#a9b3c2"
	fontSize              = 13.0
)

// styles of all classes.
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
	for i, c := range seriesColours {
		m[fmt.Sprintf("s%d", i)] = style{light: c.light, dark: c.dark, width: 2, dash: dashes[i]}
		m[fmt.Sprintf("t%d", i)] = style{light: c.light, dark: c.dark, width: 2}
		m[fmt.Sprintf("e%d", i)] = style{light: c.light, dark: c.dark, width: 1.2}
		m[fmt.Sprintf("f%d", i)] = style{light: c.light, dark: c.dark}
		m[fmt.Sprintf("b%d", i)] = style{light: c.light, dark: c.dark, opacity: 0.35}
	}
	return m
}()

// css writes the classes, in the order of their names.
func css(dark bool) string {
	var b strings.Builder
	for _, name := range sortedKeys(styles) {
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
				fmt.Fprintf(&b, ";stroke-dasharray:%s", strings.Trim(fmt.Sprint(s.dash), "[]"))
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

// svg writes the scene. alone adds the styles and a ground, for a file of its own.
func (s *scene) svg(id string, alone bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img" aria-labelledby="%s-t %s-d"`, num(s.width), num(s.height), id, id)
	if alone {
		fmt.Fprintf(&b, ` width="%s" height="%s"`, num(s.width), num(s.height))
	}
	fmt.Fprintf(&b, ` font-family="%s">`, escape(fontFamily))
	fmt.Fprintf(&b, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, escape(s.title), id, escape(s.about))
	if alone {
		fmt.Fprintf(&b, "<style>.ground{fill:#ffffff}\n%s@media (prefers-color-scheme:dark){.ground{fill:#14181f}\n%s}</style>", css(false), css(true))
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
		b.WriteString(`<path class="c-` + i.class + `" d="`)
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

// num writes a length with one decimal at most.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return b.String()
}

// textWidth estimates the width of a text of fontSize.
func textWidth(s string) float64 { return 0.56 * fontSize * float64(len([]rune(s))) }
