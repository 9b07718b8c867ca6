// Package tracediagram draws executions as space-time diagrams (Lamport, Time, Clocks, and the Ordering of Events in a
// Distributed System, CACM 1978, figure 1). Each node has a line, time runs from left to right, and each message is an
// arrow. Transactions are bars on separate lines, and faults are bars at the top. Evidence for a wrong execution, such
// as a cycle of dependencies, is drawn between the transactions. A page is a single self-contained HTML file, with a
// slider that steps through the execution moment by moment.
//
// Time is compressed, because relevant events may be microseconds or minutes apart: the width of a gap grows with the
// logarithm of its length.
package tracediagram

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/style"
)

// Diagram is the contents of a page. All times are relative to the start of the execution.
type Diagram struct {
	// Title is the title of the page. Facts are paragraphs about the execution. Simulated is set if the execution's time
	// is virtual.
	Title     string
	Facts     []string
	Simulated bool
	// Lanes are in order from top to bottom.
	Lanes    []Lane
	Bars     []Bar
	Messages []Message
	Points   []Point
	Edges    []Edge
	// Hidden is the number of messages that are not shown.
	Hidden int
	// Story lists the events of the execution in time order. Problems describes the execution's errors.
	Story    []Moment
	Problems []string
}

// Lane is a horizontal line of the diagram.
type Lane struct {
	Name string
	// Node is set if the lane belongs to a node: messages start and end there. Other lanes contain only bars.
	Node bool
}

// Bar is an interval: a fault, or a transaction from its submission to its answer.
type Bar struct {
	Lane     int
	From, To time.Duration
	// Open is set if the interval has no end.
	Open bool
	// Label is short; Text contains the details.
	Label, Text string
	Kind        Kind
}

// Kind is the drawing style of a bar.
type Kind string

// Kinds of bars.
const (
	Committed Kind = "committed"
	Aborted   Kind = "aborted"
	Doubtful  Kind = "doubtful"
	Fault     Kind = "fault"
)

// Message is a message from one lane to another. From and To are indexes of lanes, or of bars if FromBar and ToBar are
// set: a client's message starts at its transaction.
type Message struct {
	From, To       int
	FromBar, ToBar bool
	Sent, Received time.Duration
	// Lost is set if the message is never received. Received then only determines where the arrow ends.
	Lost bool
	Text string
}

// Point is an instant on a node's lane.
type Point struct {
	Lane int
	At   time.Duration
	Text string
}

// Edge leads from one bar to another that depends on it. Label names the dependency.
type Edge struct {
	From, To    int
	Label, Text string
}

// Moment is an event of the story.
type Moment struct {
	At   time.Duration
	Text string
}

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

//go:embed scrub.js
var scrub string

var page = template.Must(template.New("page").Parse(pageText))

// Write writes the page.
func (d *Diagram) Write(to io.Writer) error {
	l := newLayout(d)
	return page.Execute(to, map[string]any{
		"D": d, "L": l, "Style": template.CSS(style.CSS + pageStyle), "Script": template.JS(scrub), //nolint:gosec // our own
	})
}

// Sizes in pixels.
const (
	margin    = 16
	laneSpace = 34
	barHeight = 16
	// rowSpace is the distance between the bars of a lane. wideRowSpace is the distance if there are edges between the
	// bars.
	rowSpace, wideRowSpace = 24, 48
	// leastWidth is the minimum width of a diagram.
	leastWidth = 900
	// letter is the estimated width of a letter.
	letter    = 7
	axisSpace = 24
	// leastGap is the minimum width of a gap between two moments. perDecade is added for each factor of ten of the gap's
	// length.
	leastGap, perDecade = 9, 24
	gapUnit             = 100 * time.Microsecond
	labelSpace          = 84
	edgeSpace           = 40
)

// layout contains the positions of all parts of the drawing.
type layout struct {
	Width, Height int
	// Names is the width of the column with the names of lanes. End is the x position at which the names end.
	Names, End int
	rowSpace   int
	Lanes      []lane
	Bars       []box
	Arrows     []arrow
	Dots       []dot
	Edges      []curve
	Ticks      []tick
	// Moments contains the times of all events, in the order of the slider.
	Moments []moment
	Story   []told
	times   []time.Duration
	xs      []int
}

type lane struct {
	Name          string
	Node          bool
	Y, Top, Space int
}

// span contains the indexes of the moments at which a shape appears and disappears.
type span struct{ Begins, Ends int }

type box struct {
	span
	X, Y, W, H  int
	Kind        Kind
	Open        bool
	Label, Text string
	Marked      bool
}

type arrow struct {
	span
	X1, Y1, X2, Y2 int
	Class, Text    string
}

type dot struct {
	span
	X, Y int
	Text string
}

type curve struct {
	span
	Path        string
	X, Y        int
	Label, Text string
}

type tick struct {
	X    int
	Text string
}

type moment struct {
	X    int    `json:"x"`
	Text string `json:"text"`
}

type told struct {
	Moment
	span
	Time string
}

func newLayout(d *Diagram) *layout {
	l := &layout{rowSpace: rowSpace}
	if len(d.Edges) > 0 {
		l.rowSpace = wideRowSpace
	}
	l.axis(d)
	rows := l.rows(d)
	l.lanes(d, rows)
	l.place(d, rows)
	return l
}

// axis computes the x positions of all moments.
func (l *layout) axis(d *Diagram) {
	for _, b := range d.Bars {
		l.times = append(l.times, b.From, b.To)
	}
	for _, m := range d.Messages {
		l.times = append(l.times, m.Sent, m.Received)
	}
	for _, p := range d.Points {
		l.times = append(l.times, p.At)
	}
	for _, s := range d.Story {
		l.times = append(l.times, s.At)
	}
	slices.Sort(l.times)
	l.times = slices.Compact(l.times)
	gap := func(i int) float64 {
		return leastGap + perDecade*math.Log10(1+float64(l.times[i]-l.times[i-1])/float64(gapUnit))
	}
	all, stretch := 0.0, 1.0
	for i := range l.times[min(1, len(l.times)):] {
		all += gap(i + 1)
	}
	// Stretch a diagram with few events to the minimum width.
	if all > 0 && all < leastWidth {
		stretch = leastWidth / all
	}
	x := margin
	for i, t := range l.times {
		if i > 0 {
			x += int(stretch * gap(i))
		}
		l.xs = append(l.xs, x)
		l.Moments = append(l.Moments, moment{x, show(t)})
		// Omit ticks that are so close that their labels would overlap.
		if len(l.Ticks) == 0 || x-l.Ticks[len(l.Ticks)-1].X >= labelSpace {
			l.Ticks = append(l.Ticks, tick{x, show(t)})
		}
	}
	l.Width = x + labelSpace
}

// lanes computes the positions of the lanes. rows contains the row of each bar in its lane.
func (l *layout) lanes(d *Diagram, rows []int) {
	y, longest := axisSpace, 10*letter
	for i, given := range d.Lanes {
		longest = max(longest, letter*len([]rune(given.Name)))
		space := laneSpace
		if !given.Node {
			most := 0
			for b, row := range rows {
				if d.Bars[b].Lane == i {
					most = max(most, row)
				}
			}
			space = (most+1)*l.rowSpace + rowSpace/2
		}
		l.Lanes = append(l.Lanes, lane{given.Name, given.Node, y + space/2, y, space})
		y += space
	}
	l.Height, l.End, l.Names = y+margin, longest+margin/2, longest+margin
}

// rows assigns bars that overlap on a lane to separate rows, and returns the row of each bar.
func (l *layout) rows(d *Diagram) []int {
	rows := make([]int, len(d.Bars))
	order := make([]int, len(d.Bars))
	for i := range order {
		order[i] = i
	}
	// Place the bars in chronological order, so that it suffices to take the first free row.
	slices.SortStableFunc(order, func(a, b int) int { return int(d.Bars[a].From - d.Bars[b].From) })
	free := map[[2]int]int{} // by lane and row, the x from which it is free
	for _, i := range order {
		b := d.Bars[i]
		for !d.Lanes[b.Lane].Node && free[[2]int{b.Lane, rows[i]}] > l.x(b.From) {
			rows[i]++
		}
		end := l.x(b.To)
		// A label may be longer than its bar. Reserve space for it, so that it does not cover the next bar.
		if b.Label != "" {
			end = max(end, l.x(b.From)+letter*len([]rune(b.Label))+10)
		}
		free[[2]int{b.Lane, rows[i]}] = end + 4
	}
	return rows
}

func (l *layout) place(d *Diagram, rows []int) {
	for i, b := range d.Bars {
		at := l.Lanes[b.Lane]
		o := box{span: l.span(b.From, b.To), X: l.x(b.From), Y: at.Top + rowSpace/4 + rows[i]*l.rowSpace, H: barHeight, Kind: b.Kind, Open: b.Open, Label: b.Label, Text: b.Text}
		if at.Node {
			o.Y, o.H = at.Top+3, at.Space-6
		}
		o.W = max(4, l.x(b.To)-o.X)
		if b.Open {
			o.W = l.Width - o.X
			o.Ends = len(l.times)
		}
		o.Marked = slices.ContainsFunc(d.Edges, func(e Edge) bool { return e.From == i || e.To == i })
		l.Bars = append(l.Bars, o)
	}
	for _, m := range d.Messages {
		a := arrow{span: l.span(m.Sent, m.Received), X1: l.x(m.Sent), X2: l.x(m.Received), Text: m.Text}
		a.Y1, a.Y2 = l.end(m.From, m.FromBar), l.end(m.To, m.ToBar)
		switch {
		case m.Lost:
			a.Class = "lost"
			// The arrow of a lost message ends after a third of the distance to the receiver.
			a.Y2 = a.Y1 + (a.Y2-a.Y1)/3
		case m.FromBar || m.ToBar:
			a.Class = "client"
		default:
			a.Class = "message"
		}
		l.Arrows = append(l.Arrows, a)
	}
	for _, p := range d.Points {
		l.Dots = append(l.Dots, dot{l.span(p.At, p.At), l.x(p.At), l.Lanes[p.Lane].Y, p.Text})
	}
	for i, e := range d.Edges {
		l.Edges = append(l.Edges, l.curve(e, i))
	}
	for _, s := range d.Story {
		l.Story = append(l.Story, told{s, l.span(s.At, s.At), show(s.At)})
	}
}

// curve draws edge i between the facing sides of two bars, to the right of the edges before it.
func (l *layout) curve(e Edge, i int) curve {
	from, to := l.Bars[e.From], l.Bars[e.To]
	beside := 14 + edgeSpace*i
	x1, x2 := from.X+beside, to.X+beside
	y1, y2 := from.Y+from.H, to.Y
	if to.Y < from.Y {
		y1, y2 = from.Y, to.Y+to.H
	}
	bend1, bend2 := (y2-y1)/2, (y1-y2)/2
	if to.Y == from.Y { // above both bars
		y1, bend1, bend2 = from.Y, -rowSpace, -rowSpace
	}
	return curve{
		span: span{max(from.Begins, to.Begins), len(l.times)}, Label: e.Label, Text: e.Text,
		Path: fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+bend1, x2, y2+bend2, x2, y2),
		X:    (x1+x2)/2 + edgeSpace/2, Y: max(axisSpace, (y1+y2+bend1+bend2)/2+4),
	}
}

func (l *layout) end(i int, bar bool) int {
	if bar {
		return l.Bars[i].Y + l.Bars[i].H/2
	}
	return l.Lanes[i].Y
}

func (l *layout) index(t time.Duration) int {
	i, _ := slices.BinarySearch(l.times, t)
	return i
}

func (l *layout) x(t time.Duration) int { return l.xs[l.index(t)] }

func (l *layout) span(from, to time.Duration) span { return span{l.index(from), l.index(to)} }

func show(t time.Duration) string { return fmt.Sprintf("%.3f ms", float64(t)/1e6) }
