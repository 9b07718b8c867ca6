// Screenshots takes the screenshots in docs/ with a headless Chromium. hack/screenshots.sh runs it, and creates the
// data that they show.
//
//	screenshots page URL WIDTH HEIGHT light|dark SCALE FILE.png    a page as a browser shows it
//	screenshots terminal RECORDING WORDS TITLE FILE.png            the first contents that match WORDS, a regular
//	                                                               expression, of a terminal that `script` recorded
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 7 && args[0] == "page":
		return page(ctx, args[1], args[2], args[3], args[4], args[5], args[6])
	case len(args) == 5 && args[0] == "terminal":
		return terminal(ctx, args[1], args[2], args[3], args[4])
	}
	return errors.New("usage: screenshots page URL WIDTH HEIGHT light|dark SCALE FILE.png | screenshots terminal RECORDING WORDS TITLE FILE.png")
}

// page takes a screenshot of a page with Chromium, and reduces the number of colours to make the file smaller.
func page(ctx context.Context, url, width, height, scheme, scale, file string) error {
	scratch, err := os.MkdirTemp("", "geobench-screenshots")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary folder
	preferred := map[string]string{"light": "1", "dark": "0"}[scheme]
	if preferred == "" {
		return fmt.Errorf("%q is not light or dark", scheme)
	}
	shot := filepath.Join(scratch, "shot.png")
	out, err := exec.CommandContext(ctx, cmp.Or(os.Getenv("CHROMIUM"), "chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--hide-scrollbars", "--user-data-dir="+filepath.Join(scratch, "profile"), "--blink-settings=preferredColorScheme="+preferred,
		"--force-device-scale-factor="+scale, "--window-size="+width+","+height, "--virtual-time-budget=3000", "--screenshot="+shot, url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("chromium: %w\n%s", err, out)
	}
	f, err := os.Open(shot)
	if err != nil {
		return fmt.Errorf("chromium made no picture: %w\n%s", err, out)
	}
	defer f.Close() //nolint:errcheck // the file is only read
	picture, err := png.Decode(f)
	if err != nil {
		return err
	}
	picture = trimmed(picture)
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, small(picture)); err != nil {
		return err
	}
	fmt.Printf("%s: %d x %d, %d KB\n", file, picture.Bounds().Dx(), picture.Bounds().Dy(), b.Len()/1000)
	return os.WriteFile(file, b.Bytes(), 0o644) //nolint:gosec // every user may read a picture
}

// margin is the empty space that is kept below the contents of a screenshot, in pixels.
const margin = 16

// trimmed returns a picture without the empty rows at its lower end, except for the margin.
func trimmed(in image.Image) image.Image {
	b := in.Bounds()
	empty := func(y int) bool {
		for x := b.Min.X; x < b.Max.X; x++ {
			if in.At(x, y) != in.At(b.Min.X, b.Max.Y-1) {
				return false
			}
		}
		return true
	}
	y := b.Max.Y
	for y > b.Min.Y && empty(y-1) {
		y--
	}
	part, ok := in.(interface {
		SubImage(r image.Rectangle) image.Image
	})
	if !ok {
		return in
	}
	return part.SubImage(image.Rect(b.Min.X, b.Min.Y, b.Max.X, min(b.Max.Y, y+margin)))
}

// kept is the number of colours that are kept unchanged. All other colours share the remaining entries of the palette,
// which has 256.
const kept = 160

// small reduces a picture to 256 colours. It keeps the most frequent colours, and groups similar colours among the
// others.
func small(in image.Image) *image.Paletted {
	bounds := in.Bounds()
	shades := map[color.RGBA]int{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			shades[color.RGBAModel.Convert(in.At(x, y)).(color.RGBA)]++
		}
	}
	order := slices.SortedFunc(maps.Keys(shades), func(a, b color.RGBA) int {
		return cmp.Or(shades[b]-shades[a], cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	index := map[color.RGBA]uint8{}
	for _, shade := range order[:min(kept, len(order))] {
		index[shade] = uint8(len(palette)) //nolint:gosec // at most 255
		palette = append(palette, shade)
	}
	rest := order[len(palette):]
	// Show a group in the colour of its first member, which is the most frequent.
	var groups map[color.RGBA]uint8
	for coarse := uint8(0); ; coarse = coarse<<1 | 1 {
		groups = map[color.RGBA]uint8{}
		for _, c := range rest {
			g := color.RGBA{c.R &^ coarse, c.G &^ coarse, c.B &^ coarse, 255}
			if _, ok := groups[g]; !ok && len(palette)+len(groups) < 256 {
				groups[g] = uint8(len(palette) + len(groups)) //nolint:gosec // at most 255
			} else if !ok {
				groups = nil
				break
			}
			index[c] = groups[g]
		}
		if groups != nil {
			break
		}
	}
	more := make(color.Palette, len(groups))
	for _, c := range slices.Backward(rest) {
		more[int(index[c])-len(palette)] = c
	}
	palette = append(palette, more...)
	out := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, index[color.RGBAModel.Convert(in.At(x, y)).(color.RGBA)])
		}
	}
	return out
}

var control = regexp.MustCompile(`^\x1b\[(\d*)([A-Za-z])`)

// frames replays the recording of a terminal. It returns the contents of the terminal each time before the cursor moves
// up, and at the end.
func frames(recording string) []string {
	var lines []string
	var out []string
	row := 0
	line := ""
	flush := func() {
		for len(lines) <= row {
			lines = append(lines, "")
		}
		lines[row] = line
	}
	for len(recording) > 0 {
		if m := control.FindStringSubmatch(recording); m != nil {
			n, _ := strconv.Atoi(m[1])
			switch m[2] {
			case "A":
				flush()
				out = append(out, strings.Join(lines, "\n"))
				row = max(0, row-max(1, n))
			case "J":
				lines, line = lines[:min(row, len(lines))], ""
			}
			recording = recording[len(m[0]):]
			continue
		}
		switch c := recording[0]; c {
		case '\n':
			flush()
			row, line = row+1, ""
		case '\r':
		default:
			line += string(c)
		}
		recording = recording[1:]
	}
	flush()
	return append(out, strings.Join(lines, "\n"))
}

// terminal draws the first contents of a terminal that match words, under the given title.
func terminal(ctx context.Context, recording, words, title, file string) error {
	text, err := os.ReadFile(recording)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(words)
	if err != nil {
		return err
	}
	for _, f := range frames(string(text)) {
		if !pattern.MatchString(f) {
			continue
		}
		// The recording program wrote the first line, so remove it.
		_, f, _ = strings.Cut(strings.TrimRight(f, "\n"), "\n")
		f = "$ " + title + "\n" + f
		scratch, err := os.CreateTemp("", "geobench-terminal-*.html")
		if err != nil {
			return err
		}
		defer os.Remove(scratch.Name()) //nolint:errcheck // scratch
		_, err = fmt.Fprintf(scratch, `<!doctype html><meta charset="utf-8"><style>body{margin:0;background:#14181f}pre{margin:0;padding:18px 22px;color:#e8ecf2;font:15px/22px "DejaVu Sans Mono",monospace}</style><pre>%s</pre>`, html.EscapeString(f))
		if err := errors.Join(err, scratch.Close()); err != nil {
			return err
		}
		return page(ctx, "file://"+scratch.Name(), "900", "900", "dark", "1", file)
	}
	return fmt.Errorf("%s: nothing with %q was on the terminal", recording, words)
}
