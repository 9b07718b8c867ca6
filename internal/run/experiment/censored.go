package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// view chooses the values that stand in for figures with a known lower bound and no known value. A claim has a result only if its answer is the same in all views: otherwise it holds for some
// possible values and not for others.
type view int

const (
	infinite view = iota
	// least takes the bound itself. rising and sinking take larger values, which increase or decrease from one latency to
	// the next.
	least
	rising
	sinking
)

var otherViews = []view{least, rising, sinking}

// errBounded is the error of claims with an answer that differs between views.
var errBounded = errors.New("only lower bounds are known of figures that it compares, since transactions had no " +
	"answer, and the answer depends on by how much they are exceeded")

// mostLatencies is larger than the number of bounds that an evaluation meets.
const mostLatencies = 1 << 20

// value returns the value that stands in for a bound; n is the number of bounds met before.
func (v view) value(q v1alpha1.Quantile, n int) v1alpha1.Quantile {
	us := max(q.Least(), 1)
	switch v {
	case least:
		return v1alpha1.Observed(us)
	case rising:
		return v1alpha1.Observed(us*2 + int64(n))
	case sinking:
		return v1alpha1.Observed(us*2 + mostLatencies - int64(n))
	}
	return q
}

// latencies returns l with values in the place of bounds.
func (v view) latencies(l result.Latency, n int) result.Latency {
	for _, q := range []*v1alpha1.Quantile{&l.P50, &l.P90, &l.P95, &l.P99, &l.Max, &l.Mean} {
		if q.IsBound() {
			*q = v.value(*q, n)
		}
	}
	return l
}

// hung returns the number of transactions that hung when the windows closed and that the view counts as timed out. The
// views rising and sinking count the transactions of every second figure, so that a comparison of two figures meets both orders.
func (v view) hung(all int64, n int) int64 {
	if v == infinite || v == rising && n%2 == 1 || v == sinking && n%2 == 0 {
		return all
	}
	return 0
}

// document returns d as the view takes it; d itself is not changed.
func (v view) document(d *result.Document, n int) *result.Document {
	if v == infinite {
		return d
	}
	of := *d
	s := &of.Summary
	s.LatencyMicroseconds, s.Hung = v.latencies(s.LatencyMicroseconds, n), v.hung(s.Hung, n)
	of.Regions = slices.Clone(d.Regions)
	for i := range of.Regions {
		r := &of.Regions[i]
		r.LatencyMicroseconds, r.Hung = v.latencies(r.LatencyMicroseconds, n), v.hung(r.Hung, n)
	}
	return &of
}

// typed returns the figures of a type as the view takes them.
func (v view) typed(t *result.TypeFigures, n int) *result.TypeFigures {
	if v == infinite {
		return t
	}
	of := *t
	of.LatencyMicroseconds, of.Hung = v.latencies(t.LatencyMicroseconds, n), v.hung(t.Hung, n)
	return &of
}

// seen returns a figure at a point as the view takes it, and counts it where only a bound is known.
func (b *board) seen(p *Point, q query) (figure, error) {
	known, err := b.results.figure(p, q.metric, q.scope)
	if err != nil || !math.IsInf(known.Median, 1) && !q.metric.ranged() {
		return known, err
	}
	f, err := b.results.figureAs(p, q.metric, q.scope, b.view, b.bounds)
	if lower, wrong := b.results.figureAs(p, q.metric, q.scope, least, 0); wrong == nil && lower.Median != known.Median {
		b.bounds++
	}
	return f, err
}

// atLeast returns the figure of a point for charts and documents. Where the figure is infinite because only a lower
// bound of it is known, it returns the bound. The figure stays infinite where there is no bound: no transaction ended,
// or the database never recovered.
func (r *Results) atLeast(p *Point, m *metric, of scope) (f figure, bound bool, err error) {
	if f, err = r.figure(p, m, of); err != nil || !math.IsInf(f.Median, 1) && !m.ranged() {
		return f, false, err
	}
	lower, err := r.figureAs(p, m, of, least, 0)
	if err != nil || lower.Median >= f.Median || math.IsInf(lower.Median, 0) {
		return f, false, err
	}
	return figure{Median: lower.Median}, true, nil
}

// judged evaluates a claim in all views.
func (b *board) judged(ctx context.Context, expression string) (holds bool, measured string, err error) {
	answer := func(v view) (bool, string, error) {
		b.view, b.bounds = v, 0
		defer func() { b.view = infinite }()
		value, measured, err := b.evaluate(ctx, expression)
		if err = cmp.Or(b.unsound, err); err != nil {
			return false, "", err
		}
		holds, ok := value.Value().(bool)
		if !ok {
			return false, "", fmt.Errorf("the expression gave %v, not true or false", value)
		}
		return holds, measured, nil
	}
	if holds, measured, err = answer(infinite); err != nil || b.bounds == 0 {
		return holds, measured, err
	}
	for _, v := range otherViews {
		other, _, err := answer(v)
		if err != nil {
			return false, "", err
		}
		if other != holds {
			return false, "", errBounded
		}
	}
	return holds, measured, nil
}
