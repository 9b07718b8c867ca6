package late

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// player is a recorder for which the test sets the clock and the CPU time.
type player struct {
	*Recorder
	at, cpu time.Duration
}

func play(start time.Duration) *player {
	p := &player{at: start}
	p.Recorder = NewRecorder(func() time.Duration { return p.at }, func() time.Duration { return p.cpu })
	return p
}

// sleep simulates beats for the duration d. Each beat is late by late; busy is the fraction of this delay in which the
// process itself used the CPU.
func (p *player) sleep(d, late time.Duration, busy float64) {
	for end := p.at + d; p.at < end; {
		used := time.Duration(float64(late) * busy)
		p.Woke(p.at+Beat, p.at+Beat+late, used)
		p.at += Beat + late
		p.cpu += used
	}
}

func (p *player) in(t *testing.T, spans []Span, except ...Span) Lateness {
	t.Helper()
	l, err := p.Record().In(spans, except)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// near reports whether a delay equals want, within the 25% of a bucket's width and some rounding.
func near(got, want time.Duration) bool {
	return float64(got) >= float64(want)*0.98 && float64(got) <= float64(want)*1.27
}

func TestLateness(t *testing.T) {
	const start = 5000 * time.Second
	window := []Span{{start, start + 15*time.Second}}
	for name, tt := range map[string]struct {
		play     func(p *player)
		except   []Span
		p50, p99 time.Duration
		max      time.Duration
		seconds  int
	}{
		"always on time": {play: func(p *player) { p.sleep(15*time.Second, 0, 0) }, seconds: 15},
		"late by 3 ms":   {play: func(p *player) { p.sleep(15*time.Second, 3*time.Millisecond, 0) }, p50: 3 * time.Millisecond, p99: 3 * time.Millisecond, max: 3 * time.Millisecond, seconds: 15},
		"busy itself":    {play: func(p *player) { p.sleep(15*time.Second, 20*time.Millisecond, 1) }, seconds: 15},
		"a neighbour has half of the CPU": {play: func(p *player) { p.sleep(15*time.Second, 20*time.Millisecond, 0.5) },
			p50: 10 * time.Millisecond, p99: 10 * time.Millisecond, max: 10 * time.Millisecond, seconds: 15},
		"stands still for 3 of 15 s": {play: func(p *player) {
			p.sleep(5*time.Second, 0, 0)
			p.sleep(time.Millisecond, 3*time.Second, 0)
			p.sleep(8*time.Second, 0, 0)
		}, p99: 2850 * time.Millisecond, max: 3 * time.Second, seconds: 15},
		"stands still until after the end": {play: func(p *player) {
			p.sleep(11*time.Second, 0, 0)
			p.sleep(time.Millisecond, 6*time.Second, 0)
		}, p99: 5850 * time.Millisecond, max: 6 * time.Second, seconds: 15},
		"stands still before": {play: func(p *player) {
			p.at -= 5 * time.Second
			p.sleep(time.Millisecond, 3*time.Second, 0)
			p.sleep(17*time.Second, 0, 0)
		}, seconds: 15},
		"while a fault stops it": {play: func(p *player) {
			p.sleep(5*time.Second, 0, 0)
			p.sleep(time.Millisecond, 3*time.Second, 0)
			p.sleep(8*time.Second, 0, 0)
		}, except: []Span{{start + 5*time.Second, start + 8*time.Second + 20*time.Millisecond}}, seconds: 11},
		"for longer than the fault does": {play: func(p *player) {
			p.sleep(5*time.Second, 0, 0)
			p.sleep(time.Millisecond, 3*time.Second, 0)
			p.sleep(8*time.Second, 0, 0)
		}, except: []Span{{start + 5*time.Second, start + 6*time.Second}}, p99: 1860 * time.Millisecond, max: 2 * time.Second, seconds: 14},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(start - 10*time.Second)
			p.at = start
			tt.play(p)
			l := p.in(t, window, tt.except...)
			if !near(l.P50, tt.p50) || !near(l.P99, tt.p99) || !near(l.Max, tt.max) || l.Seconds != tt.seconds {
				t.Errorf("%+v, want %v, %v, %v in %d seconds", l, tt.p50, tt.p99, tt.max, tt.seconds)
			}
		})
	}
}

func TestBuckets(t *testing.T) {
	for d := time.Duration(0); d < 300*time.Second; d = d*11/10 + time.Microsecond {
		b := bucketOf(d)
		if b == buckets-1 {
			continue
		}
		if up := upper(b); d >= floor && (float64(up) < float64(d)*0.999 || float64(up) > float64(d)*1.27) {
			t.Errorf("%v counts as %v", d, up)
		}
	}
}

// A recorder drops seconds that are too old for any run, so that a process can run for weeks in bounded memory.
func TestRecorderIsBounded(t *testing.T) {
	p := play(0)
	p.sleep(time.Second, 0, 0)
	p.at += 2 * mostSeconds * time.Second
	p.sleep(3*time.Second, 5*time.Millisecond, 0)
	if len(p.cells) > mostSeconds {
		t.Errorf("%d seconds are kept", len(p.cells))
	}
	if l := p.in(t, []Span{{p.at - 2*time.Second, p.at}}); !near(l.P50, 5*time.Millisecond) || l.Seconds != 2 {
		t.Errorf("%+v", l)
	}
}

func TestRecordIsBounded(t *testing.T) {
	p := play(0)
	p.cells = make([]cell, mostSeconds+1)
	if _, err := p.Record().In([]Span{{0, math.MaxInt64}}, nil); err == nil {
		t.Error("more seconds than can be kept are read")
	}
	if _, err := (&Record{Seconds: []byte("nonsense")}).In(nil, nil); err == nil {
		t.Error("nonsense is read")
	}
	if l, err := (*Record)(nil).In(nil, nil); err != nil || l != (Lateness{}) {
		t.Error(l, err)
	}
}

func TestThrottled(t *testing.T) {
	for name, tt := range map[string]struct {
		file, text         string
		periods, throttled int64
	}{
		"version 2":      {"cpu.stat", "usage_usec 5\nnr_periods 70\nnr_throttled 12\nthrottled_usec 4\n", 70, 12},
		"version 1":      {"cpu,cpuacct/cpu.stat", "nr_periods 7\nnr_throttled 0\nthrottled_time 0\n", 7, 0},
		"without quotas": {"cpu.stat", "usage_usec 5\n", 0, 0},
		"without a file": {"else", "", 0, 0},
	} {
		root := t.TempDir()
		path := filepath.Join(root, tt.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, n := Throttled(root); p != tt.periods || n != tt.throttled {
			t.Errorf("%s: %d of %d periods", name, n, p)
		}
	}
}
