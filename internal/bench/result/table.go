package result

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
)

// tableWidth is the maximum length of a line in a table.
const tableWidth = 100

// Table writes the document as text: verdict, regions, transactions, network and checks. If wide is set, it adds
// classes, nodes, workers and cost details. Lines have at most 100 columns and no control codes.
func Table(w io.Writer, d *Document, wide bool) error {
	b := &strings.Builder{}
	simulated := ""
	if d.Simulated {
		simulated = "  SIMULATED"
	}
	line(b, "%s: %s%s", d.Name, d.Verdict, simulated)
	for _, r := range d.Reasons {
		wrapped(b, "  "+r.Reason+": ", r.Message)
	}
	homes := ""
	if d.Homes > 0 {
		homes = fmt.Sprintf(" (rows at home in the first %d)", d.Homes)
	}
	line(b, "%s, %s, seed %d, %d regions%s x %d partitions x %d replicas, %s", d.Engine, d.Workload, d.Seed,
		len(d.Regions), homes, d.PartitionsPerRegion, d.ReplicasPerPartition, load(d))
	if d.Target != nil {
		line(b, "a target that %s", d.Target)
		if where := d.Target.Where(); where != "" {
			line(b, "%s", where)
		}
	}
	for _, t := range d.FunctionalTests {
		line(b, "functional test %s passed with %d committed, in %s", t.Name, t.Committed, t.Run)
	}
	for _, why := range d.disagreements() {
		wrapped(b, "", "WARNING: edited, or of another version: "+why)
	}
	line(b, "")

	rows := [][]string{{"REGION", "TXN/S", "P50", "P90", "P95", "P99", "MAX", "COMMITTED", "ABORTED", "OTHER"}}
	row := func(name string, perSecond, committed int64, l Latency, c Counts) {
		rows = append(rows, slices.Concat([]string{name, d.Rate(perSecond, committed)}, l.cells(l.P50, l.P90, l.P95,
			l.P99, l.Max),
			[]string{fmt.Sprint(c.Committed), c.abortCell(), fmt.Sprint(c.Refused + c.Unknown)}))
	}
	for _, r := range d.Regions {
		row(r.Name, r.ThroughputPerSecond, r.Committed+r.CarriedIn, r.LatencyMicroseconds, r.Counts)
	}
	row("all", d.Summary.ThroughputPerSecond, d.Summary.Committed+d.Summary.CarriedIn, d.Summary.LatencyMicroseconds,
		d.Summary.Counts)
	grid(b, rows)
	if s := d.Summary.ServiceTimeMicroseconds; s != nil {
		line(b, "service time, from when a transaction was sent: p50 %s, p90 %s, p99 %s", FormatQuantile(s.P50), FormatQuantile(s.P90), FormatQuantile(s.P99))
	}
	if text := d.ServedText(); text != "" {
		line(b, "%s", text)
	}
	if r := d.Spec.Load.Retry; r != nil {
		line(b, "")
		line(b, "%s", r.Describe())
		grid(b, attemptRows(d))
	}
	for i := range d.Regions {
		// Percentiles alone would hide how many transactions got no answer.
		if r := &d.Regions[i]; r.Unknown+r.Hung+r.Unsent() > 0 {
			wrapped(b, "", r.withoutAnswer())
		}
	}
	if m := d.Median; m != nil {
		line(b, "")
		rows = [][]string{{"REPETITION", "TXN/S", "P50", "P90", "P99", "COMMITTED", "ABORTED"}}
		for _, r := range append(append([]Repetition(nil), d.Repetitions...), *m) {
			name := fmt.Sprint(r.Index)
			if r.Index == 0 {
				name = "median"
			}
			l := r.LatencyMicroseconds
			rows = append(rows, slices.Concat([]string{name, fmt.Sprint(r.ThroughputPerSecond)}, l.cells(l.P50, l.P90, l.P99),
				[]string{fmt.Sprint(r.Committed), r.abortCell()}))
		}
		grid(b, rows)
	}

	line(b, "")
	head := []string{"TRANSACTION", "REGION", "COMMITTED", "ABORTED", "OTHER", "P50", "P90", "P99"}
	if d.Spec.Load.Retry != nil {
		head = append(head, "ATTEMPTS")
	}
	if wide {
		head = append([]string{head[0], "CLASS"}, head[1:]...)
	}
	rows = [][]string{head}
	for _, t := range byType(d, wide) {
		l := t.latency()
		r := append([]string{t.typ, t.region, fmt.Sprint(t.committed), fmt.Sprint(t.aborted), fmt.Sprint(t.other)},
			l.cells(l.P50, l.P90, l.P99)...)
		if d.Spec.Load.Retry != nil {
			r = append(r, fmt.Sprint(t.attempts))
		}
		if wide {
			r = append([]string{r[0], t.class}, r[1:]...)
		}
		rows = append(rows, r)
	}
	grid(b, rows)

	rows = [][]string{{"FROM", "TO", "DECLARED RTT", "MEASURED P50", "P99", "BYTES"}}
	inMesh := slices.ContainsFunc(d.Links, func(l Link) bool { return l.Mesh != nil })
	if inMesh {
		rows[0] = append(rows[0], "MESH ADDS")
	}
	for _, l := range d.Links {
		// A region with a single node has no internal link.
		if l.From == l.To && l.Samples == 0 && !wide {
			continue
		}
		p50, p99 := "-", "-"
		if l.Samples > 0 {
			p50, p99 = formatMicroseconds(l.MeasuredRTTMicroseconds.P50), formatMicroseconds(l.MeasuredRTTMicroseconds.P99)
		}
		row := []string{l.From, l.To, formatMicroseconds(l.DeclaredRTTMicroseconds), p50, p99, formatBytes(l.Bytes)}
		if inMesh {
			added := "-"
			if l.Mesh != nil {
				added = formatMicroseconds(l.Mesh.AddedRTTMicroseconds)
			}
			row = append(row, added)
		}
		rows = append(rows, row)
	}
	if len(rows) > 1 {
		line(b, "")
		grid(b, rows)
	}

	if rows := faultRows(d); rows != nil {
		line(b, "")
		grid(b, rows)
		for _, note := range faultNotes(d) {
			wrapped(b, "  ", note)
		}
	}

	s := &d.Summary
	line(b, "")
	if text := s.TpmCInWords(); text != "" {
		line(b, "%s", text)
	}
	for _, mix := range s.Realised.Mix() {
		wrapped(b, "", mix)
	}
	told := len(d.Nodes) > 0 // whether bytes, resources and costs of the database are known
	least := ""
	if why := d.LeastFigures(); why != "" {
		least = "at least "
		wrapped(b, "", why)
	}
	if told {
		line(b, "per transaction: %s%d bytes, %d of them between regions; %d us of CPU; per million: %s %s",
			least, s.BytesPerTransaction, s.CrossRegionBytesPerTransaction, s.CPUMicrosecondsPerTransaction,
			s.Cost.PerMillionTransactions, s.Cost.Currency)
	}
	if w := s.Wire; w != nil {
		line(b, "on the wire: %s%d bytes (%d of messages, %d of requests, %d of answers, %d of headers); an hour with all that nodes send: %s %s",
			least, w.BytesPerTransaction, w.MessageBytesPerTransaction, w.RequestBytesPerTransaction, w.AnswerBytesPerTransaction, w.HeaderBytesPerTransaction,
			w.CostPerHour, s.Cost.Currency)
	}
	if len(d.Witnesses) > 0 {
		line(b, "")
		grid(b, witnessRows(d))
		// A missing count needs its reason even in the short table.
		for i := range d.Witnesses {
			if w := &d.Witnesses[i]; wide || w.Bytes == nil {
				wrapped(b, "  "+strings.ToLower(string(w.Name))+": ", w.Say())
			}
		}
	}
	for _, note := range d.Notes {
		wrapped(b, "note: ", note)
	}
	if wide && told {
		line(b, "cost: machines %s (%s), transfer %s; prices of %s", s.Cost.MachinesPerMillionTransactions, s.Cost.Instance,
			s.Cost.TransferPerMillionTransactions, s.Cost.PriceDate)
	}
	if wide {
		line(b, "carried in %d, unfinished %d, discarded %d, timeouts %d, late %d", s.CarriedIn, s.Unfinished, s.Discarded, s.Timeouts, s.Late)
		if len(d.Nodes) > 0 {
			line(b, "")
			rows = [][]string{{"NODE", "CPU", "PEAK MEMORY", "DATA", "ROWS", "OPERATIONS"}}
			for _, n := range d.Nodes {
				cpu, memory := seconds(n.CPUMilliseconds), formatBytes(n.PeakMemoryBytes)
				// The CPU time and memory of a shared process belong to no single node.
				if d.Process != nil {
					cpu, memory = "-", "-"
				}
				rows = append(rows, []string{n.Name, cpu, memory, formatBytes(n.DataBytes), fmt.Sprint(n.Rows), fmt.Sprint(n.Operations)})
			}
			if d.Process != nil {
				rows = append(rows, []string{"this process", seconds(d.Process.CPUMilliseconds), formatBytes(d.Process.PeakMemoryBytes), "", "", ""})
			}
			grid(b, rows)
		}
		line(b, "")
		rows = [][]string{{"WORKER", "CLIENTS", "CPU SHARE", "LATE P50", "P99", "PEAK MEMORY"}}
		for _, x := range d.Workers {
			share, p50, p99 := "-", "-", "-"
			if x.CPUSharePPM != nil {
				share = formatPPM(*x.CPUSharePPM)
			}
			if late := x.LateMicroseconds; late != nil {
				p50, p99 = formatMicroseconds(late.P50), formatMicroseconds(late.P99)
			}
			rows = append(rows, []string{fmt.Sprintf("%s/%d", x.Region, x.Index), fmt.Sprint(x.Clients), share, p50, p99, formatBytes(x.PeakMemoryBytes)})
		}
		grid(b, rows)
	}
	d.tableEvidence(b, wide)
	if len(d.Checks)+len(d.Objectives) > 0 {
		line(b, "")
	}
	for _, o := range d.Objectives {
		// An undecided objective is neither ok nor FAIL.
		if o.Undecided != "" {
			wrapped(b, "?     ", fmt.Sprintf("%s: measured %s: %s", o.Name, o.Measured, o.Undecided))
			continue
		}
		wrapped(b, mark(o.Holds), fmt.Sprintf("%s: measured %s", o.Name, o.Measured))
	}
	for _, c := range d.Checks {
		wrapped(b, mark(c.Passed), c.Name+": "+c.Message)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// attemptRows returns the rows of the table of attempts: the rate, the number per committed transaction, and the
// outcomes. The last columns are the shares of committed transactions with one, two, or more attempts.
func attemptRows(d *Document) [][]string {
	rows := [][]string{{"REGION", "ATTEMPTS/S", "PER COMMIT", "ABORTED", "CONFLICT", "NODE", "RETRIED", "IN 1", "IN 2", "IN MORE"}}
	row := func(name string, a *Attempts) {
		perCommit := "-"
		if a.Committed > 0 {
			perCommit = fmt.Sprintf("%.2f", float64(a.Ended())/float64(a.Committed))
		}
		cells := []string{name, fmt.Sprint(a.PerSecond), perCommit, formatPPM(a.AbortPPM), fmt.Sprint(a.Causes[txn.CauseConflict.String()]),
			fmt.Sprint(a.Causes[txn.CauseNode.String()]), fmt.Sprint(a.Retried)}
		var after [3]int64
		var all int64
		for i, n := range a.CommittedAfter {
			// The last column combines three and more attempts.
			after[min(i, 2)] += n
			all += n
		}
		for _, n := range after {
			share := "-"
			if all > 0 {
				share = formatPPM(ratio(all, 1, n, 1e6))
			}
			cells = append(cells, share)
		}
		rows = append(rows, cells)
	}
	for i := range d.Regions {
		row(d.Regions[i].Name, &d.Regions[i].Attempts)
	}
	row("all", &d.Summary.Attempts)
	return rows
}

func load(d *Document) string {
	l := d.Spec.Load
	clients := fmt.Sprintf("%d clients per region", l.ClientsPerRegion)
	if l.RatePerSecond > 0 {
		clients = fmt.Sprintf("%s %d/s per region", strings.ToLower(string(l.Arrival)), l.RatePerSecond)
	}
	if l.Curve != nil {
		clients += " " + l.Curve.Describe()
	}
	if l.Repetitions > 1 {
		return fmt.Sprintf("%s, %d x %s", clients, l.Repetitions, l.Duration)
	}
	return fmt.Sprintf("%s, %s", clients, l.Duration)
}

func seconds(milliseconds int64) string { return fmt.Sprintf("%.3fs", float64(milliseconds)/1000) }

func mark(ok bool) string {
	if ok {
		return "ok    "
	}
	return "FAIL  "
}

type typeRow struct {
	typ, class, region        string
	committed, aborted, other int64
	attempts                  int64
	latencies                 tally
	single                    Latency
}

func (t *typeRow) latency() Latency {
	if t.latencies.samples() == 0 {
		return t.single
	}
	return t.latencies.latency()
}

// byType returns the transactions, with classes merged unless wide is set. Latencies of merged classes come from the
// document's histograms. Without histograms, they are the latencies of the class with the most commits.
func byType(d *Document, wide bool) []*typeRow {
	var rows []*typeRow
	type key struct{ typ, class, region string }
	index := map[key]*typeRow{}
	most := map[*typeRow]int64{}
	for _, t := range d.Transactions {
		k := key{t.Type, t.Class, t.Region}
		if !wide {
			k.class = ""
		}
		r := index[k]
		if r == nil {
			r = &typeRow{typ: t.Type, class: k.class, region: t.Region}
			index[k] = r
			rows = append(rows, r)
		}
		committed, aborted, other := t.total()
		r.committed, r.aborted, r.other = r.committed+committed, r.aborted+aborted, r.other+other
		committed, aborted, other = t.Attempts.total()
		r.attempts += committed + aborted + other
		// Percentiles of several classes cannot be averaged, so the class with the most commits represents the type.
		if r.single == (Latency{}) || t.Committed > most[r] {
			most[r], r.single = t.Committed, t.LatencyMicroseconds
		}
	}
	if wide {
		return rows
	}
	// Percentiles of classes cannot be averaged, so their histograms are merged.
	for i := range d.Histograms.Series {
		s := &d.Histograms.Series[i]
		if r := index[key{s.Type, "", s.Region}]; r != nil {
			if one, err := d.decode(s); err == nil {
				r.latencies.merge(&one)
			}
		}
	}
	return rows
}

func formatBytes(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// line writes a line, truncated to tableWidth.
func line(b *strings.Builder, format string, args ...any) {
	s := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	if len(s) > tableWidth {
		s = s[:tableWidth-3] + "..."
	}
	b.WriteString(s)
	b.WriteByte('\n')
}

// wrapped writes text after a prefix and wraps it at spaces. Further lines are indented by the length of the prefix, at
// most 8.
func wrapped(b *strings.Builder, prefix, text string) {
	indent := min(len(prefix), 8)
	l := prefix
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && len(l)+1+len(word) > tableWidth {
			line(b, "%s", l)
			l, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			l += " "
		}
		l += word
		empty = false
	}
	line(b, "%s", l)
}

// grid writes a table. It left-aligns the first column, and every other column whose first value does not start with a
// digit.
func grid(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	left := make([]bool, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], len(c))
		}
	}
	for i := range left {
		left[i] = i == 0 || len(rows) > 1 && rows[1][i] != "" && rows[1][i] != "-" && (rows[1][i][0] < '0' || rows[1][i][0] > '9')
	}
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-len(c))
			if left[i] {
				cells[i] = c + pad
			} else {
				cells[i] = pad + c
			}
		}
		line(b, "%s", strings.Join(cells, "  "))
	}
}
