package main

import (
	"image"
	"image/color"
	"testing"
)

func TestFrames(t *testing.T) {
	got := frames("head\r\none\x1b[K\r\ntwo\x1b[K\r\n\x1b[2A\x1b[Jthree\x1b[K\r\n\x1b[1A\x1b[Jdone\r\n")
	want := []string{"head\none\ntwo\n", "head\nthree\n", "head\ndone\n"}
	if len(got) != len(want) {
		t.Fatalf("%d pictures, want %d: %q", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("picture %d is %q, want %q", i, got[i], want[i])
		}
	}
}

// TestSmall checks that the background keeps its colour and that there are at most 256 colours.
func TestSmall(t *testing.T) {
	in := image.NewRGBA(image.Rect(0, 0, 64, 64))
	for y := range 64 {
		for x := range 64 {
			in.Set(x, y, color.RGBA{20, 24, 31, 255})
			if y < 32 {
				in.Set(x, y, color.RGBA{uint8(4 * x), uint8(8 * y), uint8(2 * (x + y)), 255})
			}
		}
	}
	out := small(in)
	if len(out.Palette) > 256 || out.At(5, 60) != (color.RGBA{20, 24, 31, 255}) {
		t.Errorf("%d colours, the ground is %v", len(out.Palette), out.At(5, 60))
	}
	if r, _, _, _ := out.At(60, 1).RGBA(); r>>8 < 180 {
		t.Errorf("red has become %d", r>>8)
	}
}

func TestTrimmed(t *testing.T) {
	in := image.NewRGBA(image.Rect(0, 0, 10, 100))
	in.Set(3, 40, color.White)
	if got := trimmed(in).Bounds(); got != image.Rect(0, 0, 10, 41+margin) {
		t.Errorf("%v is left", got)
	}
}
