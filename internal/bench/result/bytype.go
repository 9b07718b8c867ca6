package result

import "slices"

// TypeFigures holds the figures of the transactions of one type.
type TypeFigures struct {
	Type string
	// Region is the clients' region; empty for all regions together.
	Region string
	// Counts covers the transactions that were due and ended in the measured windows. Attempts covers the attempts that
	// ended in the windows.
	Counts
	Attempts Counts
	// AbortedAttempts counts the aborted attempts by reason.
	AbortedAttempts map[string]int64
	// Seconds is the total length of the windows.
	Seconds float64
	// LatencyMicroseconds is the latency of the committed transactions, from the merged histograms of all classes.
	LatencyMicroseconds Latency
	// Hung is the number of hung transactions of this type: see Unanswered.Hung.
	Hung int64
}

// typeKey identifies the figures of one type in one region, or in all regions if region is empty.
type typeKey struct{ typ, region string }

// ByType returns the figures of each type, for all regions together and for each region, in the order of
// d.Transactions. It fails if a histogram cannot be decoded.
func (d *Document) ByType() ([]TypeFigures, error) {
	if d.Types != nil {
		return d.Types, nil
	}
	type class struct{ typ, class, region string }
	series := map[class]*HistogramSeries{}
	for i := range d.Histograms.Series {
		s := &d.Histograms.Series[i]
		series[class{s.Type, s.Class, s.Region}] = s
	}
	var out []TypeFigures
	var latencies []tally
	index := map[typeKey]int{}
	for i := range d.Transactions {
		t := &d.Transactions[i]
		var one tally
		if s := series[class{t.Type, t.Class, t.Region}]; s != nil {
			var err error
			if one, err = d.decode(s); err != nil {
				return nil, err
			}
			if d.Histograms.Estimator == "" { // old documents have no sum in the series
				one.sum = t.Committed * t.LatencyMicroseconds.Mean.Least()
				one.max = t.LatencyMicroseconds.Max.Least()
			}
		}
		for _, k := range []typeKey{{t.Type, ""}, {t.Type, t.Region}} {
			n, ok := index[k]
			if !ok {
				n = len(out)
				index[k] = n
				out, latencies = append(out, TypeFigures{Type: k.typ, Region: k.region,
					Seconds: d.MeasuredSeconds()}), append(latencies, tally{})
			}
			out[n].Counts.addOutcomes(&t.Outcomes)
			out[n].Attempts.addOutcomes(&t.Attempts)
			out[n].AbortedAttempts = addNamed(out[n].AbortedAttempts, t.Attempts.Aborted)
			latencies[n].merge(&one)
		}
	}
	for i := range out {
		// Hung depends on the 99th percentile of the merged latencies, so it is computed after the last merge.
		out[i].LatencyMicroseconds, out[i].Hung = latencies[i].latency(), latencies[i].hung()
	}
	return out, nil
}

// AbortedAttempts returns the aborted attempts in the measured windows, by reason.
func (d *Document) AbortedAttempts() (reasons map[string]int64) {
	for i := range d.Types {
		// The entries of single regions repeat the entries of all regions together.
		if d.Types[i].Region == "" {
			reasons = addNamed(reasons, d.Types[i].AbortedAttempts)
		}
	}
	if d.Types == nil {
		for i := range d.Transactions {
			reasons = addNamed(reasons, d.Transactions[i].Attempts.Aborted)
		}
	}
	return reasons
}

// MeasuredSeconds returns the total length of all windows. The window of a cancelled run is shorter than its manifest
// states, so its length is computed from the commits and the throughput.
func (d *Document) MeasuredSeconds() float64 {
	if d.seconds > 0 {
		return d.seconds
	}
	cancelled := slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Reason == ReasonCancelled })
	if s := &d.Summary; cancelled && s.ThroughputPerSecond > 0 {
		return float64(s.Committed+s.CarriedIn) / float64(s.ThroughputPerSecond)
	}
	return d.Spec.Load.Duration.Seconds() * float64(len(d.Repetitions))
}

// addOutcomes adds o, in which failures are counted by reason, to the totals in c.
func (c *Counts) addOutcomes(o *Outcomes) {
	all := func(reasons map[string]int64) (n int64) {
		for _, count := range reasons {
			n += count
		}
		return n
	}
	c.Committed += o.Committed
	c.Aborted += all(o.Aborted)
	c.Refused += all(o.Refused)
	c.Unknown += all(o.Unknown)
	c.Timeouts += o.Unknown[timeoutReason]
	c.Causes = addNamed(c.Causes, o.Causes)
}

// WithFiguresOnly returns a document with the inputs of all figures: transactions, regions, types, effects of faults,
// and figures of the engine. Engine counters are summed over the nodes; of each gauge, the largest value is kept.
// Timelines and histograms, which take most of the memory, are dropped. It fails if a histogram cannot be decoded.
func (d *Document) WithFiguresOnly() (*Document, error) {
	types, err := d.ByType()
	if err != nil {
		return nil, err
	}
	counters, gauges := map[string]int64{}, map[string]int64{}
	var nodes []Node
	for i := range d.Nodes {
		n := &d.Nodes[i]
		nodes = append(nodes, Node{Name: n.Name, DataBytes: n.DataBytes, Rows: n.Rows, Operations: n.Operations})
		for name, n := range n.Counters {
			counters[name] += n
		}
		for name, v := range n.Gauges {
			if most, ok := gauges[name]; !ok || v > most {
				gauges[name] = v
			}
		}
	}
	if len(nodes) > 0 {
		// Only the first node gets the totals, so that a sum over the nodes is still right.
		nodes[0].Counters, nodes[0].Gauges = counters, gauges
	}
	var manifests *Manifests
	if d.Manifests != nil {
		manifests = &Manifests{ConfigMaps: d.Manifests.ConfigMaps}
	}
	return &Document{Name: d.Name, Simulated: d.Simulated, Engine: d.Engine, Verdict: d.Verdict, Reasons: d.Reasons,
		Summary: d.Summary, Regions: d.Regions, Types: types, Faults: d.Faults, Nodes: nodes, Uncounted: d.Uncounted,
		Manifests: manifests,
		seconds:   d.MeasuredSeconds()}, nil
}
