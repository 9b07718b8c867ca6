// Package charttest checks properties of drawings that readers need.
package charttest

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// glyph is the approximate width of a character, in CSS pixels.
const glyph = 0.56 * 13

// Inside checks that no stroke or text of an SVG extends beyond its edges. The SVG must also have a title and a
// description for blind readers.
func Inside(t *testing.T, name, svg string) {
	t.Helper()
	var width, height float64
	inside := func(x, y, left, right float64, what string) {
		t.Helper()
		// The text of a tick may extend by a few pixels into the margin of the page.
		if !(x-left >= -8 && x+right <= width+8 && y >= 0 && y <= height) {
			t.Errorf("%s: %s at %v, %v is outside of %v x %v", name, what, x, y, width, height)
		}
	}
	words := map[string]string{}
	var text xml.StartElement
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			text = e.Copy()
			switch e.Name.Local {
			case "svg":
				if _, err := fmt.Sscanf(attribute(e, "viewBox"), "0 0 %g %g", &width, &height); err != nil {
					t.Fatalf("%s: viewBox %q: %v", name, attribute(e, "viewBox"), err)
				}
			case "circle":
				inside(length(t, e, "cx"), length(t, e, "cy"), 0, 0, "a circle")
			case "path":
				for _, p := range regexp.MustCompile(`[ML]([^ MLZ]+) ([^ MLZ]+)`).FindAllStringSubmatch(attribute(e, "d"), -1) {
					inside(number(t, p[1]), number(t, p[2]), 0, 0, "a line")
				}
			}
		case xml.CharData:
			words[text.Name.Local] += string(e)
			if text.Name.Local != "text" {
				continue
			}
			w := glyph * float64(len([]rune(string(e))))
			left := map[string]float64{"start": 0, "middle": w / 2, "end": w}[attribute(text, "text-anchor")]
			inside(length(t, text, "x"), length(t, text, "y"), left, w-left, fmt.Sprintf("text %q", e))
		}
	}
	if words["title"] == "" || words["desc"] == "" {
		t.Errorf("%s has no words for those who do not see it", name)
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func length(t *testing.T, e xml.StartElement, name string) float64 {
	t.Helper()
	return number(t, attribute(e, name))
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.Fatalf("coordinate %q is no number", text)
	}
	return v
}

// luminance returns the relative luminance of a colour as defined by WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	var c [3]uint8
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("%q is no colour", hex)
	}
	l := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(c[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		l += weight * v
	}
	return l
}

// Contrast returns the contrast ratio of two colours, #rrggbb, as defined by WCAG 2.2, 1.4.3. For text it should be at
// least 4.5.
func Contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}
