package admin

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
)

func TestAgendaAt(t *testing.T) {
	cut, slow := Disturbance{Cut: []int{1}}, Disturbance{SlowPercent: 5}
	a := &Agenda{Steps: []Step{{At: 10, Disturbance: cut}, {At: 20, Disturbance: slow}, {At: 30}}}
	for _, tc := range []struct {
		now, next time.Duration
		want      *Disturbance
		ahead     int
	}{{0, 10, nil, 3}, {9, 10, nil, 3}, {10, 20, &cut, 2}, {19, 20, &cut, 2}, {25, 30, &slow, 1}, {30, 0, nil, 0}, {99, 0, nil, 0}} {
		d, next, ok := a.At(tc.now)
		if !d.Same(tc.want) || next != tc.next || ok != (tc.next > 0) || a.Ahead(tc.now) != tc.ahead {
			t.Errorf("at %d: %+v, the next at %d (%t), %d ahead", tc.now, d, next, ok, a.Ahead(tc.now))
		}
	}
	if d, _, ok := (&Agenda{}).At(5); ok || !d.Same(nil) {
		t.Errorf("an empty agenda says %+v, %t", d, ok)
	}
	if d, _, ok := Now(&slow).At(Monotonic()); ok || !d.Same(&slow) {
		t.Errorf("now is %+v, %t", d, ok)
	}
}

func TestLog(t *testing.T) {
	l := &Log{}
	cut, slow := &Disturbance{Cut: []int{1}}, &Disturbance{SlowPercent: 5}
	for i, d := range []*Disturbance{nil, cut, slow, {}, cut} {
		l.Change(time.Duration(i), d)
	}
	if e := l.Entries; len(e) != 3 || e[0].From != 1 || *e[0].To != 2 || e[1].From != 2 || *e[1].To != 3 || e[2].From != 4 || e[2].To != nil {
		t.Errorf("%+v", l.Entries)
	}
	if l.ForgottenUntil != 0 {
		t.Errorf("forgotten until %v", l.ForgottenUntil)
	}
	for i := range 2 * MaxLog {
		l.Change(time.Duration(10+i), []*Disturbance{nil, cut}[i%2])
	}
	if e := l.Entries; len(e) != MaxLog || l.ForgottenUntil != 10 || e[0].From != 11 || *e[0].To != 12 || e[MaxLog-1].From != 9+2*MaxLog || e[MaxLog-1].To != nil {
		t.Errorf("%d entries from %v to %v, forgotten until %v", len(e), e[0].From, e[len(e)-1].From, l.ForgottenUntil)
	}
}

// A log fits into a response even if its disturbances are large. It states the time from which it is complete.
func TestLogOfLongDisturbances(t *testing.T) {
	l := &Log{}
	long := &Disturbance{Cut: make([]int, 5_000), SlowPercent: 5, ClockOffset: 5}
	for range 31 {
		long.Links = append(long.Links, DisturbedLink{To: "b", Link: geo.Link{Delay: 1, Jitter: 1, LossPPM: 1, BandwidthMbps: 1}, Back: geo.Link{Delay: 1, Jitter: 1, LossPPM: 1, BandwidthMbps: 1}})
	}
	kept := MaxLogValues / long.values()
	for i := range 50 {
		l.Change(time.Duration(10+i), long)
	}
	if e := l.Entries; len(e) != kept || l.ForgottenUntil != e[0].From || e[0].From != time.Duration(60-kept) || *e[0].To != e[1].From || e[kept-1].To != nil {
		t.Errorf("%d entries from %v, forgotten until %v; want %d", len(e), e[0].From, l.ForgottenUntil, kept)
	}
	b, err := json.Marshal(l)
	if n := bytes.Count(b, []byte{','}); err != nil || n > MaxLogValues || n < kept*5_000 {
		t.Errorf("it has %d values, %v", n, err)
	}
	// Keep a single disturbance even if it exceeds the limit.
	l.Change(70, &Disturbance{Cut: make([]int, MaxLogValues)})
	l.Change(80, &Disturbance{SlowPercent: 5})
	if e := l.Entries; len(e) != 1 || e[0].From != 80 || l.ForgottenUntil != 80 {
		t.Errorf("%d entries from %v, forgotten until %v", len(e), e[0].From, l.ForgottenUntil)
	}
}
