package inprocess

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/result"
)

// TestCancelled cancels runs at various times. The result contains the measurements up to that time and states that
// they are incomplete.
func TestCancelled(t *testing.T) {
	tests := map[string]struct {
		repetitions int32
		// at is the time of the cancellation. The schedule consists of 1 s of warm-up, 4 s of measurement, and 2 s between
		// repetitions.
		at      time.Duration
		windows int // 0 if there is no result
		seconds int
		says    string
	}{
		"in the warm-up":           {1, 500 * time.Millisecond, 0, 0, ""},
		"too early":                {1, 1500 * time.Millisecond, 0, 0, ""},
		"in the window":            {1, 4 * time.Second, 1, 3, "the figures are of the first 3s of the measured window"},
		"in the second repetition": {3, 11 * time.Second, 1, 4, "the figures are of 1 of 3 repetitions"},
		"between repetitions":      {2, 6 * time.Second, 1, 4, "the figures are of 1 of 2 repetitions"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := planOf(t, manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}",
				fmt.Sprintf("{clientsPerRegion: 10, warmup: 1s, duration: 4s, repetitions: %d}", tc.repetitions), 1))
			ctx, cancel := context.WithCancel(t.Context())
			d, err := Simulate(ctx, p, func(pr Progress) {
				if pr.Elapsed >= tc.at {
					cancel()
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("the error is %v", err)
			}
			if tc.windows == 0 {
				if d != nil {
					t.Errorf("there is a result: %+v", d.Reasons)
				}
				return
			}
			if d == nil || d.Verdict != v1alpha1.VerdictInvalid || d.Reasons[0].Reason != result.ReasonCancelled ||
				d.Reasons[0].Message != fmt.Sprintf("cancelled after %v of %v: %s; the answers were not checked", tc.at, schedule(p).LastWindow(), tc.says) {
				t.Fatalf("the result is %+v", d)
			}
			if len(d.Repetitions) != tc.windows || len(d.Timeline) != tc.seconds {
				t.Errorf("%d repetitions and %d seconds, want %d and %d", len(d.Repetitions), len(d.Timeline), tc.windows, tc.seconds)
			}
			whole, err := Simulate(t.Context(), p, nil)
			if err != nil {
				t.Fatal(err)
			}
			// The load is steady, so a shorter window has about the same throughput.
			if a, b := d.Summary.ThroughputPerSecond, whole.Summary.ThroughputPerSecond; a < b*9/10 || a > b*11/10 {
				t.Errorf("%d transactions per second, the whole run has %d", a, b)
			}
		})
	}
}

// TestCancelledRun cancels a run in real time after about 1.5 s of measurement.
func TestCancelledRun(t *testing.T) {
	p := planOf(t, manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 10, warmup: 200ms, duration: 1h}", 1))
	ctx, cancel := context.WithCancel(t.Context())
	d, err := Run(ctx, p, func(pr Progress) {
		if len(pr.Regions) > 0 && pr.Regions[0].Stage == load.Measure && pr.Elapsed > 1700*time.Millisecond {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || d == nil || d.Verdict != v1alpha1.VerdictInvalid || d.Reasons[0].Reason != result.ReasonCancelled {
		t.Fatalf("%v: %+v", err, d)
	}
	for _, r := range d.Reasons[1:] {
		if r.Reason == "WorkerLost" || r.Reason == "NodeRestarted" {
			t.Errorf("%s: %s", r.Reason, r.Message)
		}
	}
	if e := d.Execution; e == nil || len(e.Windows) != 1 ||
		e.Windows[0].Closed.Sub(e.Windows[0].Opened) >= time.Minute || !e.Windows[0].Closed.After(e.Windows[0].Opened) {
		t.Errorf("its windows are %+v: the only one closed when the run was cancelled, not after an hour", e)
	}
	if d.Summary.Committed == 0 || len(d.Timeline) < 1 {
		t.Errorf("%d committed in %d seconds", d.Summary.Committed, len(d.Timeline))
	}
}
