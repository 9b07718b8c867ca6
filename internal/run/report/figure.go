package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/chart"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// Figure is a chart with a table of its numbers.
type Figure struct {
	// ID is the base name of the figure's files and its anchor in the page.
	ID, Title, Caption string
	// Header and Rows are the table of numbers below the chart, and the content of the CSV file.
	Header []string
	Rows   [][]string
	// Open is set if the page shows the table without a click, because the table is short.
	Open bool
	// Claims are the claims that use this figure.
	Claims []Claim

	scene *chart.Drawing
}

func (f *Figure) row(cells ...any) {
	var r []string
	for _, c := range cells {
		r = append(r, fmt.Sprint(c))
	}
	f.Rows = append(f.Rows, r)
}

// note appends a sentence to the caption. It does nothing if the sentence is empty.
func (f *Figure) note(sentence string) {
	if sentence != "" {
		f.Caption = strings.TrimSpace(f.Caption + " " + sentence)
	}
}

// ms formats microseconds as milliseconds.
func ms(us int64) string { return fmt.Sprintf("%.3f", float64(us)/1000) }

// quantileMS formats a quantile in milliseconds, for example as 105.400, or as > 140.000 if it is a lower bound. It
// returns "" if there are no transactions.
func quantileMS(q v1alpha1.Quantile) string {
	switch {
	case q == v1alpha1.Quantile{}:
		return ""
	case q.IsBound():
		return "> " + ms(q.Least())
	}
	return ms(q.Least())
}

func simulatedMark(d *result.Document) string {
	if d.Simulated {
		return " (simulated)"
	}
	return ""
}

// figures returns the figures for which a result has data, by ID. It adds prefix to the ID of each figure, but not to
// the map's keys.
func figures(prefix string, d *result.Document) map[string]*Figure {
	out := map[string]*Figure{}
	for _, f := range []*Figure{rtt(d), throughput(d), attempts(d), regionLatency(d), transactionLatency(d), timelineThroughput(d), timelineLoad(d), timelineLatency(d), availability(d),
		traffic(d), onWire(d), cost(d), balance(d, "operations"), balance(d, "data")} {
		if f != nil {
			// The prefix distinguishes the files and anchors of several results, so the keys do not need it.
			out[f.ID] = f
			f.ID = prefix + f.ID
			f.scene.Title += simulatedMark(d)
		}
	}
	return out
}

func rtt(d *result.Document) *Figure {
	f := &Figure{ID: "network", Title: "Round-trip times, declared and measured",
		Caption: "The upright mark is the declared round trip; the box reaches from the measured median to the 99th percentile, before the load. The thin line below is the same at the end of the load, queueing included.",
		Header:  []string{"from", "to", "declared ms", "measured p50 ms", "measured p99 ms", "samples", "loaded p50 ms", "loaded p99 ms"}}
	inMesh := slices.ContainsFunc(d.Links, func(l result.Link) bool { return l.Mesh != nil })
	if inMesh {
		f.Caption += " What the service mesh adds is the difference of two probes that take the same way at the same time, before the load: packets below the mesh, and a connection through it."
		f.Header = append(f.Header, "below the mesh p50 ms", "through it p50 ms", "mesh adds ms")
	}
	c := &chart.Rows{Title: f.Title, XLabel: "round trip in ms"}
	for _, l := range d.Links {
		// Omit a link without measurements.
		if l.Samples == 0 {
			continue
		}
		m := l.MeasuredRTTMicroseconds
		declared := float64(l.DeclaredRTTMicroseconds) / 1000
		p50, p99 := float64(m.P50)/1000, float64(m.P99)/1000
		r := chart.Row{Name: linkName(&l), Mark: &declared, Box: []float64{p50, p50, p50, p99, p99},
			Value: fmt.Sprintf("%.1f (declared %.1f) ms", p50, declared)}
		loaded50, loaded99 := "", ""
		if o := l.LoadedRTTMicroseconds; o != nil {
			r.Thin = []float64{float64(o.P50) / 1000, float64(o.P99) / 1000}
			loaded50, loaded99 = ms(o.P50), ms(o.P99)
		}
		c.Rows = append(c.Rows, r)
		cells := []any{l.From, l.To, ms(l.DeclaredRTTMicroseconds), ms(m.P50), ms(m.P99), l.Samples, loaded50, loaded99}
		if inMesh {
			// All rows need the same number of cells, even if a link has no mesh measurements.
			mesh := []any{"", "", ""}
			if l.Mesh != nil {
				mesh = []any{ms(l.Mesh.BelowRTTMicroseconds), ms(l.Mesh.ThroughRTTMicroseconds), ms(l.Mesh.AddedRTTMicroseconds)}
			}
			cells = append(cells, mesh...)
		}
		f.row(cells...)
	}
	if len(c.Rows) == 0 {
		return nil
	}
	c.About = fmt.Sprintf("Declared and measured round trips of %d directed links.", len(c.Rows))
	f.scene = c.Draw()
	return f
}

func linkName(l *result.Link) string {
	if l.From == l.To {
		return "inside " + l.From
	}
	return l.From + " → " + l.To
}

func throughput(d *result.Document) *Figure {
	f := &Figure{ID: "throughput", Title: "Throughput by region of the clients", Open: true,
		Header: []string{"region", "committed per second", "committed", "aborted", "refused", "unknown", "abort share"}}
	c := &chart.Rows{Title: f.Title, XLabel: "committed transactions per second"}
	if d.Spec.Load.Retry != nil {
		f.Caption = "The upright mark is attempts per second: each transaction counts once, however often it was tried."
	}
	var about []string
	for i, r := range d.Regions {
		perSecond := d.Rate(r.ThroughputPerSecond, r.Committed+r.CarriedIn)
		line := chart.Row{Name: r.Name, Class: i, Bar: float64(r.ThroughputPerSecond), Value: perSecond + "/s"}
		if d.Spec.Load.Retry != nil {
			attempts := float64(r.Attempts.PerSecond)
			line.Mark, line.Value = &attempts, fmt.Sprintf("%s of %d/s", perSecond, r.Attempts.PerSecond)
		}
		c.Rows = append(c.Rows, line)
		f.row(r.Name, perSecond, r.Committed, r.Aborted, r.Refused, r.Unknown, percent(r.AbortPPM))
		about = append(about, r.Name+" "+perSecond+" per second")
	}
	if len(c.Rows) == 0 {
		return nil
	}
	f.note(d.ServedText())
	c.About = words(about...)
	f.scene = c.Draw()
	return f
}

// attempts returns a chart of the number of attempts that committed transactions needed. It returns nil if clients do
// not retry.
func attempts(d *result.Document) *Figure {
	if d.Spec.Load.Retry == nil {
		return nil
	}
	f := &Figure{ID: "attempts", Title: "Transactions by the attempts until they committed", Open: true,
		Caption: "Bars: committed transactions of all regions. The table has what became of the attempts themselves: one that was tried again counts there, too.",
		Header:  []string{"region", "attempts per second", "attempts", "committed", "aborted", "refused", "unknown", "retried", "conflict", "node", "procedure", "client"}}
	c := &chart.Rows{Title: f.Title, XLabel: "committed transactions"}
	all := &d.Summary.Attempts
	after := all.CommittedAfter
	// Remove trailing columns without committed transactions, but keep at least one column.
	for len(after) > 1 && after[len(after)-1] == 0 {
		after = after[:len(after)-1]
	}
	for i, n := range after {
		f.Header = append(f.Header, fmt.Sprintf("after %d", i+1))
		c.Rows = append(c.Rows, chart.Row{Name: fmt.Sprintf("after %d", i+1), Bar: float64(n), Value: fmt.Sprint(n)})
	}
	if len(c.Rows) == 0 {
		return nil
	}
	add := func(name string, a *result.Attempts) {
		cells := []any{name, a.PerSecond, a.Ended(), a.Committed, a.Aborted, a.Refused, a.Unknown, a.Retried}
		for _, cause := range []txn.Cause{txn.CauseConflict, txn.CauseNode, txn.CauseProcedure, txn.CauseClient} {
			cells = append(cells, a.Causes[cause.String()])
		}
		for i := range after {
			n := int64(0)
			if i < len(a.CommittedAfter) { // a region with unknown windows has no counts
				n = a.CommittedAfter[i]
			}
			cells = append(cells, n)
		}
		f.row(cells...)
	}
	for i := range d.Regions {
		add(d.Regions[i].Name, &d.Regions[i].Attempts)
	}
	add("all", all)
	c.About = fmt.Sprintf("%d attempts per second for %d committed transactions per second; the table below has the numbers.", all.PerSecond, d.Summary.ThroughputPerSecond)
	f.scene = c.Draw()
	return f
}

// words joins parts into a text that describes a chart to readers who cannot see it.
func words(parts ...string) string { return strings.Join(parts, "; ") + "." }

func percent(ppm int64) string { return fmt.Sprintf("%.4g%%", float64(ppm)/1e4) }

// quantiles are the percentages at which the curve of a distribution has points.
var quantiles = func() (q []float64) {
	for p := 0.5; p <= 99; p += 0.5 {
		q = append(q, p)
	}
	return append(q, 99.2, 99.4, 99.6, 99.8, 99.9, 99.95, 99.99, 100)
}()

func regionLatency(d *result.Document) *Figure {
	f := &Figure{ID: "latency-cdf", Title: "Latency by region of the clients",
		Caption: "Share of transactions that committed within a time, from when they were due. A curve that ends in " +
			"an arrow is of a region whose other transactions were not answered within the time at which it ends. " +
			"Values after > are lower bounds.",
		Header: []string{"region", "p50 ms", "p90 ms", "p95 ms", "p99 ms", "max ms", "mean ms"}}
	c := &chart.Lines{Title: f.Title, XLabel: "latency in ms (logarithmic)", YLabel: "% of transactions", LogX: true, Top: 100}
	var about []string
	for i, r := range d.Regions {
		l := r.LatencyMicroseconds
		f.row(r.Name, quantileMS(l.P50), quantileMS(l.P90), quantileMS(l.P95), quantileMS(l.P99), quantileMS(l.Max), quantileMS(l.Mean))
		h := d.Latencies(func(s *result.HistogramSeries) bool { return s.Region == r.Name })
		// A region without samples stays in the table but has no curve.
		if h.Samples() == 0 {
			continue
		}
		c.Series = append(c.Series, distribution(r.Name, i, h))
		about = append(about, fmt.Sprintf("%s: median %s ms, 99th percentile %s ms", r.Name, quantileMS(l.P50), quantileMS(l.P99)))
	}
	if len(c.Series) == 0 {
		return nil
	}
	c.About = words(about...)
	f.scene = c.Draw()
	return f
}

// distribution returns the curve of a region: the percentage of transactions that committed within a given time. If
// some transactions were not answered, the curve stops below 100%, with an arrow at the longest known time. If a
// backlog grew, all values are lower bounds, and only the arrow is drawn.
func distribution(region string, number int, h *result.Latencies) chart.Series {
	line := chart.Series{Name: region, Class: number}
	for k, q := range h.Quantiles(quantiles...) {
		// The axis is logarithmic, so draw 0 µs as 1 µs.
		p := chart.Point{X: float64(max(q.Least(), 1)) / 1000, Y: quantiles[k]}
		n := len(line.Points)
		if line.Open = q.IsBound(); line.Open {
			p.Y = 0
			// Start the arrow at the last known share.
			if n > 0 {
				p.Y = line.Points[n-1].Y
			}
			line.Points = append(line.Points, p)
			return line
		}
		// If several quantiles have the same latency, draw only the first and the last one, which yields a vertical line.
		if n > 1 && line.Points[n-1].X == p.X && line.Points[n-2].X == p.X {
			line.Points[n-1] = p
			continue
		}
		line.Points = append(line.Points, p)
	}
	return line
}

// distinct returns the distinct values in order of first appearance.
func distinct[T any](items []T, of func(T) string) []string {
	var out []string
	for _, i := range items {
		if v := of(i); !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func transactionLatency(d *result.Document) *Figure {
	f := &Figure{ID: "latency-box", Title: "Latency by transaction and region",
		Caption: "Box: 25th, 50th and 75th percentile; whiskers: 1st and 99th. A percentile after > is a lower bound: more transactions were not answered than it leaves out.",
		Header:  []string{"transaction", "region", "committed", "aborted", "other", "p1 ms", "p25 ms", "p50 ms", "p75 ms", "p99 ms"}}
	c := &chart.Rows{Title: f.Title, XLabel: "latency in ms (logarithmic)", Log: true}
	for _, typ := range distinct(d.Transactions, func(t result.Transaction) string { return t.Type }) {
		c.Rows = append(c.Rows, chart.Row{Name: typ, Head: true})
		for i, r := range d.Regions {
			var committed, aborted, other int64
			for _, t := range d.Transactions {
				if t.Type == typ && t.Region == r.Name {
					committed += t.Committed
					aborted += total(t.Aborted)
					other += total(t.Refused) + total(t.Unknown)
				}
			}
			h := d.Latencies(func(s *result.HistogramSeries) bool { return s.Type == typ && s.Region == r.Name })
			// Some types have no committed transaction in some regions.
			if h.Samples() == 0 {
				// List the type in the table if it has transactions without a latency.
				if committed+aborted+other > 0 {
					f.row(typ, r.Name, committed, aborted, other, "", "", "", "", "")
				}
				continue
			}
			v := h.Quantiles(1, 25, 50, 75, 99)
			line := chart.Row{Name: r.Name, Class: i, Value: result.FormatQuantile(v[2]), LowerBound: v[4].IsBound()}
			for _, x := range v {
				line.Box = append(line.Box, max(float64(x.Least()), 1)/1000)
			}
			c.Rows = append(c.Rows, line)
			f.row(typ, r.Name, committed, aborted, other, quantileMS(v[0]), quantileMS(v[1]), quantileMS(v[2]), quantileMS(v[3]), quantileMS(v[4]))
		}
		// Remove the heading of a type that has no box in any region.
		if c.Rows[len(c.Rows)-1].Head {
			c.Rows = c.Rows[:len(c.Rows)-1]
		}
	}
	if len(c.Rows) == 0 {
		return nil
	}
	c.About = fmt.Sprintf("Box plots of the latency of %d pairs of transaction and region; the table below has the numbers.", len(f.Rows))
	f.scene = c.Draw()
	return f
}

func total(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

// maxBins is the maximum number of bins of a timeline.
const maxBins = 300

// larger returns the larger of two quantiles.
func larger(a, b v1alpha1.Quantile) v1alpha1.Quantile {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// availability returns a chart that compares the throughput before and during each fault.
func availability(d *result.Document) *Figure {
	f := &Figure{ID: "availability", Title: "What the faults did", Open: true,
		Caption: "Throughput before (mark) and during each fault (bar), of all regions and of the one that it hit hardest, and, while what it took comes back, mending. Resilience R = 1 - |during - before| / before; recovery T = 1 / (seconds until 95% again + 1), as Dike defines them.",
		Header:  []string{"fault", "kind", "from s", "to s", "before/s", "during/s", "mending/s", "R", "T", "detected after s", "recovered after s", "longest outage s", "aborted", "failed"}}
	c := &chart.Rows{Title: f.Title, XLabel: "committed transactions per second"}
	var about []string
	for i := range d.Faults {
		x := &d.Faults[i]
		cells := []any{x.Name, x.Kind, instant(x.FromMicroseconds, "never"), instant(x.ToMicroseconds, "stays")}
		a := x.Availability
		// A fault without a comparison still has a row in the table.
		if a == nil {
			f.row(append(cells, "", "", "", "", "", "", "", "", "", "")...)
			continue
		}
		add := func(name string, a *result.Availability, cells ...any) {
			recovery := ""
			if a.TPPM != nil {
				recovery = share(*a.TPPM)
			}
			var mending any = ""
			if a.MendingPerSecond != nil {
				mending = *a.MendingPerSecond
			}
			f.row(append(cells, a.NormalPerSecond, a.FaultPerSecond, mending, share(a.RPPM), recovery,
				instant(a.DetectMicroseconds, "no"), instant(a.RecoverMicroseconds, "no"), instant(&a.OutageMicroseconds, ""),
				a.Aborted, a.Failed)...)
			normal := float64(a.NormalPerSecond)
			c.Rows = append(c.Rows, chart.Row{Name: name, Class: 1, Mark: &normal, Bar: float64(a.FaultPerSecond),
				Value: fmt.Sprintf("%d of %d/s, R %s", a.FaultPerSecond, a.NormalPerSecond, share(a.RPPM))})
		}
		add(x.Name, a, cells...)
		for _, w := range d.WorstRegions(i) {
			add("in "+w.Region, w.Availability, x.Name, "in "+w.Region, "", "")
		}
		about = append(about, fmt.Sprintf("%s: %d of %d per second", x.Name, a.FaultPerSecond, a.NormalPerSecond))
	}
	if len(c.Rows) == 0 {
		return nil
	}
	c.About = words(about...)
	f.scene = c.Draw()
	return f
}

func share(ppm int64) string { return fmt.Sprintf("%.2f", float64(ppm)/1e6) }

// configuredClass is the color class of configured values. No region uses it.
const configuredClass = 7

func traffic(d *result.Document) *Figure {
	f := &Figure{ID: "traffic", Title: "Bytes sent between regions", Header: []string{"from", "to", "bytes", "messages", "bytes per message"},
		Caption: "From before the first warm-up until after the last answer; inside a region: between its nodes."}
	c := &chart.Rows{Title: f.Title, XLabel: "bytes"}
	for _, l := range d.Links {
		if l.Messages == 0 {
			continue
		}
		class := 0
		// Draw traffic within a region in gray, so that traffic between regions stands out.
		if l.From == l.To {
			class = 6
		}
		c.Rows = append(c.Rows, chart.Row{Name: linkName(&l), Class: class, Bar: float64(l.Bytes), Value: byteCount(l.Bytes)})
		f.row(l.From, l.To, l.Bytes, l.Messages, l.Bytes/l.Messages)
	}
	if len(c.Rows) == 0 {
		return nil
	}
	f.note(d.LeastFigures())
	c.About = fmt.Sprintf("%d bytes and %d between regions for each committed transaction.", d.Summary.BytesPerTransaction, d.Summary.CrossRegionBytesPerTransaction)
	f.scene = c.Draw()
	return f
}

// onWire returns a chart of the parts of a transaction's bytes on the wire, as counted by network cards.
func onWire(d *result.Document) *Figure {
	w := d.Summary.Wire
	if w == nil {
		return nil
	}
	f := &Figure{ID: "wire", Title: "Bytes on the wire for each transaction", Header: []string{"part", "bytes"},
		Caption: "Committed transactions; inside regions, too. Headers are Ethernet's, IP's and TCP's of each segment, without acknowledgements alone and retransmissions."}
	c := &chart.Rows{Title: f.Title, XLabel: "bytes per committed transaction"}
	for i, part := range []struct {
		name string
		of   int64
	}{
		{"messages between nodes", w.MessageBytesPerTransaction}, {"requests of clients", w.RequestBytesPerTransaction},
		{"answers to clients", w.AnswerBytesPerTransaction}, {"headers", w.HeaderBytesPerTransaction}, {"together", w.BytesPerTransaction},
	} {
		c.Rows = append(c.Rows, chart.Row{Name: part.name, Class: i, Bar: float64(part.of), Value: byteCount(part.of)})
		f.row(part.name, part.of)
	}
	f.note(d.LeastFigures())
	c.About = fmt.Sprintf("%d bytes together, %d of them sent by nodes.", w.BytesPerTransaction, w.SentBytesPerTransaction)
	f.scene = c.Draw()
	return f
}

func byteCount(n int64) string { return chart.Short(float64(n)) + "B" }

func cost(d *result.Document) *Figure {
	o := d.Summary.Cost
	if o.PerMillionTransactions == 0 {
		return nil
	}
	f := &Figure{ID: "cost", Title: "Cost of a million transactions", Header: []string{"part", o.Currency},
		Caption: fmt.Sprintf("Machines: each node on one %s. Prices: %s, %s.", o.Instance, o.PriceSource, o.PriceDate)}
	c := &chart.Rows{Title: f.Title, XLabel: o.Currency + " per million committed transactions"}
	for i, part := range []struct {
		name string
		of   result.Micros
	}{{"machines", o.MachinesPerMillionTransactions}, {"transfer between regions", o.TransferPerMillionTransactions}, {"together", o.PerMillionTransactions}} {
		c.Rows = append(c.Rows, chart.Row{Name: part.name, Class: i, Bar: float64(part.of) / 1e6, Value: fmt.Sprintf("%.4f %s", float64(part.of)/1e6, o.Currency)})
		f.row(part.name, part.of)
	}
	f.note(d.LeastFigures())
	c.About = fmt.Sprintf("%s %s together.", o.PerMillionTransactions, o.Currency)
	f.scene = c.Draw()
	return f
}

// balance returns a chart of how data or operations are distributed over the nodes of each region, and over the nodes
// of all regions.
func balance(d *result.Document, what string) *Figure {
	f := &Figure{ID: "balance-" + what, Header: []string{"node", "operations", "rows", "data bytes", "CPU ms", "peak memory bytes"},
		Title: "Operations on keys per node", Caption: "One dot per node; box: 25th, 50th and 75th percentile of the nodes, whiskers: least and most."}
	of, xLabel := func(n *result.Node) int64 { return n.Operations }, "operations during the run"
	if what == "data" {
		f.Title, of, xLabel = "Data per node", func(n *result.Node) int64 { return n.DataBytes }, "bytes"
	}
	c := &chart.Rows{Title: f.Title, XLabel: xLabel}
	groups := map[string][]float64{}
	var all []float64
	for i := range d.Nodes {
		n := &d.Nodes[i]
		region, _, _ := strings.Cut(n.Name, "/")
		groups[region] = append(groups[region], float64(of(n)))
		all = append(all, float64(of(n)))
		f.row(n.Name, n.Operations, n.Rows, n.DataBytes, n.CPUMilliseconds, n.PeakMemoryBytes)
	}
	// A distribution needs at least two nodes and a value greater than 0.
	if len(all) < 2 || slices.Max(all) == 0 {
		return nil
	}
	add := func(name string, class int, v []float64) {
		r := chart.Row{Name: name, Class: class, Dots: v, Box: result.Quartiles(v)}
		// The ratio is undefined if the smallest value is 0.
		if low := r.Box[0]; low > 0 {
			r.Value = fmt.Sprintf("most / least %.2f", r.Box[4]/low)
		}
		c.Rows = append(c.Rows, r)
	}
	for i, r := range d.Regions {
		if len(groups[r.Name]) > 0 {
			add(r.Name, i, groups[r.Name])
		}
	}
	add("all nodes", 6, all)
	c.About = fmt.Sprintf("Box plots over %d nodes; the table below has the numbers.", len(all))
	f.scene = c.Draw()
	return f
}

// overview returns two charts that compare several results. It returns nil if there is only one result.
func overview(docs []*result.Document) []*Figure {
	if len(docs) < 2 {
		return nil
	}
	tput := &Figure{ID: "overview-throughput", Title: "Throughput of all runs", Header: []string{"run", "committed per second"}}
	lat := &Figure{ID: "overview-latency", Title: "Latency of all runs", Header: []string{"run", "p50 ms", "p90 ms", "p99 ms"},
		Caption: "Box: from the median to the 90th percentile; whisker: the 99th."}
	a := &chart.Rows{Title: tput.Title, XLabel: "committed transactions per second"}
	b := &chart.Rows{Title: lat.Title, XLabel: "latency in ms (logarithmic)", Log: true}
	for i, d := range docs {
		s := &d.Summary
		name := d.Name + simulatedMark(d)
		perSecond := d.Rate(s.ThroughputPerSecond, s.Committed+s.CarriedIn)
		a.Rows = append(a.Rows, chart.Row{Name: name, Class: i, Bar: float64(s.ThroughputPerSecond),
			Value: perSecond + "/s"})
		tput.row(name, perSecond)
		l := s.LatencyMicroseconds
		lat.row(name, quantileMS(l.P50), quantileMS(l.P90), quantileMS(l.P99))
		// A run without commits has no latency.
		if l != (result.Latency{}) {
			p50, p90, p99 := float64(max(l.P50.Least(), 1))/1000, float64(max(l.P90.Least(), 1))/1000, float64(max(l.P99.Least(), 1))/1000
			b.Rows = append(b.Rows, chart.Row{Name: name, Class: i, Box: []float64{p50, p50, p50, p90, p99},
				LowerBound: l.P99.IsBound(),
				Value:      fmt.Sprintf("p50 %s, p99 %s", result.FormatQuantile(l.P50), result.FormatQuantile(l.P99))})
		}
	}
	a.About, b.About = "Bars of the throughput of each run.", "Median, 90th and 99th percentile of each run."
	tput.scene = a.Draw()
	out := []*Figure{tput}
	if len(b.Rows) > 0 {
		lat.scene = b.Draw()
		out = append(out, lat)
	}
	return out
}
