package tracediagram

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// diagram returns a lost update, with two clients in two regions, a message that arrives, and a message that is lost.
func diagram() *Diagram {
	return &Diagram{
		Title: "lost <update>", Facts: []string{"two regions"}, Simulated: true,
		Lanes: []Lane{{Name: "faults"}, {Name: "clients of a"}, {Name: "a/0/0", Node: true}, {Name: "b/0/0", Node: true}},
		Bars: []Bar{
			{Lane: 0, From: 3 * ms, To: 4 * ms, Kind: Fault, Label: "cut a-b", Text: "cut"},
			{Lane: 1, From: 0, To: 5 * ms, Kind: Committed, Label: "1.1 <b>a1+1</b>", Text: "first"},
			{Lane: 1, From: ms, To: 5 * time.Minute, Kind: Doubtful, Open: true, Label: "1.2", Text: "second"},
			{Lane: 1, From: 10 * time.Minute, To: 11 * time.Minute, Kind: Aborted, Label: "1.3", Text: "third"},
			{Lane: 3, From: 2 * ms, To: 4 * ms, Kind: Fault, Text: "down"},
		},
		Messages: []Message{
			{From: 1, FromBar: true, To: 2, Sent: 0, Received: ms, Text: "submits"},
			{From: 2, To: 3, Sent: ms, Received: 2 * ms, Text: "a to b"},
			{From: 3, To: 2, Sent: 2 * ms, Received: 3 * ms, Lost: true, Text: "b to a"},
			{From: 2, To: 1, ToBar: true, Sent: 4 * ms, Received: 5 * ms, Text: "answers"},
		},
		Points:   []Point{{Lane: 2, At: 2 * ms, Text: "probe"}},
		Edges:    []Edge{{From: 1, To: 2, Label: "rw", Text: "read before"}, {From: 2, To: 1, Label: "wr", Text: "read what"}},
		Story:    []Moment{{0, "1.1 is sent"}, {5 * ms, "1.1 is committed"}},
		Problems: []string{"not serializable & more"},
	}
}

// Later events are drawn further to the right, even if they are close in time. A gap of minutes does not hide a gap of
// microseconds.
func TestTime(t *testing.T) {
	d := diagram()
	l := newLayout(d)
	if !slices.IsSorted(l.xs) || len(slices.Compact(slices.Clone(l.xs))) != len(l.times) {
		t.Errorf("moments %v are drawn at %v", l.times, l.xs)
	}
	short, long := l.x(5*ms)-l.x(4*ms), l.x(10*time.Minute)-l.x(5*time.Minute)
	if short < leastGap || long <= short || long > 10*short {
		t.Errorf("a millisecond takes %d pixels and 5 minutes %d", short, long)
	}
	for i, tick := range l.Ticks[1:] {
		if tick.X-l.Ticks[i].X < labelSpace {
			t.Errorf("ticks %q and %q overlap", l.Ticks[i].Text, tick.Text)
		}
	}
}

// Bars in a lane that overlap in time are in separate rows, and arrows end at their senders and receivers.
func TestPlaces(t *testing.T) {
	d := diagram()
	l := newLayout(d)
	if l.Bars[1].Y == l.Bars[2].Y {
		t.Error("two transactions at the same time are drawn over each other")
	}
	if l.Bars[1].Y != l.Bars[3].Y {
		t.Error("a transaction that comes later takes another row")
	}
	for i, b := range l.Bars {
		if lane := l.Lanes[d.Bars[i].Lane]; b.Y < lane.Top || b.Y+b.H > lane.Top+lane.Space {
			t.Errorf("bar %d, from %d to %d, is outside of its lane: %+v", i, b.Y, b.Y+b.H, lane)
		}
	}
	if a := l.Arrows[0]; a.Y1 != l.Bars[1].Y+barHeight/2 || a.Y2 != l.Lanes[2].Y || a.Class != "client" {
		t.Errorf("what a client sends is drawn as %+v", a)
	}
	if a := l.Arrows[1]; a.Y1 != l.Lanes[2].Y || a.Y2 != l.Lanes[3].Y || a.Class != "message" {
		t.Errorf("a message is drawn as %+v", a)
	}
	if a := l.Arrows[2]; a.Y2 >= l.Lanes[3].Y || a.Y2 <= l.Lanes[2].Y || a.Class != "lost" {
		t.Errorf("a lost message is drawn as %+v", a)
	}
	if !l.Bars[1].Marked || l.Bars[0].Marked || l.Edges[0].X == l.Edges[1].X {
		t.Errorf("the cycle is drawn as %+v over %+v", l.Edges, l.Bars)
	}
	if last := l.Bars[2]; last.X+last.W != l.Width || last.Ends != len(l.times) {
		t.Errorf("a transaction without an answer ends at %d of %d", last.X+last.W, l.Width)
	}
}

// The page is self-contained and complete, and escapes markup in text.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := diagram().Write(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"<title>lost &lt;update&gt;</title>", "1.1 &lt;b&gt;a1&#43;1&lt;/b&gt;", "not serializable &amp; more", ">simulated<", ">rw<", ">wr<", "1.1 is committed", "0.000 ms",
		"prefers-color-scheme:dark",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if found := regexp.MustCompile(`(src|href)="[^d#][^"]*"`).FindAllString(strings.ReplaceAll(page, `href="data:,"`, ""), -1); len(found) > 0 {
		t.Errorf("the page needs %v", found)
	}
	found := regexp.MustCompile(`(?s)<script id="moments" type="application/json">(.*?)</script>`).FindStringSubmatch(page)
	var moments []moment
	if found == nil || json.Unmarshal([]byte(found[1]), &moments) != nil || len(moments) != len(newLayout(diagram()).times) {
		t.Errorf("the slider goes through %q", found)
	}
}

// An execution without events also gives a page.
func TestEmpty(t *testing.T) {
	if err := (&Diagram{Title: "nothing"}).Write(&bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}
