package result

import (
	"reflect"
	"testing"
	"time"
)

func silences(seconds ...int64) (out []Silence) {
	for i := 0; i < len(seconds); i += 2 {
		out = append(out, Silence{seconds[i] * 1e6, (seconds[i+1] - seconds[i]) * 1e6})
	}
	return out
}

// A region is silent while none of its load generators receives an answer. This period need not be part of the longest
// silence of any load generator.
func TestSilencesOfSeveralLoadGenerators(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want []Silence }{
		"the longest silences do not overlap": {silences(3, 8, 20, 23), silences(10, 16, 20, 23), silences(20, 23)},
		"one within the other":                {silences(3, 20), silences(5, 8, 10, 12), silences(5, 8, 10, 12)},
		"less than a second in common":        {silences(3, 6), silences(5, 9), silences(5, 6)},
		"none":                                {silences(3, 6), silences(6, 9), nil},
	} {
		w := Window{Silences: c.a}
		w.add(&Window{Silences: c.b})
		if !reflect.DeepEqual(w.Silences, c.want) {
			t.Errorf("%s: %v, want %v", name, w.Silences, c.want)
		}
	}
}

// A window lists the longest silences in order. A silence that continues is listed once.
func TestListOfSilences(t *testing.T) {
	var w Window
	w.AddSilence(5*time.Second, 7*time.Second)
	w.AddSilence(5*time.Second, 9*time.Second)
	if want := silences(5, 9); !reflect.DeepEqual(w.Silences, want) {
		t.Errorf("%v, want %v", w.Silences, want)
	}
	for i := range maxSilences {
		at := time.Duration(10+10*i) * time.Second
		w.AddSilence(at, at+5*time.Second)
	}
	if len(w.Silences) != maxSilences || w.Silences[0].AtMicroseconds != 10e6 {
		t.Errorf("%d silences, the first at %d: want %d without the shortest", len(w.Silences), w.Silences[0].AtMicroseconds, maxSilences)
	}
}

// A long silence that a fault explains does not hide a shorter silence that no fault explains.
func TestFaultsHideNoOtherSilence(t *testing.T) {
	from, to := int64(5e6), int64(15e6)
	d := &Document{Faults: []Fault{{FromMicroseconds: &from, ToMicroseconds: &to}}}
	r := &Report{DurationMicroseconds: 60e6, Repetitions: 1, Windows: []Window{{Region: "a", Repetition: 1, Silences: silences(5, 15, 30, 38)}}}
	x := &Region{Name: "a"}
	x.Committed = 10_000
	if s := x.silence(d, r); s.declared || s.from != 30e6 || s.us != 8e6 {
		t.Errorf("%+v, want the silence from 30 s to 38 s", s)
	}
	r.Windows[0].Silences = silences(5, 15)
	if s := x.silence(d, r); !s.declared || s.us != 10e6 {
		t.Errorf("%+v, want the silence of the fault", s)
	}
}
