package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/workload/tpcc"
	"github.com/geobench/geobench/internal/ops/deploy/mesh"
)

// warnings describes all differences between the results except their figures.
func warnings(as, bs []*Document) []string {
	out := []string{}
	a := as[0]
	differ := func(what string, of func(*Document) any) {
		for _, d := range slices.Concat(as[1:], bs) {
			if x, y := of(a), of(d); x != y {
				out = append(out, fmt.Sprintf("%s: %v and %v", what, x, y))
				return
			}
		}
	}
	differ("engines differ", func(d *Document) any { return d.Engine })
	differ("engine parameters differ", func(d *Document) any {
		var all []string
		for _, name := range slices.Sorted(maps.Keys(d.Parameters)) {
			all = append(all, name+" "+d.Parameters[name])
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	})
	if len(as)+len(bs) == 2 { // several results of one run differ in their seeds by design
		differ("seeds differ", func(d *Document) any { return d.Seed })
	}
	differ("workloads differ", func(d *Document) any { return d.Workload })
	differ("workload parameters differ (spec.workloadHash)", func(d *Document) any { return d.Spec.WorkloadHash })
	differ("load differs (spec.loadHash)", func(d *Document) any { return d.Spec.LoadHash })
	differ("topology or network differs (spec.topologyHash)", func(d *Document) any { return d.Spec.TopologyHash })
	// If a side is simulated, the warning "only one is simulated" covers the difference.
	if !slices.ContainsFunc(slices.Concat(as, bs), func(d *Document) bool { return d.Simulated }) {
		differ("emulations of the network differ", func(d *Document) any { return d.Emulation })
	}
	for _, d := range slices.Concat(as[1:], bs) { // each result of a side counts, not only the first
		for _, text := range slices.Concat(podsDiffer(a, d), settingsDiffer(a, d)) {
			if !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	differ("regions differ, and those of one side alone are not compared", func(d *Document) any {
		var names []string
		for i := range d.Regions {
			names = append(names, d.Regions[i].Name)
		}
		slices.Sort(names)
		return cmp.Or(strings.Join(names, ", "), "none")
	})
	differ("service meshes differ", func(d *Document) any { return mesh.Name(d.Mesh) })
	differ("connections per region differ", func(d *Document) any { return d.target().ConnectionsPerRegion })
	for _, d := range slices.Concat(as, bs) {
		if why := d.LeastFigures(); why != "" {
			out = append(out, fmt.Sprintf("bytes and cost are not compared: %s: %s", d.Name, why))
		}
	}
	differ("servers differ", func(d *Document) any { return cmp.Or(d.target().Server, "none") })
	differ("isolation levels differ", func(d *Document) any { return cmp.Or(d.target().Isolation, "none") })
	differ("ConfigMaps that pods mount differ", func(d *Document) any {
		var all []string
		if d.Manifests != nil {
			for _, name := range slices.Sorted(maps.Keys(d.Manifests.ConfigMaps)) {
				all = append(all, name+" "+d.Manifests.ConfigMaps[name])
			}
		}
		return cmp.Or(strings.Join(all, ", "), "none")
	})
	out = append(out, manifestsDiffer(slices.Concat(as, bs))...)
	differ("prices differ", func(d *Document) any {
		c := &d.Summary.Cost
		return fmt.Sprintf("%s in %s, %s %s", c.Instance, c.Currency, c.PriceSource, c.PriceDate)
	})
	for _, d := range slices.Concat(as, bs) {
		for _, note := range d.Notes {
			out = append(out, fmt.Sprintf("%s: %s", d.Name, note))
		}
	}
	differ("durability differs", func(d *Document) any { return cmp.Or(d.Durability, v1alpha1.DurabilityNone) })
	differ("only one is simulated", func(d *Document) any { return d.Simulated })
	differ("versions differ", func(d *Document) any { return d.Version })
	differ("versions of workers differ", func(d *Document) any { return cmp.Or(d.WorkerVersion, "the version of the result") })
	differ("machines differ", func(d *Document) any {
		if d.Machine == nil {
			return "none"
		}
		return fmt.Sprintf("%s/%s, %d CPUs, %s", d.Machine.OS, d.Machine.Arch, d.Machine.CPUs, d.Machine.Go)
	})
	for _, d := range slices.Concat(as, bs) {
		for _, why := range d.disagreements() {
			out = append(out, fmt.Sprintf("%s was edited, or is of another version: %s", title(d), why))
		}
		if d.Verdict != "Passed" {
			out = append(out, fmt.Sprintf("%s is %s", title(d), d.Verdict))
		}
	}
	return out
}

// disagreements lists the figures of a document that do not follow from its counts, and a verdict that does not follow
// from its reasons. It skips the throughputs of a cancelled document, which does not state how long it measured.
func (d *Document) disagreements() (out []string) {
	window := Microseconds(d.Spec.Load.Duration.Duration)
	if d.Verdict == v1alpha1.VerdictPassed {
		for _, o := range d.Objectives {
			if !o.Holds {
				out = append(out, fmt.Sprintf("the verdict is Passed, and objective %s does not hold", o.Name))
			}
		}
		for _, c := range d.Checks {
			if !c.Passed {
				out = append(out, fmt.Sprintf("the verdict is Passed, and check %s has failed", c.Name))
			}
		}
		for _, r := range d.Reasons {
			out = append(out, "the verdict is Passed, and there is a reason, "+r.Reason)
		}
	}
	for _, e := range d.Evidence {
		if d.Verdict == v1alpha1.VerdictPassed && (e.State == EvidenceMissing || e.State == EvidenceContradicted) {
			out = append(out, fmt.Sprintf("the verdict is Passed, and evidence[%s] is %s", e.Name, e.State))
		}
	}
	out = append(out, d.manifestDisagreements()...)
	out = append(out, d.latencyDisagreements()...)
	if window <= 0 || slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Reason == ReasonCancelled }) {
		return out
	}
	measured := window * int64(len(d.Repetitions))
	follows := func(what string, is, from int64) {
		// Figures are rounded to integers, so the last digit may differ.
		if is-from > 1 || from-is > 1 {
			out = append(out, fmt.Sprintf("%s is %d, and its counts make %d", what, is, from))
		}
	}
	throughput := func(over int64, c *Counts, carriedIn int64) int64 {
		if over == 0 {
			return 0
		}
		return ratio(over, 1, c.Committed+carriedIn, 1e6)
	}
	s := &d.Summary
	follows("summary.throughputPerSecond", s.ThroughputPerSecond, throughput(measured, &s.Counts, s.CarriedIn))
	follows("summary.abortPPM", s.AbortPPM, s.abortPPM())
	inRegions := int64(0)
	for i := range d.Regions {
		r := &d.Regions[i]
		inRegions += r.Committed
		follows(fmt.Sprintf("regions[%s].throughputPerSecond", r.Name), r.ThroughputPerSecond, throughput(measured, &r.Counts, r.CarriedIn))
	}
	for i := range d.Repetitions {
		r := &d.Repetitions[i]
		follows(fmt.Sprintf("repetitions[%d].throughputPerSecond", r.Index), r.ThroughputPerSecond, throughput(window, &r.Counts, r.CarriedIn))
	}
	out = append(out, d.derivedDisagreements(measured)...)
	if len(d.Regions) > 0 && inRegions != s.Committed {
		out = append(out, fmt.Sprintf("summary.committed is %d, and its regions have %d", s.Committed, inRegions))
	}
	return out
}

// derivedDisagreements returns further derived figures that do not follow from their parts. It checks abort shares,
// counts of due transactions, tpmC, R of faults, and the round trips of a run that passed. The argument measured is in
// microseconds.
func (d *Document) derivedDisagreements(measured int64) (out []string) {
	follows := func(what string, is, from, within int64) {
		if is-from > within || from-is > within {
			out = append(out, fmt.Sprintf("%s is %d, and its counts make %d", what, is, from))
		}
	}
	follows("summary.attempts.abortPPM", d.Summary.Attempts.AbortPPM, d.Summary.Attempts.abortPPM(), 1)
	for i := range d.Regions {
		r := &d.Regions[i]
		name := fmt.Sprintf("regions[%s]", r.Name)
		follows(name+".abortPPM", r.AbortPPM, r.abortPPM(), 1)
		follows(name+".attempts.abortPPM", r.Attempts.AbortPPM, r.Attempts.abortPPM(), 1)
		// Documents of earlier versions do not count the due transactions.
		if r.Due > 0 {
			follows(name+".due", r.Due, r.Ended()+r.Unfinished+r.Unsent(), 0)
		}
		for j := range r.Faults {
			fault := fmt.Sprintf("%s.faults[%s]", name, r.Faults[j].Name)
			out = append(out, r.Faults[j].Availability.disagrees(fault)...)
		}
	}
	for i := range d.Faults {
		out = append(out, d.Faults[i].Availability.disagrees(fmt.Sprintf("faults[%s]", d.Faults[i].Name))...)
	}
	if d.Summary.TpmC != nil && measured > 0 {
		orders := int64(0)
		for i := range d.Transactions {
			if d.Transactions[i].Type == tpcc.NewOrder {
				orders += d.Transactions[i].Committed
			}
		}
		follows("summary.tpmC", *d.Summary.TpmC, ratio(measured, 1, orders, 60e6), 1)
	}
	// Only a passed run claims that its links were within tolerance.
	if d.Verdict != v1alpha1.VerdictPassed {
		return out
	}
	for i := range d.Links {
		l := &d.Links[i]
		is, declared := l.MeasuredRTTMicroseconds.P50, l.DeclaredRTTMicroseconds
		if l.Samples > 0 && max(is-declared, declared-is) > l.ToleranceMicroseconds {
			out = append(out, fmt.Sprintf("the verdict is Passed, and the round trip from %s to %s is %s, declared %s",
				l.From, l.To, formatMicroseconds(is), formatMicroseconds(declared)))
		}
	}
	return out
}

// manifestDisagreements returns the differences between the document and its own manifests.
func (d *Document) manifestDisagreements() (out []string) {
	m := d.Manifests
	if m == nil {
		return nil
	}
	if m.Database != nil && m.Database.Engine.Name != d.Engine {
		out = append(out, fmt.Sprintf("engine is %s, and its manifests have %s", d.Engine, m.Database.Engine.Name))
	}
	if m.Run == nil {
		return out
	}
	if m.Run.Seed != d.Seed && m.Run.Seed != 0 {
		out = append(out, fmt.Sprintf("seed is %d, and its manifests have %d", d.Seed, m.Run.Seed))
	}
	if m.Run.Load.Duration.Duration > 0 && (m.Run.Load.Duration != d.Spec.Load.Duration ||
		m.Run.Load.RequestTimeout != d.Spec.Load.RequestTimeout) {
		out = append(out, "spec.load is not that of its manifests")
	}
	for i, o := range m.Run.Objectives {
		if i >= len(d.Objectives) || d.Objectives[i].Name != ObjectiveName(o) {
			out = append(out, fmt.Sprintf("objective %s of its manifests is missing", ObjectiveName(o)))
			continue
		}
		for _, b := range []*v1alpha1.Bound{o.Min, o.Max} {
			if b == nil || !d.Objectives[i].Holds {
				continue
			}
			value := d.Objectives[i].Value
			limit, err := boundValue(o.Metric, *b)
			if err == nil && (b == o.Max && value.Least() > limit || b == o.Min && value.Least() < limit) {
				out = append(out,
					fmt.Sprintf("objective %s holds, and its value is %d", d.Objectives[i].Name, value.Least()))
			}
		}
	}
	return out
}

// disagrees describes the contradiction if R does not follow from the rounded throughputs; otherwise it returns nil. a
// may be nil.
func (a *Availability) disagrees(name string) []string {
	if a == nil || a.NormalPerSecond < 2 {
		return nil
	}
	normal, during := float64(a.NormalPerSecond), float64(a.FaultPerSecond)
	// Each throughput is rounded by up to 0.5, which changes R by at most the value of within. For throughputs below 2 per
	// second, this error is too large for a check.
	from, within := 1-math.Abs(during-normal)/normal, (1+during/normal)/(normal-0.5)
	if is := float64(a.RPPM) / 1e6; math.Abs(is-from) > within {
		return []string{
			fmt.Sprintf("%s.availability.rPPM is %d, and its throughputs make %.0f", name, a.RPPM, from*1e6),
		}
	}
	return nil
}

// latencyDisagreements returns the percentiles that do not follow from the document's histograms, or that contradict
// the percentiles of its repetitions. Histograms cover all repetitions together. It returns nil if transactions were
// never sent, because the types of these transactions are unknown.
func (d *Document) latencyDisagreements() (out []string) {
	if d.Histograms.Estimator != Estimator || d.Summary.Unsent() > 0 || len(d.Histograms.Series) == 0 {
		return nil
	}
	exact, within := int64(0), int64(10_000) // ppm
	if d.Histograms.Rounded {
		// The buckets of rounded histograms are up to 3.2% wide.
		exact, within = 40_000, 40_000
	}
	near := func(a, b v1alpha1.Quantile, ppm int64) bool {
		x, y := a.Least(), b.Least()
		return a.IsBound() == b.IsBound() && max(x, y)-min(x, y) <= max(x, y)*ppm/1_000_000
	}
	differs := func(what string, l *Latency, of func(*HistogramSeries) bool) {
		from := d.Latencies(of).latency()
		for _, c := range comparedLatencies[:4] {
			is := c.of(l)
			if !near(c.of(&from), is, exact) {
				out = append(out, fmt.Sprintf("%s.latencyMicroseconds.%s is %s, and its histograms make %s", what, c.name, FormatQuantile(is), FormatQuantile(c.of(&from))))
				return
			}
		}
	}
	differs("summary", &d.Summary.LatencyMicroseconds, func(*HistogramSeries) bool { return true })
	for i := range d.Regions {
		r := &d.Regions[i]
		differs(fmt.Sprintf("regions[%s]", r.Name), &r.LatencyMicroseconds, func(s *HistogramSeries) bool { return s.Region == r.Name })
	}
	for i := range d.Transactions {
		t := &d.Transactions[i]
		differs(fmt.Sprintf("transactions[%s, %s, %s]", t.Type, t.Class, t.Region), &t.LatencyMicroseconds,
			func(s *HistogramSeries) bool { return s.Type == t.Type && s.Class == t.Class && s.Region == t.Region })
	}
	if from := d.Latencies(func(*HistogramSeries) bool { return true }).latency(); !near(from.Max,
		d.Summary.LatencyMicroseconds.Max, max(exact, within)) {
		out = append(out, fmt.Sprintf("summary.latencyMicroseconds.max is %s, and its histograms make %s",
			FormatQuantile(d.Summary.LatencyMicroseconds.Max), FormatQuantile(from.Max)))
	} else if !near(from.Mean, d.Summary.LatencyMicroseconds.Mean, max(exact, within)) {
		out = append(out, fmt.Sprintf("summary.latencyMicroseconds.mean is %s, and its histograms make %s",
			FormatQuantile(d.Summary.LatencyMicroseconds.Mean), FormatQuantile(from.Mean)))
	}
	for _, c := range comparedLatencies[:4] {
		if len(d.Repetitions) == 0 {
			break
		}
		least, most := c.of(&d.Repetitions[0].LatencyMicroseconds).Least(), int64(0)
		// If any of the percentiles is only a lower bound, their order is unknown.
		bounded := c.of(&d.Summary.LatencyMicroseconds).IsBound()
		for i := range d.Repetitions {
			q := c.of(&d.Repetitions[i].LatencyMicroseconds)
			least, most, bounded = min(least, q.Least()), max(most, q.Least()), bounded || q.IsBound()
		}
		// A percentile of pooled samples lies between the percentiles of the samples, apart from bucket rounding.
		if is := c.of(&d.Summary.LatencyMicroseconds).Least(); !bounded && (is+is*within/1_000_000+1 < least || is > most+most*within/1_000_000+1) {
			out = append(out, fmt.Sprintf("summary.latencyMicroseconds.%s is %s, and those of the repetitions are from %s to %s",
				c.name, formatMicroseconds(is), formatMicroseconds(least), formatMicroseconds(most)))
			break
		}
	}
	return out
}

// target returns the document's target, or an empty target.
func (d *Document) target() *Target {
	if d.Target == nil {
		return &Target{}
	}
	return d.Target
}

// manifestsDiffer returns the fields in which the manifests differ, except for fields that other warnings cover.
func manifestsDiffer(documents []*Document) (out []string) {
	of := func(what string, manifest func(*Manifests) any, fields func(name string) bool) {
		var first map[string]json.RawMessage
		differ := map[string]bool{}
		for _, d := range documents {
			if d.Manifests == nil {
				continue
			}
			text, err := json.Marshal(manifest(d.Manifests))
			var here map[string]json.RawMessage
			if err != nil || json.Unmarshal(text, &here) != nil || here == nil {
				continue
			}
			if first == nil {
				first = here
			}
			for _, name := range slices.Concat(slices.Collect(maps.Keys(first)), slices.Collect(maps.Keys(here))) {
				if fields(name) && !bytes.Equal(first[name], here[name]) {
					differ[name] = true
				}
			}
		}
		if len(differ) > 0 {
			out = append(out, fmt.Sprintf("the manifests of the %s differ in %s", what, strings.Join(slices.Sorted(maps.Keys(differ)), ", ")))
		}
	}
	of("runs", func(m *Manifests) any { return m.Run }, func(name string) bool {
		return slices.Contains([]string{"faults", "faultInjection", "verify"}, name)
	})
	sameTopology := !slices.ContainsFunc(documents, func(d *Document) bool { return d.Spec.TopologyHash != documents[0].Spec.TopologyHash })
	of("databases", func(m *Manifests) any { return m.Database }, func(name string) bool {
		switch name {
		case "engine", "durability", "network":
			return false
		// If the topologies differ, the warning about spec.topologyHash covers these fields.
		case "regions", "homes", "partitionsPerRegion", "replicasPerPartition", "groups":
			return sameTopology
		}
		return true
	})
	return out
}
