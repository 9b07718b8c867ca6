package result

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// unobserved describes transactions without an observed latency: their number, their outcome, and how to observe their
// latency.
type unobserved struct {
	n            int64
	became, cure string
}

// boundCause explains why only a lower bound of a percentile is known, and what to change.
func (f *figures) boundCause() string {
	if f.latency.growing {
		return "the backlog grew, since the database served fewer transactions than arrived: lower " +
			"spec.load.ratePerSecond, or let spec.load.warmup be longer if it was not warm"
	}
	late := min(f.Timeouts, f.Unknown)
	return whyBound([]unobserved{
		{late, "timed out", "let spec.load.requestTimeout be longer than the limit"},
		{f.Unknown - late, "had an unknown outcome", "find out why (transactions[].unknown)"},
		{f.Refused, "were refused", "find out why the database refuses them (transactions[].refused)"},
		{f.Unsent(), "were never sent, since all clients were busy",
			"raise spec.load.clientsPerRegion or lower spec.load.ratePerSecond"},
		{total(f.latency.waiting), "were in flight when a window closed",
			"let spec.load.duration be longer than the limit"},
	})
}

// boundCause is the counterpart of figures.boundCause for seconds without gaps. The timeline does not record why
// transactions had no answer.
func (c *clearSeconds) boundCause() string {
	return whyBound([]unobserved{
		{c.ended - c.committed - c.aborted + c.unanswered, "had no answer or were refused",
			"let spec.load.requestTimeout and spec.load.duration be longer than the limit"},
	})
}

// whyBound lists the outcomes of transactions, with the remedy for the most frequent outcome.
func whyBound(all []unobserved) string {
	all = slices.DeleteFunc(all, func(u unobserved) bool { return u.n == 0 })
	if len(all) == 0 {
		return "latencies were longer than can be recorded"
	}
	var parts []string
	most := all[0]
	for _, u := range all {
		parts = append(parts, fmt.Sprintf("%d %s", u.n, u.became))
		if u.n > most.n {
			most = u
		}
	}
	return "of the transactions " + strings.Join(parts, ", ") + ": " + most.cure
}

// tooFew explains that a percentile has too few samples; empty if it has enough. For a lower bound, transactions
// without an observed latency also count as samples, because a longer run would not observe them either.
func (m *measured) tooFew(metric v1alpha1.Metric) string {
	p, ok := percentiles[metric]
	if !ok {
		return ""
	}
	samples := m.samples
	if m.value.IsBound() {
		samples = m.transactions
	}
	needed := SamplesNeeded(p)
	if samples >= needed {
		return ""
	}
	return fmt.Sprintf("a %s needs %d transactions or more, and %d say something of it: let the run measure for "+
		"longer", metric, needed, samples)
}
