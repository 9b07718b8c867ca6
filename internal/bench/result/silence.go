package result

import (
	"slices"
	"time"
)

// Silence is a period of a window in which transactions were in flight but none received an answer.
type Silence struct {
	// AtMicroseconds is the start, counted from the start of the window.
	AtMicroseconds int64 `json:"atMicroseconds"`
	Microseconds   int64 `json:"microseconds"`
}

func (s Silence) end() int64 { return s.AtMicroseconds + s.Microseconds }

const (
	// MinSilence is the shortest silence that a report lists. Verdicts ignore shorter silences.
	MinSilence = hungFloor * time.Microsecond
	// maxSilences bounds the silences of a window, so that they do not crowd out the rest of a report.
	maxSilences = 64
)

// AddSilence adds a silence from at to end, both counted from the start of the window. A silence with the same start as
// the last silence of w replaces it, because the same silence has become longer.
func (w *Window) AddSilence(at, end time.Duration) {
	s := Silence{Microseconds(at), Microseconds(end - at)}
	if n := len(w.Silences); n > 0 && w.Silences[n-1].AtMicroseconds == s.AtMicroseconds {
		w.Silences[n-1] = s
		return
	}
	w.Silences = append(w.Silences, s)
	if len(w.Silences) > maxSilences {
		shortest := 0
		for i := range w.Silences {
			if w.Silences[i].Microseconds < w.Silences[shortest].Microseconds {
				shortest = i
			}
		}
		w.Silences = slices.Delete(w.Silences, shortest, shortest+1)
	}
}

// commonSilences returns the periods of at least hungFloor that are silent in both lists.
func commonSilences(a, b []Silence) (common []Silence) {
	for len(a) > 0 && len(b) > 0 {
		at, end := max(a[0].AtMicroseconds, b[0].AtMicroseconds), min(a[0].end(), b[0].end())
		if end-at >= hungFloor {
			common = append(common, Silence{at, end - at})
		}
		// Keep the silence with the later end, because it may overlap the next silence of the other list.
		if a[0].end() < b[0].end() {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return common
}
