package wire

import (
	"fmt"
	"testing"
	"time"
)

// The watch uses the median of ten consecutive round trips. In the strings, s is a round trip that is too short, and l
// is any other round trip. There is one every 0.1 s.
func TestWatch(t *testing.T) {
	for name, tc := range map[string]struct {
		rtts string
		want string // from-to of each interval, in tenths of a second
	}{
		"as declared":               {"llllllllllllllllllll", ""},
		"too few to tell":           {"sssssssss", ""},
		"always":                    {"ssssssssssssss", "-1-13"},
		"becomes short":             {"llllllllllllssssssllllllllll", "11-17"},
		"half of them":              {"lslslslslslslslslslslslsl", ""},
		"most of them":              {"lsslsslsslsslll", "0-11"},
		"five in a row":             {"llllllllllllssssslllllllll", ""},
		"twice":                     {"llllllllllssssssllllllllllllllllssssss", "9-15 31-37"},
		"a few that were under way": {"llllllllllslslslllllllll", ""},
	} {
		t.Run(name, func(t *testing.T) {
			const tenth = 100 * time.Millisecond
			w := &watch{least: 90 * time.Millisecond}
			for i, c := range tc.rtts {
				w.add(time.Duration(i)*tenth, map[rune]time.Duration{'s': 50 * time.Millisecond, 'l': tenth}[c])
			}
			got := ""
			for i, f := range w.spans {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprintf("%d-%d", (f.From-tenth/2)/tenth, f.To/tenth)
				if f.Median != 50*time.Millisecond {
					t.Errorf("the median is %v", f.Median)
				}
			}
			if got != tc.want {
				t.Errorf("too fast %q, want %q", got, tc.want)
			}
		})
	}
}

// If a link is too fast again and again, the record has a bounded size but covers all intervals.
func TestWatchIsBounded(t *testing.T) {
	w := &watch{least: 90 * time.Millisecond}
	for i := range 100 * maxFast {
		rtt := time.Second
		if i/watched%2 == 0 {
			rtt = time.Millisecond
		}
		w.add(time.Duration(i)*time.Second, rtt)
	}
	if n := len(w.spans); n != maxFast || w.spans[n-1].To < 80*maxFast*time.Second {
		t.Errorf("%d times, the last to %v", n, w.spans[len(w.spans)-1].To)
	}
}
