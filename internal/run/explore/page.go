package explore

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/tracediagram"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/sim"
)

// maxDrawn is the maximum number of messages in a diagram. Protocol activity long after the last answer does not help
// to explain the problem.
const maxDrawn = 700

// maxSeen is the maximum number of events that are recorded for a diagram.
const maxSeen = 200_000

// WritePage writes an HTML page with a space-time diagram of the minimal scenario's execution.
func (l *Least) WritePage(to io.Writer) error {
	var seen []sim.Observation
	c := l.config
	c.observe = func(o sim.Observation) {
		if o.Kind != sim.Starts && o.Kind != sim.Fires && len(seen) < maxSeen {
			seen = append(seen, o)
		}
	}
	res, e := l.execution.world.clone().run(c)
	d := e.diagram(seen)
	d.Title = fmt.Sprintf("%s, seed %d: the minimal failing scenario", l.Engine, l.Seed)
	var network strings.Builder
	e.describe(&network)
	e.core.describe(&network, e.topology)
	d.Facts = []string{
		strings.ReplaceAll(strings.TrimSpace(network.String()), "\n", "; ") + "; " + e.load.what(),
		fmt.Sprintf("This is the minimal scenario that fails in the same way as that of the seed, of %d that were tried. It has %s.", l.Runs, l.compared()),
		"Again: " + l.command() + " --shrink",
	}
	if note := l.note(); note != "" {
		d.Facts = append(d.Facts, note)
	}
	for _, p := range res.Problems {
		d.Problems = append(d.Problems, strings.TrimSpace(p.Text))
	}
	return d.Write(to)
}

// diagram returns the space-time diagram of an execution, given all its observed events.
func (e *execution) diagram(seen []sim.Observation) *tracediagram.Diagram {
	t := e.topology
	d := &tracediagram.Diagram{Simulated: true}
	clients, nodes := map[geo.Region]int{}, map[geo.NodeID]int{}
	lane := func(name string, node bool) int {
		d.Lanes = append(d.Lanes, tracediagram.Lane{Name: name, Node: node})
		return len(d.Lanes) - 1
	}
	faults := -1
	if len(e.faults)+len(e.core.faults)+len(e.timeline) > 0 {
		faults = lane("faults", false)
	}
	for r, name := range t.Regions {
		// A region whose clients sent no transaction needs no lane for clients.
		if slices.ContainsFunc(e.submitted, func(c call) bool { return c.region == geo.Region(r) }) {
			clients[geo.Region(r)] = lane("clients of "+name, false)
		}
		for n := range geo.NodeID(t.Nodes()) {
			if t.RegionOf(n) == geo.Region(r) {
				nodes[n] = lane(t.NodeName(n), true)
			}
		}
	}
	end := e.drawMessages(d, nodes, seen)
	for _, f := range slices.Concat(e.faults, e.core.faults) {
		end = max(end, f.at)
	}
	for i := range e.timeline {
		end = max(end, e.timeline[i].At.Duration)
	}
	bars := map[txn.ID]int{}
	for _, c := range e.submitted {
		bars[c.id] = len(d.Bars)
		d.Bars = append(d.Bars, e.bar(&c, clients[c.region], max(end, c.at)))
	}
	e.drawClients(d, nodes, seen, bars)
	if faults >= 0 {
		e.drawFaults(d, faults, nodes, end)
	}
	if v := e.verdict; v != nil {
		for _, step := range v.Cycle {
			from, ok := bars[step.From]
			to, known := bars[step.To]
			if ok && known && from != to {
				d.Edges = append(d.Edges, tracediagram.Edge{From: from, To: to, Label: step.Dependency.String(), Text: step.Text})
			}
		}
	}
	end = max(end, e.lastAnswer())
	for _, h := range e.schedule() {
		if h.at > end { // the diagram ends soon after the last answer
			h.at, h.text = end, fmt.Sprintf("%s by %.3f ms", h.text, float64(h.at)/1e6)
		}
		d.Story = append(d.Story, tracediagram.Moment{At: h.at, Text: h.text})
	}
	return d
}

// lastAnswer returns the time of the last answer to a transaction, or 0 if there is none.
func (e *execution) lastAnswer() (at time.Duration) {
	for _, a := range e.answers {
		at = max(at, a.at)
	}
	return at
}

// bar returns the bar of a transaction. The bar of an unanswered transaction extends to the end of the diagram.
func (e *execution) bar(c *call, lane int, end time.Duration) tracediagram.Bar {
	what := e.load.describe(c)
	b := tracediagram.Bar{
		Lane: lane, From: c.at, To: end, Open: true, Kind: tracediagram.Doubtful,
		Label: c.id.String() + " " + shorten(what), Text: fmt.Sprintf("%v: %s: no answer", c.id, what),
	}
	if a, ok := e.answers[c.id]; ok {
		b.To, b.Open, b.Text = a.at, false, fmt.Sprintf("%v: %s: %v after %v", c.id, what, a.status, a.at-c.at)
		switch a.status {
		case txn.Committed:
			b.Kind = tracediagram.Committed
		case txn.Aborted:
			b.Kind = tracediagram.Aborted
		}
	}
	return b
}

func shorten(label string) string {
	const most = 26
	if r := []rune(label); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return label
}

// drawMessages draws the messages between nodes and the coverage marks that nodes hit. It returns the time at which the
// last drawn message arrives.
func (e *execution) drawMessages(d *tracediagram.Diagram, nodes map[geo.NodeID]int, seen []sim.Observation) (end time.Duration) {
	type sending struct {
		from, to geo.NodeID
		at       time.Duration
	}
	received := map[sending]int{}
	for _, o := range seen {
		if o.Kind == sim.Receives {
			received[sending{o.Peer, o.Node, o.Sent}]++
		}
	}
	for _, o := range seen {
		m := tracediagram.Message{From: nodes[o.Peer], To: nodes[o.Node], Sent: o.Sent, Received: o.At}
		switch o.Kind {
		case sim.Hits:
			if len(d.Messages) < maxDrawn {
				d.Points = append(d.Points, tracediagram.Point{Lane: nodes[o.Node], At: o.At, Text: "mark " + o.Mark.Name})
			}
			continue
		case sim.Receives:
		case sim.Sends:
			way := sending{o.Node, o.Peer, o.At}
			// The loop draws a received message when it reaches the receipt. Here, draw only messages that no node received.
			if received[way] > 0 {
				received[way]--
				continue
			}
			// A lost message has no arrival time, so end its line at a third of the link's delay.
			m = tracediagram.Message{From: nodes[o.Node], To: nodes[o.Peer], Sent: o.At, Received: o.At + e.topology.Link(o.Node, o.Peer).Delay/3, Lost: true}
		default:
			continue
		}
		if len(d.Messages) >= maxDrawn {
			d.Hidden++
			continue
		}
		m.Text = fmt.Sprintf("%s to %s: %v", d.Lanes[m.From].Name, d.Lanes[m.To].Name, o.Message)
		if m.Lost {
			m.Text += " (not received)"
		}
		end = max(end, m.Received)
		d.Messages = append(d.Messages, m)
	}
	return end
}

// drawClients draws transactions from clients to nodes, and the answers to the clients.
func (e *execution) drawClients(d *tracediagram.Diagram, nodes map[geo.NodeID]int, seen []sim.Observation, bars map[txn.ID]int) {
	for _, o := range seen {
		switch o.Kind {
		case sim.IsSubmitted:
			i := bars[o.Transaction.ID]
			d.Messages = append(d.Messages, tracediagram.Message{From: i, FromBar: true, To: nodes[o.Node], Sent: d.Bars[i].From, Received: o.At, Text: d.Bars[i].Text})
		case sim.Replies:
			a, ok := e.answers[o.Outcome.ID]
			// The client uses only the first answer, so draw no arrow for replies that a node sent after that answer arrived.
			if i := bars[o.Outcome.ID]; ok && a.at >= o.At {
				d.Messages = append(d.Messages, tracediagram.Message{From: nodes[o.Node], To: i, ToBar: true, Sent: o.At, Received: a.at, Text: d.Bars[i].Text})
			}
		}
	}
}

// drawFaults draws all faults in a lane of their own, and the time during which nodes are down in the lanes of these
// nodes.
func (e *execution) drawFaults(d *tracediagram.Diagram, lane int, nodes map[geo.NodeID]int, end time.Duration) {
	t := e.topology
	down := func(n geo.NodeID, from, to time.Duration, open bool, what string) {
		d.Bars = append(d.Bars, tracediagram.Bar{Lane: nodes[n], From: from, To: to, Open: open, Kind: tracediagram.Fault, Text: t.NodeName(n) + " is " + what})
	}
	bar := func(f fault, to time.Duration, open bool) {
		label := f.describe(t)
		text := fmt.Sprintf("%v: %s", f.at, label)
		if to > f.at && !open {
			text += fmt.Sprintf(" until %v", to)
		}
		d.Bars = append(d.Bars, tracediagram.Bar{Lane: lane, From: f.at, To: to, Open: open, Kind: tracediagram.Fault, Label: label, Text: text})
	}
	for i := range e.timeline {
		f := &e.timeline[i]
		label, open, to := Describe(f), f.PodKill != nil && f.PodKill.Lasting, min(end, ends(f))
		if open {
			to = end
		}
		d.Bars = append(d.Bars, tracediagram.Bar{
			Lane: lane, From: f.At.Duration, To: max(f.At.Duration, to), Open: open, Kind: tracediagram.Fault, Label: label, Text: fmt.Sprintf("%v: %s", f.At, label),
		})
	}
	for _, pair := range e.pairs() {
		f, to := e.faults[pair[0]], e.faults[pair[len(pair)-1]].at
		if f.kind == cut {
			to = e.healed(f)
		}
		// A crash without a restart has no partner in its group, so the node stays down.
		open := f.kind.loss() || f.kind == crash && len(pair) == 1
		if open {
			to = max(end, f.at)
		}
		bar(f, to, open)
		switch {
		case f.kind == crash:
			down(f.node, f.at, to, open, "down")
		case f.kind == vanish:
			for n := range geo.NodeID(t.Nodes()) {
				if n == f.node && !f.region || f.region && t.RegionOf(n) == f.a {
					down(n, f.at, f.at+f.by, false, "lost, and is replaced")
				}
			}
		}
	}
	for _, f := range slices.Concat(e.faults, e.core.faults) {
		if !f.kind.loss() {
			continue
		}
		// The loop above has already drawn the losses of the first phase.
		if slices.Contains(e.core.faults, f) {
			bar(f, max(end, f.at), true)
		}
		for n := range geo.NodeID(t.Nodes()) {
			if t.RegionOf(n) == f.a {
				down(n, f.at, max(end, f.at), true, "lost for good")
			}
		}
	}
}

// healed returns the time at which a cut ends. This is the first heal of the link after the cut, even if that heal
// belongs to another cut.
func (e *execution) healed(f fault) time.Duration {
	for _, g := range e.faults {
		if g.kind == heal && g.at >= f.at && (g.a == f.a && g.b == f.b || g.a == f.b && g.b == f.a) {
			return g.at
		}
	}
	return f.at
}
