//go:build full

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	stdfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// CanDrawPNG tells whether this build writes PNG files.
const CanDrawPNG = true

// pngDPI gives two dots for each CSS pixel, which is 1/96 inch.
const pngDPI = 192

var fonts = font.NewCache(liberation.Collection())

// png draws the scene on white ground.
func (s *scene) png() ([]byte, error) {
	unit := vg.Inch / 96
	w, h := vg.Length(s.width)*unit, vg.Length(s.height)*unit
	canvas := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(pngDPI), vgimg.UseBackgroundColor(color.White))}
	c := draw.New(canvas)
	at := func(p point) vg.Point { return vg.Point{X: vg.Length(p.x) * unit, Y: h - vg.Length(p.y)*unit} }
	for _, i := range s.items {
		st, ok := styles[i.class]
		if !ok {
			return nil, fmt.Errorf("there is no style %q", i.class)
		}
		ink := rgba(st.light, st.opacity)
		switch {
		case i.text != "":
			f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(st.size) * unit}
			if st.bold {
				f.Weight = stdfont.WeightBold
			}
			t := text.Style{Color: ink, Font: f, Handler: text.Plain{Fonts: fonts}, XAlign: map[string]text.XAlignment{"start": draw.XLeft, "middle": draw.XCenter, "end": draw.XRight}[i.anchor]}
			if i.turned {
				t.Rotation = math.Pi / 2
			}
			c.FillText(t, at(i.points[0]), i.text)
		case i.radius > 0:
			var path vg.Path
			center := at(i.points[0])
			path.Move(vg.Point{X: center.X + vg.Length(i.radius)*unit, Y: center.Y})
			path.Arc(center, vg.Length(i.radius)*unit, 0, 2*math.Pi)
			path.Close()
			paint(&c, path, st, ink, unit)
		default:
			var path vg.Path
			for k, p := range i.points {
				if k == 0 {
					path.Move(at(p))
				} else {
					path.Line(at(p))
				}
			}
			if st.width == 0 {
				path.Close()
			}
			paint(&c, path, st, ink, unit)
		}
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func paint(c *draw.Canvas, path vg.Path, st style, ink color.Color, unit vg.Length) {
	c.SetColor(ink)
	if st.width == 0 {
		c.Fill(path)
		return
	}
	c.SetLineWidth(vg.Length(st.width) * unit)
	var dash []vg.Length
	for _, d := range st.dash {
		dash = append(dash, vg.Length(d)*unit)
	}
	c.SetLineDash(dash, 0)
	c.Stroke(path)
}

func rgba(hex string, opacity float64) color.Color {
	var r, g, b uint8
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &r, &g, &b); err != nil {
		return color.Black
	}
	if opacity == 0 {
		opacity = 1
	}
	return color.NRGBA{R: r, G: g, B: b, A: uint8(opacity*255 + 0.5)}
}
