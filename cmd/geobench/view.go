package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/geobench/geobench/internal/load"
	"github.com/geobench/geobench/internal/local"
	"github.com/geobench/geobench/internal/plan"
)

// screen shows a few lines that change: written over on a terminal, else as one plain line now and then.
type screen struct {
	w        io.Writer
	terminal bool
	quiet    bool
	width    int

	key   string
	last  time.Time
	drawn int // lines on the terminal
}

// every is the interval between two pictures, on a terminal and elsewhere.
const (
	everyOnTerminal = 200 * time.Millisecond
	everyElsewhere  = 5 * time.Second
)

func newScreen(w io.Writer, quiet bool) *screen {
	s := &screen{w: w, quiet: quiet, width: 100}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.terminal = true
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 20 {
			s.width = width
		}
	}
	return s
}

// due tells whether it is time for another picture; another key always is.
func (s *screen) due(now time.Time, key string) bool {
	every := everyElsewhere
	if s.terminal {
		every = everyOnTerminal
	}
	return !s.quiet && (key != s.key || now.Sub(s.last) >= every)
}

// show shows lines when it is time.
func (s *screen) show(now time.Time, key string, lines []string) {
	if !s.due(now, key) {
		return
	}
	s.key, s.last = key, now
	if !s.terminal {
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		fmt.Fprintln(s.w, strings.Join(lines, "; "))
		return
	}
	s.erase()
	for _, l := range lines {
		if r := []rune(l); len(r) >= s.width {
			l = string(r[:s.width-1])
		}
		fmt.Fprintf(s.w, "%s\x1b[K\n", l)
	}
	s.drawn = len(lines)
}

// erase takes the lines off the terminal.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// close leaves the terminal to others.
func (s *screen) close() {
	if s.terminal {
		s.erase()
	}
}

// view shows the progress of a run: its stage and how long it goes on, the throughput and latency of each region over the
// last interval, and the faults of the moment.
type view struct {
	*screen
	prefix string
	plan   *plan.Plan

	began  time.Time // of the load, on the wall clock
	at     time.Duration
	before []load.Progress
}

func newView(w io.Writer, p *plan.Plan, i, of int, quiet bool) *view {
	v := &view{screen: newScreen(w, quiet), prefix: p.Run.Name, plan: p}
	if of > 1 {
		v.prefix = fmt.Sprintf("%s (%d of %d)", p.Run.Name, i+1, of)
	}
	return v
}

// show takes the progress; it may be called often.
func (v *view) show(p local.Progress) {
	now := time.Now()
	if v.began.IsZero() && p.Elapsed > 0 {
		v.began = now
	}
	if !v.due(now, p.Stage) {
		return
	}
	lines := []string{v.head(p, now)}
	for i, r := range p.Regions {
		var b load.Progress
		if v.before != nil {
			b = v.before[i]
		}
		line := fmt.Sprintf("  %-16s", v.plan.Topology.Regions[i])
		if interval := (p.Elapsed - v.at).Seconds(); interval > 0 {
			line += fmt.Sprintf(" %8.0f/s", float64(r.Committed-b.Committed)/interval)
		}
		if n := r.Committed - b.Committed; n > 0 {
			mean := (r.Latency - b.Latency) / time.Duration(n)
			line += fmt.Sprintf("  %7.1fms mean", float64(mean.Microseconds())/1000)
		} else {
			line += fmt.Sprintf("  %7s       ", "-")
		}
		line += fmt.Sprintf("  %10d committed", r.Committed)
		if r.Aborted > 0 {
			line += fmt.Sprintf("  %d aborted", r.Aborted)
		}
		if r.Failed > 0 {
			line += fmt.Sprintf("  %d failed!", r.Failed)
		}
		lines = append(lines, line)
	}
	if p.Regions != nil {
		lines = append(lines, v.faults(p.Elapsed)...)
		v.before, v.at = p.Regions, p.Elapsed
	}
	v.screen.show(now, p.Stage, lines)
}

// barWidth is that of the bar of progress.
const barWidth = 24

// head says what happens and how long it goes on.
func (v *view) head(p local.Progress, now time.Time) string {
	text := fmt.Sprintf("%s: %s", v.prefix, p.Stage)
	if p.Total <= 0 {
		return text
	}
	done := min(1, float64(p.Elapsed)/float64(p.Total))
	if v.terminal {
		n := int(done * barWidth)
		text += " [" + strings.Repeat("#", n) + strings.Repeat("-", barWidth-n) + "]"
	}
	text += fmt.Sprintf(" %s of %s", p.Elapsed.Round(time.Second), p.Total.Round(time.Second))
	// The clock of a simulation is not the wall's: what is left takes as long as what is done.
	if done > 0.05 && done < 1 {
		left := time.Duration(float64(now.Sub(v.began)) * (1 - done) / done)
		text += fmt.Sprintf(", ETA %s", left.Round(time.Second))
	}
	return text
}

// faults that are planned for this moment of the schedule.
func (v *view) faults(elapsed time.Duration) []string {
	from, _ := load.PlanOf(v.plan.Run.Spec.Load, 0).Window(1)
	var out []string
	for _, f := range v.plan.Run.Spec.Faults {
		begin := from + f.At.Duration
		switch {
		case elapsed < begin:
		case f.Duration == nil:
			if elapsed < begin+everyElsewhere {
				out = append(out, fmt.Sprintf("  fault %s", f.Name))
			}
		case elapsed < begin+f.Duration.Duration:
			out = append(out, fmt.Sprintf("  fault %s, %s left", f.Name, (begin+f.Duration.Duration-elapsed).Round(time.Second)))
		}
	}
	return out
}

// end leaves the terminal to others.
func (v *view) end() { v.close() }
