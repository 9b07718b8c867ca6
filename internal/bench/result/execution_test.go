package result

import (
	"testing"
	"time"
)

func TestExecutionSame(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 12, 54, 123_456_000, time.UTC)
	of := func(change func(*Execution)) *Execution {
		e := &Execution{ID: "a", WarmupStartTime: at, Windows: []OpenWindow{{1, at.Add(time.Second), at.Add(2 * time.Second)}, {2, at.Add(3 * time.Second), at.Add(4 * time.Second)}}}
		change(e)
		return e
	}
	for name, tt := range map[string]struct {
		change func(*Execution)
		same   bool
	}{
		"equal":                    {func(*Execution) {}, true},
		"in another zone":          {func(e *Execution) { e.WarmupStartTime = at.In(time.FixedZone("x", 3600)) }, true},
		"less than a microsecond":  {func(e *Execution) { e.Windows[0].Opened = e.Windows[0].Opened.Add(999) }, true},
		"another name":             {func(e *Execution) { e.ID = "b" }, false},
		"another start":            {func(e *Execution) { e.WarmupStartTime = at.Add(-6 * time.Minute) }, false},
		"another window":           {func(e *Execution) { e.Windows[1].Opened = e.Windows[1].Opened.Add(time.Microsecond) }, false},
		"a window that is shorter": {func(e *Execution) { e.Windows[1].Closed = e.Windows[1].Closed.Add(-time.Microsecond) }, false},
		"fewer windows":            {func(e *Execution) { e.Windows = e.Windows[:1] }, false},
	} {
		if got := of(tt.change).Same(of(func(*Execution) {})); got != tt.same {
			t.Errorf("%s: %v", name, got)
		}
	}
	if e := of(func(*Execution) {}); e.Same(nil) || (*Execution)(nil).Same(e) || !(*Execution)(nil).Same(nil) {
		t.Error("none is the same as one")
	}
}

// TestExecutionCut checks that a cancelled run keeps only its measured windows, and that the first window lasts until
// the cancellation.
func TestExecutionCut(t *testing.T) {
	at := time.Date(2026, 11, 27, 17, 12, 54, 0, time.UTC)
	for n, length := range map[int]time.Duration{1: 3*time.Second + 1, 2: 10 * time.Second} {
		e := &Execution{}
		for i := range 3 {
			opened := at.Add(time.Duration(i) * time.Minute)
			e.Windows = append(e.Windows, OpenWindow{i + 1, opened, opened.Add(10 * time.Second)})
		}
		e.Cut(n, length)
		if last := e.Windows[len(e.Windows)-1]; len(e.Windows) != n || last.Repetition != n ||
			last.Closed.Sub(last.Opened) != length.Truncate(time.Microsecond) {
			t.Errorf("%d windows of %v: %+v", n, length, e.Windows)
		}
	}
	(*Execution)(nil).Cut(1, time.Second)
}
