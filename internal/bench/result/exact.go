package result

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/geobench/geobench/api/v1alpha1"
)

// measuredRate returns n/of times 10^6: a ratio in parts per million, or a throughput per second if of is in
// microseconds. The value is rounded for display. Comparisons use the exact ratio, because 0.7 per second is less than
// 1.
func measuredRate(n, of int64) measured {
	return measured{value: v1alpha1.Observed(ratio(of, 1, n, 1e6)), ok: true, exact: perMillion(n, of)}
}

func perMillion(n, of int64) *big.Rat {
	r := big.NewRat(n, of)
	return r.Mul(r, big.NewRat(1e6, 1))
}

// measuredAborts returns the share of aborted transactions. A transaction that hung when a window closed may still
// commit or abort, for example because its client is backing off after aborted attempts. With such transactions, the
// result is a range of possible shares.
func measuredAborts(aborted, ended, hung int64) measured {
	m := measuredRate(aborted, ended)
	// At best all hung transactions commit, and at worst all abort. An objective with a limit in between is undecided.
	if hung > 0 {
		m.least, m.most = perMillion(aborted, ended+hung), perMillion(aborted+hung, ended+hung)
		m.doubt = fmt.Sprintf("%d transactions hung when a window closed and may abort: from %s to %s ppm; "+
			"let spec.load.duration be longer, or requestTimeout and "+
			"retry.maxBackoff shorter", hung, m.least.FloatString(0), m.most.FloatString(0))
	}
	return m
}

// exceeds reports whether the figure is more than limit. It compares the exact figure if value is rounded.
func (m *measured) exceeds(limit int64) bool {
	if m.exact != nil {
		return m.exact.Cmp(big.NewRat(limit, 1)) > 0
	}
	return m.value.Least() > limit
}

// reaches reports whether the figure is at least limit.
func (m *measured) reaches(limit int64) bool {
	if m.exact != nil {
		return m.exact.Cmp(big.NewRat(limit, 1)) >= 0
	}
	return m.value.Least() >= limit
}

// format formats the figure. It adds decimals if the rounded value would look equal to a limit that the exact value
// misses.
func (m *measured) format(o v1alpha1.Objective) string {
	text := formatMetric(o.Metric, m.value)
	if m.exact == nil || m.exact.IsInt() {
		return text
	}
	for _, b := range []*v1alpha1.Bound{o.Min, o.Max} {
		if b == nil {
			continue
		}
		if limit, err := boundValue(o.Metric, *b); err == nil && limit == m.value.Least() {
			f, _ := m.exact.Float64()
			return strings.Replace(text, strconv.FormatInt(m.value.Least(), 10), strconv.FormatFloat(f, 'g', 9, 64), 1)
		}
	}
	return text
}

// Rate formats the throughput of n transactions. rounded is the throughput in whole transactions per second. Below ten
// per second, Rate shows two significant digits instead, because a rounded 0 would hide commits.
func (d *Document) Rate(rounded, n int64) string {
	if seconds := d.MeasuredSeconds(); rounded < 10 && n > 0 && seconds > 0 {
		return fmt.Sprintf("%.2g", float64(n)/seconds)
	}
	return strconv.FormatInt(rounded, 10)
}
