package result

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// WitnessName names an observer that counts bytes.
type WitnessName string

// The witnesses that can count the bytes between nodes.
const (
	WitnessNodes    WitnessName = "Nodes"
	WitnessMesh     WitnessName = "Mesh"
	WitnessEmulator WitnessName = "Emulator"
)

// The kinds of traffic that witnesses count.
const (
	CountsFrames  = "frames that nodes have sent each other"
	CountsPayload = "payload of the nodes' TCP connections"
	CountsPackets = "packets of nodes and clients that came over emulated links, with headers from IP upwards"
)

// Witness is an observer's count of the bytes that nodes sent each other, from before the first warm-up until after the
// last answer.
type Witness struct {
	Name WitnessName `json:"name"`
	// Counts describes the traffic that the bytes cover. Counters names the counters that were read; empty for the nodes'
	// own counters.
	Counts   string `json:"counts"`
	Counters string `json:"counters,omitempty"`
	// Bytes is the total of all links, and Links holds the bytes of single links if the witness distinguishes them. Both
	// are omitted if they are unknown; NotCounted then gives the reason.
	Bytes      *int64    `json:"bytes,omitempty"`
	Links      []Traffic `json:"links,omitempty"`
	NotCounted string    `json:"notCounted,omitempty"`
	// BytesPerTransaction is the number of bytes per transaction that was committed in the same time.
	BytesPerTransaction int64 `json:"bytesPerTransaction,omitzero"`
	// OffPPM is the difference between the witness's bytes and the nodes' bytes, in parts per million of the nodes' bytes.
	// It is omitted for the nodes themselves, and for witnesses that count different traffic.
	OffPPM *int64 `json:"offPPM,omitempty"`
}

// Meter is a reading of one counter of a witness, for example of a proxy or of a sidecar that emulates the network.
type Meter struct {
	// Who describes the meter, for example "the proxy of pod d-us-west-2-0".
	Who string `json:"who"`
	// Process identifies the process that counts. It changes if the meter restarts counting from zero.
	Process string `json:"process,omitempty"`
	// Counters names the counters that were read.
	Counters string `json:"counters,omitempty"`
	// Links holds the bytes since the meter started counting. From or To is empty if the meter does not distinguish
	// regions at this end.
	Links []Traffic `json:"links,omitempty"`
	// Problem explains why the meter could not be read; empty if it was read.
	Problem string `json:"problem,omitempty"`
}

// Readings holds the readings of a witness's meters before the first warm-up and after the last answer.
type Readings struct {
	Witness       WitnessName
	Counts        string
	Before, After []Meter
	// Unread explains why there are no meters; empty if there are meters.
	Unread string
	// Besides is an upper bound, per link, of the bytes that the witness may have counted in addition to the nodes'
	// bytes.
	Besides []Traffic
}

// witnessTolerance is the allowed difference between a witness's and the nodes' bytes, relative to the nodes' bytes.
const witnessTolerance = 0.02

type direction struct{ from, to string }

// counted returns the bytes that the meters counted between both readings, and the names of the counters. If the bytes
// are unknown, why gives the reason.
func (r *Readings) counted() (links map[direction]int64, counters, why string) {
	switch {
	case r.Unread != "":
		return nil, "", r.Unread
	case len(r.Before) == 0:
		return nil, "", "nobody was asked when the run began"
	}
	after := map[string]*Meter{}
	for i := range r.After {
		after[r.After[i].Who] = &r.After[i]
	}
	var problems []string
	problem := func(who, format string, args ...any) {
		problems = append(problems, who+": "+fmt.Sprintf(format, args...))
	}
	links = map[direction]int64{}
	for i := range r.Before {
		b := &r.Before[i]
		a := after[b.Who]
		delete(after, b.Who)
		counters = b.Counters
		switch {
		case b.Problem != "":
			problem(b.Who, "%s", b.Problem)
		case a == nil:
			problem(b.Who, "it was gone at the end")
		case a.Problem != "":
			problem(b.Who, "%s", a.Problem)
		// The difference would omit everything that the previous process counted.
		case a.Process != b.Process:
			problem(b.Who, "it was started again, and what it had counted before is not known")
		case a.Counters != b.Counters, b.Counters != r.Before[0].Counters:
			problem(b.Who, "it has counted by %s, and not all by these", cmp.Or(b.Counters, "nothing"))
		// If the process name is the same after a restart, only smaller numbers reveal the restart.
		case a.shrankSince(b):
			problem(b.Who, "it shows less than before, so it has begun to count anew")
		default:
			b.addTo(links, -1)
			a.addTo(links, 1)
		}
	}
	// A meter without a first reading may have started counting long before the run.
	for _, who := range slices.Sorted(maps.Keys(after)) {
		problem(who, "it was not there when the run began")
	}
	switch {
	case len(problems) == 1:
		return nil, "", problems[0]
	case len(problems) > 1:
		return nil, "", fmt.Sprintf("%s; and so on, of %d", problems[0], len(problems))
	}
	return links, counters, ""
}

// addTo adds the meter's bytes to links, times sign.
func (m *Meter) addTo(links map[direction]int64, sign int64) {
	for _, l := range m.Links {
		links[direction{l.From, l.To}] += sign * l.Bytes
	}
}

// shrankSince reports whether the meter shows fewer bytes for any link than its earlier reading, before.
func (m *Meter) shrankSince(before *Meter) bool {
	left := map[direction]int64{}
	before.addTo(left, 1)
	m.addTo(left, -1)
	for _, n := range left {
		if n > 0 {
			return true
		}
	}
	return false
}

// fillWitnesses adds the byte counts of all witnesses, and notes disagreements with the nodes.
func (d *Document) fillWitnesses(in *Inputs, transferred int64) {
	if len(in.Readings) == 0 {
		return
	}
	own := Witness{Name: WitnessNodes, Counts: CountsFrames}
	sent := map[direction]int64{}
	if in.Target != nil {
		own.NotCounted = "programs do not tell what they send each other"
	} else {
		for _, l := range d.Links {
			sent[direction{l.From, l.To}] = l.Bytes
		}
		own.fill(sent, in.Topology.Regions, transferred)
	}
	d.Witnesses = append(d.Witnesses, own)
	for i := range in.Readings {
		r := &in.Readings[i]
		w := Witness{Name: r.Witness, Counts: r.Counts}
		links, counters, why := r.counted()
		if w.Counters, w.NotCounted = counters, why; why == "" {
			w.fill(links, in.Topology.Regions, transferred)
			// No counter includes the bytes that nodes sent before they stopped, so the nodes' sum would be too small.
			if in.Target == nil && len(d.Uncounted) == 0 {
				d.compareWitness(&w, r, sent, links)
			}
		}
		d.Witnesses = append(d.Witnesses, w)
	}
}

// fill sets the bytes of the witness, in total and by link.
func (w *Witness) fill(links map[direction]int64, regions []string, transferred int64) {
	all := int64(0)
	for _, n := range links {
		all += n
	}
	w.Bytes = &all
	if transferred > 0 {
		w.BytesPerTransaction = ratio(transferred, 1, all)
	}
	// A table of links with an unknown end would look complete although it is incomplete.
	if !apart(links) {
		return
	}
	for _, from := range regions {
		for _, to := range regions {
			if n, ok := links[direction{from, to}]; ok {
				w.Links = append(w.Links, Traffic{from, to, n})
			}
		}
	}
}

// apart reports whether every count belongs to a link with two known ends.
func apart(links map[direction]int64) bool {
	for at := range links {
		if at.from == "" || at.to == "" {
			return false
		}
	}
	return true
}

// compareWitness sets the difference between a witness's bytes and the nodes' bytes, and notes a difference above the
// tolerance. A witness that counts packets, including packets of clients, must not count fewer bytes than the nodes
// sent to another region.
func (d *Document) compareWitness(w *Witness, r *Readings, sent, links map[direction]int64) {
	besides := map[direction]int64{}
	var nodes, spare int64
	for _, n := range sent {
		nodes += n
	}
	for _, l := range r.Besides {
		besides[direction{l.From, l.To}] += l.Bytes
		spare += l.Bytes
	}
	type gap struct {
		where          string // empty for all links together
		counted, nodes int64
		off            float64
		beyond         bool
	}
	compare := func(where string, counted, nodes, spare int64) gap {
		g := gap{where: where, counted: counted, nodes: nodes, off: math.Inf(1)}
		if nodes > 0 {
			g.off = float64(counted-nodes) / float64(nodes)
		} else if counted == 0 {
			g.off = 0
		}
		low, high := float64(nodes)*(1-witnessTolerance), float64(nodes)*(1+witnessTolerance)+float64(spare)
		// Counts of packets include headers and traffic of clients, so only a count that is too low is a contradiction.
		g.beyond = float64(counted) < low || float64(counted) > high && r.Counts != CountsPackets
		return g
	}
	var gaps []gap
	if r.Counts != CountsPackets {
		total := compare("", *w.Bytes, nodes, spare)
		if nodes > 0 {
			w.OffPPM = new(int64(math.Round(total.off * 1e6)))
		}
		gaps = append(gaps, total)
	}
	if apart(links) {
		for _, l := range d.Links {
			at := direction{l.From, l.To}
			// Packets within a region do not pass an emulated link.
			if r.Counts == CountsPackets && l.From == l.To {
				continue
			}
			gaps = append(gaps, compare(fmt.Sprintf("from %s to %s: ", l.From, l.To), links[at], sent[at], besides[at]))
		}
	}
	gaps = slices.DeleteFunc(gaps, func(g gap) bool { return !g.beyond })
	if len(gaps) == 0 {
		return
	}
	slices.SortStableFunc(gaps, func(a, b gap) int { // all links together first, then the link with the largest difference
		return cmp.Or(cmp.Compare(min(1, len(a.where)), min(1, len(b.where))), cmp.Compare(math.Abs(b.off), math.Abs(a.off)))
	})
	var says []string
	for _, g := range gaps[:min(len(gaps), 2)] {
		says = append(says, fmt.Sprintf("%s%s, they %s (%s)", g.where, formatBytes(g.counted), formatBytes(g.nodes), formatOff(g.off)))
	}
	d.Notes = append(d.Notes, fmt.Sprintf("%s and the nodes disagree on bytes by more than %d%%. It has counted %s. One of them does not see all traffic: is a port left out, or a pod not in it? "+
		"Bytes and cost of this result have no second witness.", w.who(), int(witnessTolerance*100), strings.Join(says, "; ")))
}

// who returns the name of the witness for use in a sentence.
func (w *Witness) who() string {
	switch w.Name {
	case WitnessMesh:
		return "the service mesh"
	case WitnessEmulator:
		return "the emulator of the network"
	}
	return "the nodes"
}

// formatOff formats the relative difference between a witness's bytes and the nodes' bytes.
func formatOff(off float64) string {
	if math.IsInf(off, 1) {
		return "the nodes have sent none"
	}
	return fmt.Sprintf("%+.2f%%", off*100)
}

// witnessRows returns the rows of the table of witnesses, without the reasons why a witness did not count.
func witnessRows(d *Document) [][]string {
	rows := [][]string{{"WITNESS", "BYTES", "PER TRANSACTION", "OFF"}}
	for _, w := range d.Witnesses {
		row := []string{strings.ToLower(string(w.Name)), "not counted", "-", "-"}
		if w.Bytes != nil {
			row[1], row[2] = formatBytes(*w.Bytes), fmt.Sprint(w.BytesPerTransaction)
		}
		if w.OffPPM != nil {
			row[3] = formatOff(float64(*w.OffPPM) / 1e6)
		}
		rows = append(rows, row)
	}
	return rows
}

// Say describes the count of the witness in words.
func (w *Witness) Say() string {
	if w.Bytes == nil {
		return "not counted: " + w.NotCounted
	}
	says := fmt.Sprintf("%s, %d per transaction: %s", formatBytes(*w.Bytes), w.BytesPerTransaction, w.Counts)
	if w.Counters != "" {
		says += " (" + w.Counters + ")"
	}
	if w.OffPPM != nil {
		says += fmt.Sprintf("; %s beside the nodes'", formatOff(float64(*w.OffPPM)/1e6))
	}
	return says
}

// meshBytes returns the witness of a service mesh; nil if no mesh counted bytes.
func (d *Document) meshBytes() *Witness {
	for i := range d.Witnesses {
		if w := &d.Witnesses[i]; w.Name == WitnessMesh && w.Bytes != nil {
			return w
		}
	}
	return nil
}
