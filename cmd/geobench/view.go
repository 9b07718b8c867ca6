package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/run/experiment"
	"github.com/geobench/geobench/internal/run/experiment/play"
	"github.com/geobench/geobench/internal/run/inprocess"
)

// screen shows a few changing lines. On a terminal it overwrites them; elsewhere it prints a plain line periodically.
type screen struct {
	w        io.Writer
	terminal bool
	quiet    bool
	// width and height are the size of the terminal, in characters.
	width, height int

	key   string
	last  time.Time
	drawn int // number of lines on the terminal
}

// The intervals between two updates, on a terminal and elsewhere.
const (
	everyOnTerminal = 200 * time.Millisecond
	everyElsewhere  = 5 * time.Second
)

func newScreen(w io.Writer, quiet bool) *screen {
	s := &screen{w: w, quiet: quiet, width: 100, height: 24}
	// A dumb terminal cannot move its cursor, so it is treated like a file.
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.terminal = true
		// Ignore an implausible size, which a terminal reports if it does not know its size.
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 20 && height > 1 {
			s.width, s.height = width, height
		}
	}
	return s
}

// due reports whether an update is due. A changed key makes it due immediately.
func (s *screen) due(now time.Time, key string) bool {
	every := everyElsewhere
	if s.terminal {
		every = everyOnTerminal
	}
	return !s.quiet && (key != s.key || now.Sub(s.last) >= every)
}

// show shows lines if an update is due.
func (s *screen) show(now time.Time, key string, lines []string) {
	if !s.due(now, key) {
		return
	}
	s.key, s.last = key, now
	if !s.terminal {
		// Columns are aligned for a terminal; a single line needs no padding.
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		fmt.Fprintln(s.w, strings.Join(lines, "; "))
		return
	}
	s.erase()
	// Omit lines that do not fit: lines that have scrolled off the top could not be overwritten later.
	lines = lines[:min(len(lines), s.height-1)]
	for _, l := range lines {
		// A line of the full width would wrap, and erase would miss a row.
		if r := []rune(l); len(r) >= s.width {
			l = string(r[:s.width-1])
		}
		fmt.Fprintf(s.w, "%s\x1b[K\n", l)
	}
	s.drawn = len(lines)
}

// erase removes the lines from the terminal.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.w, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// close removes the lines from the terminal, so that other output can follow.
func (s *screen) close() {
	if s.terminal {
		s.erase()
	}
}

// view shows the progress of a run.
type view struct {
	*screen
	follower
}

func newView(w io.Writer, p *plan.Plan, i, of int, quiet bool) *view {
	v := &view{screen: newScreen(w, quiet), follower: follower{name: p.Run.Name, regions: p.Topology.Regions, spec: &p.Run.Spec}}
	if of > 1 {
		v.name = fmt.Sprintf("%s (%d of %d)", p.Run.Name, i+1, of)
	}
	return v
}

// show shows the progress if an update is due. It may be called often.
func (v *view) show(p inprocess.Progress) {
	now := time.Now()
	v.note(p, now)
	// lines also starts a new interval for the rates, so call it only if an update is due.
	if v.due(now, p.Stage) {
		v.screen.show(now, p.Stage, v.lines(p, now, v.terminal))
	}
}

// end removes the progress from the terminal.
func (v *view) end() { v.close() }

// follower formats the progress of a run. The progress contains the stage, the remaining time and the current faults,
// and each region's throughput and latency since the previous update.
type follower struct {
	name    string
	regions []string
	spec    *v1alpha1.BenchmarkRunSpec

	began  time.Time // start of the load in wall-clock time
	at     time.Duration
	before []load.Progress
}

// note records the start of the load. It must be called with every progress report, because the first one after the
// start sets the time.
func (f *follower) note(p inprocess.Progress, now time.Time) {
	if f.began.IsZero() && p.Elapsed > 0 {
		f.began = now
	}
}

// lines formats the progress. bars adds a progress bar, for terminals.
func (f *follower) lines(p inprocess.Progress, now time.Time, bars bool) []string {
	lines := []string{f.head(p, now, bars)}
	for i, r := range p.Regions {
		var b load.Progress
		if f.before != nil {
			b = f.before[i]
		}
		line := fmt.Sprintf("  %-16s", f.regions[i])
		if interval := (p.Elapsed - f.at).Seconds(); interval > 0 {
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
		if r.Retried > 0 {
			line += fmt.Sprintf("  %d retried", r.Retried)
		}
		if r.Failed > 0 {
			line += fmt.Sprintf("  %d failed!", r.Failed)
		}
		lines = append(lines, line)
	}
	if p.Regions != nil {
		lines = append(lines, f.faults(p.Elapsed)...)
		f.before, f.at = p.Regions, p.Elapsed
	}
	return lines
}

// barWidth is the width of a progress bar, in characters.
const barWidth = 24

func bar(done float64) string {
	n := int(done * barWidth)
	return "[" + strings.Repeat("#", n) + strings.Repeat("-", barWidth-n) + "]"
}

// eta estimates the remaining wall-clock time from the speed so far. It returns an empty string while there is no
// estimate.
func eta(began, now time.Time, done float64) string {
	// The first few percent predict the speed poorly.
	if done <= 0.05 || done >= 1 {
		return ""
	}
	return fmt.Sprintf(", ETA %s", time.Duration(float64(now.Sub(began))*(1-done)/done).Round(time.Second))
}

// head returns the line with the current stage and its remaining time.
func (f *follower) head(p inprocess.Progress, now time.Time, bars bool) string {
	text := fmt.Sprintf("%s: %s", f.name, p.Stage)
	if p.Total <= 0 {
		return text
	}
	done := min(1, float64(p.Elapsed)/float64(p.Total))
	if bars {
		text += " " + bar(done)
	}
	// A simulation's clock is virtual, so the estimate uses the wall clock.
	return text + fmt.Sprintf(" %s of %s", p.Elapsed.Round(time.Second), p.Total.Round(time.Second)) + eta(f.began, now, done)
}

// faults returns lines for the faults that are planned for this time of the schedule.
func (f *follower) faults(elapsed time.Duration) []string {
	from, _ := load.PlanOf(f.spec.Load, 0).Window(1)
	var out []string
	for _, fault := range f.spec.Faults {
		begin := from + fault.At.Duration
		switch {
		case elapsed < begin:
		case fault.Duration == nil:
			// A kill has no duration. Show it for as long as an update may take to appear.
			if elapsed < begin+everyElsewhere {
				out = append(out, fmt.Sprintf("  fault %s", fault.Name))
			}
		case elapsed < begin+fault.Duration.Duration:
			out = append(out, fmt.Sprintf("  fault %s, %s left", fault.Name, (begin+fault.Duration.Duration-elapsed).Round(time.Second)))
		}
	}
	return out
}

// experimentView shows the progress of experiments. On a terminal it shows the overall progress, and each running run
// with its regions. Elsewhere it prints a line for each finished run.
type experimentView struct {
	*screen
	began     time.Time // start of the first run that was not kept
	last      play.Progress
	followers map[*experiment.Run]*follower
}

func newExperimentView(w io.Writer, quiet bool) *experimentView {
	return &experimentView{screen: newScreen(w, quiet), followers: map[*experiment.Run]*follower{}}
}

// show shows the progress if an update is due. It may be called often.
func (v *experimentView) show(p play.Progress) { v.showAt(p, time.Now()) }

func (v *experimentView) showAt(p play.Progress, now time.Time) {
	v.last = p
	// Kept results take no time, so they must not affect the estimate.
	if v.began.IsZero() && p.Event == play.Began {
		v.began = now
	}
	for _, r := range p.Playing {
		f := v.followers[r.Run]
		if f == nil {
			f = &follower{name: r.Run.Label, regions: r.Run.Database.Spec.RegionNames(), spec: &r.Run.Run.Spec}
			v.followers[r.Run] = f
		}
		f.note(r.At, now)
	}
	switch {
	case v.quiet:
	case v.terminal:
		if v.due(now, v.key) {
			v.screen.show(now, v.key, v.lines(now))
		}
	case p.Event == play.Ended:
		fmt.Fprintf(v.w, "%s: %s%s\n", v.count(), p.Label, v.rest(now))
	case p.Event == play.Began && p.Done == 0:
		// The longest runs start first, so name the run that delays the first line.
		fmt.Fprintf(v.w, "running %s\n", p.Label)
	}
}

func (v *experimentView) count() string { return fmt.Sprintf("%d of %d", v.last.Done, v.last.Total) }

// rest returns the remaining information about all runs: kept and failed runs, and the estimated time.
func (v *experimentView) rest(now time.Time) string {
	text := ""
	if v.last.Kept > 0 {
		text += fmt.Sprintf(" (%d kept from before)", v.last.Kept)
	}
	if v.last.Failed > 0 {
		text += fmt.Sprintf(" (%d could not run!)", v.last.Failed)
	}
	return text + eta(v.began, now, v.last.Share)
}

// lines returns the lines for a terminal.
func (v *experimentView) lines(now time.Time) []string {
	lines := []string{fmt.Sprintf("%s %s runs%s", bar(min(1, v.last.Share)), v.count(), v.rest(now))}
	for _, r := range v.last.Playing {
		at := r.At
		if at.Stage == "" {
			at.Stage = "preparing"
		}
		lines = append(lines, v.followers[r.Run].lines(at, now, false)...)
	}
	return lines
}
