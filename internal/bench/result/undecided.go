package result

import (
	"fmt"
	"slices"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// unobserved counts transactions whose latency was not observed, with their fate and the change that would make it
// observable.
type unobserved struct {
	n            int64
	became, cure string
}

// boundCause returns why only a lower bound of a percentile is known, and what to change.
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

// boundCause is figures.boundCause for seconds without gaps: the timeline does not say why transactions had no answer.
func (c *clearSeconds) boundCause() string {
	return whyBound([]unobserved{
		{c.ended - c.committed - c.aborted + c.unanswered, "had no answer or were refused",
			"let spec.load.requestTimeout and spec.load.duration be longer than the limit"},
	})
}

// whyBound lists the fates of transactions, and a remedy for the most frequent fate.
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

// tooFew returns why a percentile has too few samples, or an empty string. For a lower bound, transactions that were
// not observed count as well: a longer run would not observe them either.
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
