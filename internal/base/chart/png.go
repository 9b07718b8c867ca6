package chart

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// pngScale is the number of PNG pixels per CSS pixel. It is greater than 1 for print and for high-resolution screens.
const pngScale = 2

// PNG returns the drawing as a PNG on a white background.
func (s *Drawing) PNG() ([]byte, error) {
	canvas := image.NewRGBA(image.Rect(0, 0, int(math.Round(s.width*pngScale)), int(math.Round(s.height*pngScale))))
	draw.Draw(canvas, canvas.Bounds(), image.White, image.Point{}, draw.Src)
	for i := range s.items {
		it := &s.items[i]
		st, ok := styles[it.class]
		if !ok {
			return nil, fmt.Errorf("there is no style %q", it.class)
		}
		var shape outline
		var err error
		switch {
		case it.text != "":
			err = shape.text(it, &st)
		case it.radius > 0 && st.width > 0:
			// A circle's stroke must end where it started.
			shape.stroke(append(circle(it.points[0], it.radius), it.points[0].plus(it.radius, 0)), st.width)
		case it.radius > 0:
			shape.add(circle(it.points[0], it.radius)...)
		case st.width == 0:
			shape.add(it.points...)
		default:
			lengths := st.dash
			if it.dash > 0 {
				lengths = dashes[it.dash]
			}
			for _, part := range dashed(it.points, lengths) {
				shape.stroke(part, st.width)
			}
		}
		if err != nil {
			return nil, err
		}
		ink, err := inkOf(&st)
		if err != nil {
			return nil, err
		}
		shape.fill(canvas, ink)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, canvas); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func inkOf(st *style) (color.Color, error) {
	ink := color.NRGBA{A: 255}
	if _, err := fmt.Sscanf(st.light, "#%02x%02x%02x", &ink.R, &ink.G, &ink.B); err != nil {
		return nil, fmt.Errorf("colour %q: %w", st.light, err)
	}
	if st.opacity > 0 {
		ink.A = uint8(math.Round(st.opacity * 255))
	}
	return ink, nil
}

func (p place) plus(x, y float64) place { return place{p.x + x, p.y + y} }

// outline is the area that an item covers: the glyphs of a text, or polygons. Polygons have the same orientation, so
// that overlapping polygons do not cancel each other.
type outline struct{ polygons [][]place }

func (o *outline) add(points ...place) { o.polygons = append(o.polygons, points) }

// stroke adds the area of a line of this width, with round corners.
func (o *outline) stroke(points []place, width float64) {
	for i, p := range points {
		if i > 0 {
			q := points[i-1]
			length := math.Hypot(p.x-q.x, p.y-q.y)
			// A segment without length has no direction.
			if length == 0 {
				continue
			}
			x, y := (p.y-q.y)/length*width/2, -(p.x-q.x)/length*width/2
			o.add(q.plus(x, y), p.plus(x, y), p.plus(-x, -y), q.plus(-x, -y))
		}
		// Circles round off the corners of the line; its ends remain flat.
		if i > 0 && i < len(points)-1 {
			o.add(circle(p, width/2)...)
		}
	}
}

// circle returns a polygon that approximates a circle. It has the same orientation as the polygons of stroke.
func circle(center place, radius float64) []place {
	const corners = 32
	var out []place
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		out = append(out, center.plus(radius*cos, radius*sin))
	}
	return out
}

// dashed splits a line into its strokes. If there are no lengths, the line is a single stroke.
func dashed(points []place, lengths []float64) [][]place {
	if len(lengths) == 0 {
		return [][]place{points}
	}
	var out [][]place
	at, left := 0, lengths[0]
	part := []place{points[0]}
	for i := 1; i < len(points); i++ {
		from, to := points[i-1], points[i]
		length := math.Hypot(to.x-from.x, to.y-from.y)
		for done := 0.0; done < length; {
			step := min(left, length-done)
			done, left = done+step, left-step
			p := from.plus((to.x-from.x)*done/length, (to.y-from.y)*done/length)
			// Lengths at even positions are strokes, and all others are gaps.
			if at%2 == 0 {
				part = append(part, p)
			}
			if left > 0 {
				continue
			}
			if at%2 == 0 {
				out = append(out, part)
			}
			at++
			left, part = lengths[at%len(lengths)], []place{p}
		}
	}
	if at%2 == 0 && len(part) > 1 {
		out = append(out, part)
	}
	return out
}

// fonts returns the regular and the bold font.
var fonts = sync.OnceValues(func() (out [2]*sfnt.Font, err error) {
	for i, data := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		if out[i], err = sfnt.Parse(data); err != nil {
			return out, err
		}
	}
	return out, nil
})

// text adds the glyphs of a text.
func (o *outline) text(it *item, st *style) error {
	all, err := fonts()
	if err != nil {
		return err
	}
	face := all[0]
	if st.bold {
		face = all[1]
	}
	// Load glyphs in the font's own units, which are exact, and scale them afterwards.
	var b sfnt.Buffer
	units := fixed.I(int(face.UnitsPerEm()))
	scale := st.size / float64(face.UnitsPerEm())
	var glyphs [][]place
	width := 0.0
	for _, r := range it.text {
		glyph, err := face.GlyphIndex(&b, r)
		if err != nil {
			return err
		}
		segments, err := face.LoadGlyph(&b, glyph, units, nil)
		if err != nil {
			return fmt.Errorf("text %q: %w", it.text, err)
		}
		for _, contour := range contours(segments) {
			for i := range contour {
				contour[i] = place{width + contour[i].x*scale, contour[i].y * scale}
			}
			glyphs = append(glyphs, contour)
		}
		advance, err := face.GlyphAdvance(&b, glyph, units, font.HintingNone)
		if err != nil {
			return err
		}
		width += number(advance) * scale
	}
	start := map[string]float64{"start": 0, "middle": -width / 2, "end": -width}[it.anchor]
	for _, contour := range glyphs {
		for i, p := range contour {
			x, y := p.x+start, p.y
			if it.turned {
				x, y = y, -x
			}
			contour[i] = it.points[0].plus(x, y)
		}
		o.add(contour...)
	}
	return nil
}

func number(v fixed.Int26_6) float64 { return float64(v) / 64 }

// contours returns the polygons of a glyph. Curves are approximated by line segments.
func contours(segments sfnt.Segments) (out [][]place) {
	const pieces = 8
	at := func(p fixed.Point26_6) place { return place{number(p.X), number(p.Y)} }
	var last place
	for _, s := range segments {
		to := s.Args
		switch s.Op {
		case sfnt.SegmentOpMoveTo:
			out = append(out, nil)
			last = at(to[0])
		case sfnt.SegmentOpQuadTo:
			from, control, end := last, at(to[0]), at(to[1])
			// The end point follows below with the exact coordinates from the font.
			for i := 1; i < pieces; i++ {
				t := float64(i) / pieces
				a, b, c := (1-t)*(1-t), 2*t*(1-t), t*t
				out[len(out)-1] = append(out[len(out)-1], place{a*from.x + b*control.x + c*end.x, a*from.y + b*control.y + c*end.y})
			}
			last = end
		case sfnt.SegmentOpCubeTo:
			from, first, second, end := last, at(to[0]), at(to[1]), at(to[2])
			for i := 1; i < pieces; i++ {
				t := float64(i) / pieces
				a, b, c, d := (1-t)*(1-t)*(1-t), 3*t*(1-t)*(1-t), 3*t*t*(1-t), t*t*t
				out[len(out)-1] = append(out[len(out)-1], place{a*from.x + b*first.x + c*second.x + d*end.x, a*from.y + b*first.y + c*second.y + d*end.y})
			}
			last = end
		default:
			last = at(to[0])
		}
		out[len(out)-1] = append(out[len(out)-1], last)
	}
	return out
}

// fill fills the area with a colour.
func (o *outline) fill(canvas draw.Image, ink color.Color) {
	lowX, lowY, highX, highY := math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)
	for _, polygon := range o.polygons {
		for _, p := range polygon {
			lowX, lowY, highX, highY = min(lowX, p.x), min(lowY, p.y), max(highX, p.x), max(highY, p.y)
		}
	}
	within := image.Rect(int(math.Floor(lowX*pngScale)), int(math.Floor(lowY*pngScale)), int(math.Ceil(highX*pngScale)), int(math.Ceil(highY*pngScale))).Intersect(canvas.Bounds())
	if within.Empty() {
		return
	}
	r := vector.NewRasterizer(within.Dx(), within.Dy())
	for _, polygon := range o.polygons {
		for i, p := range polygon {
			x, y := float32(p.x*pngScale-float64(within.Min.X)), float32(p.y*pngScale-float64(within.Min.Y))
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	r.Draw(canvas, within, image.NewUniform(ink), image.Point{})
}
