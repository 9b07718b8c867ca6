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

// view shows the progress of a run: one line that is written over on a terminal, else a line now and then.
type view struct {
	w        io.Writer
	prefix   string
	regions  []string
	terminal bool
	width    int
	quiet    bool

	stage  string
	last   time.Time
	before []load.Progress
}

// every is the interval between lines, on a terminal and elsewhere.
const (
	everyOnTerminal = 200 * time.Millisecond
	everyElsewhere  = 5 * time.Second
)

func newView(w io.Writer, p *plan.Plan, i, of int, quiet bool) *view {
	v := &view{w: w, prefix: p.Run.Name, regions: p.Topology.Regions, quiet: quiet, width: 100}
	if of > 1 {
		v.prefix = fmt.Sprintf("%s (%d of %d)", p.Run.Name, i+1, of)
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		v.terminal = true
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 20 {
			v.width = width
		}
	}
	return v
}

// show takes the progress; it may be called often.
func (v *view) show(p local.Progress) {
	every := everyElsewhere
	if v.terminal {
		every = everyOnTerminal
	}
	now := time.Now()
	if v.quiet || p.Stage == v.stage && now.Sub(v.last) < every {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", v.prefix, p.Stage)
	if p.Total > 0 {
		fmt.Fprintf(&b, " %s of %s", p.Elapsed.Round(time.Second), p.Total.Round(time.Second))
	}
	for i, r := range p.Regions {
		fmt.Fprintf(&b, "  %s %d committed", v.regions[i], r.Committed)
		if v.before != nil && r.Failed > v.before[i].Failed {
			fmt.Fprintf(&b, " (%d failed!)", r.Failed)
		}
	}
	v.stage, v.last, v.before = p.Stage, now, p.Regions
	v.line(b.String())
}

func (v *view) line(s string) {
	if !v.terminal {
		fmt.Fprintln(v.w, s)
		return
	}
	if len(s) >= v.width {
		s = s[:v.width-1]
	}
	fmt.Fprintf(v.w, "\r\x1b[K%s", s)
}

// end leaves the line to others.
func (v *view) end() {
	if v.terminal && !v.quiet && v.stage != "" {
		fmt.Fprint(v.w, "\r\x1b[K")
	}
}
