package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/ast"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
)

// view selects substitutes for figures of which only a lower bound is known. A claim has a result only if its answer is
// the same in all views. Otherwise its answer depends on the unknown values.
type view struct {
	order order
	// around is a latency in microseconds. If it is not 0, the substitutes are close to this latency, but not below their
	// bounds. If it is 0, the substitutes are derived from their bounds.
	around int64
}

type order int

const (
	infiniteOrder order = iota
	// leastOrder uses the bound itself as the substitute. risingOrder and sinkingOrder use larger substitutes, which
	// increase or decrease from one bound to the next.
	leastOrder
	risingOrder
	sinkingOrder
)

var (
	infinite = view{order: infiniteOrder}
	least    = view{order: leastOrder}
	rising   = view{order: risingOrder}
	sinking  = view{order: sinkingOrder}
)

// mostCritical is the maximum number of latencies around which views evaluates an expression (see view.around).
const mostCritical = 24

// views returns the views in which an expression is evaluated, in addition to infinite. The answer may change at each
// number in the expression, and at sums and differences of two of these numbers. It may also change between them.
// For example, abs(100 - p99) > 1 holds at 60 and at infinity, but not at 100. bound is the largest lower bound in
// microseconds.
func (b *board) views(expression string, bound int64) []view {
	out := []view{least, rising, sinking}
	critical := map[int64]bool{}
	// Powers of 4 cover the range above the bound. The condition on bound prevents the products from overflowing.
	for factor := int64(2); factor <= 1<<20 && bound < math.MaxInt64>>24; factor *= 4 {
		critical[bound*factor] = true
	}
	numbers := b.literals(expression)
	add := func(ms float64) {
		if us := ms * 1000; us >= 1 && us < 1<<52 && len(critical) < mostCritical {
			critical[int64(math.Round(us))] = true
		}
	}
	for _, x := range numbers {
		add(x)
	}
	// Claims often compare a figure with the sum or the difference of two limits.
	for i, x := range numbers {
		for _, y := range numbers[:i] {
			add(x + y)
			add(math.Abs(x - y))
		}
	}
	for _, us := range slices.Sorted(maps.Keys(critical)) {
		out = append(out, view{leastOrder, us}, view{risingOrder, us}, view{sinkingOrder, us})
	}
	return out
}

// literals returns the absolute values of the numbers in an expression, including numbers in string literals.
func (b *board) literals(expression string) (out []float64) {
	compiled, err := b.compile(expression)
	if err != nil {
		return nil
	}
	ast.PreOrderVisit(compiled.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.LiteralKind {
			return
		}
		if x, err := strconv.ParseFloat(fmt.Sprint(e.AsLiteral().Value()), 64); err == nil && !math.IsNaN(x) &&
			!math.IsInf(x, 0) {
			out = append(out, math.Abs(x))
		}
	}))
	slices.Sort(out)
	return slices.Compact(out)
}

// errBounded is the error of a claim whose answer differs between views.
var errBounded = errors.New("only lower bounds are known of figures that it compares, since transactions had no " +
	"answer, and the answer depends on by how much they are exceeded")

// mostLatencies exceeds the number of bounds that an evaluation can encounter.
const mostLatencies = 1 << 20

// value returns the substitute for bound q. n is the number of bounds that the evaluation encountered before q.
func (v view) value(q v1alpha1.Quantile, n int) v1alpha1.Quantile {
	us, side := max(q.Least(), 1), int64(1)
	if (v.order == risingOrder) == (n == 0) {
		side = -1
	}
	switch {
	case v.order == infiniteOrder:
		return q
	case v.around > 0 && v.order == leastOrder:
		// The substitute must not be below the bound.
		return v1alpha1.Observed(max(us, v.around))
	case v.around > 0: // the first substitute is on one side of around, all others on the opposite side
		return v1alpha1.Observed(max(us, v.around+side*max(1, v.around/100)))
	case v.order == risingOrder:
		return v1alpha1.Observed(us*2 + int64(n))
	case v.order == sinkingOrder:
		return v1alpha1.Observed(us*2 + mostLatencies - int64(n))
	}
	return v1alpha1.Observed(us)
}

// latencies returns l with its bounds replaced by the view's substitutes.
func (v view) latencies(l result.Latency, n int) result.Latency {
	for _, q := range []*v1alpha1.Quantile{&l.P50, &l.P90, &l.P95, &l.P99, &l.Max, &l.Mean} {
		if q.IsBound() {
			*q = v.value(*q, n)
		}
	}
	return l
}

// hung returns how many of the hung transactions the view counts as timed out or aborted. It adds the rest to ended as
// transactions with an unknown outcome. In the rising and sinking views, the treatment alternates between consecutive
// figures, so that a comparison of two figures is evaluated both ways.
func (v view) hung(all int64, n int, ended *result.Counts) int64 {
	if v == infinite || v.order == risingOrder && n%2 == 1 || v.order == sinkingOrder && n%2 == 0 {
		return all
	}
	ended.Unknown += all
	return 0
}

// document returns a copy of d in which the view's substitutes replace lower bounds.
func (v view) document(d *result.Document, n int) *result.Document {
	if v == infinite {
		return d
	}
	of := *d
	s := &of.Summary
	s.LatencyMicroseconds, s.Hung = v.latencies(s.LatencyMicroseconds, n), v.hung(s.Hung, n, &s.Counts)
	of.Regions = slices.Clone(d.Regions)
	for i := range of.Regions {
		r := &of.Regions[i]
		r.LatencyMicroseconds, r.Hung = v.latencies(r.LatencyMicroseconds, n), v.hung(r.Hung, n, &r.Counts)
	}
	return &of
}

// typed returns a copy of t in which the view's substitutes replace lower bounds.
func (v view) typed(t *result.TypeFigures, n int) *result.TypeFigures {
	if v == infinite {
		return t
	}
	of := *t
	of.LatencyMicroseconds, of.Hung = v.latencies(t.LatencyMicroseconds, n), v.hung(t.Hung, n, &of.Counts)
	return &of
}

// seen returns a figure at a point as the board's view shows it. If only a lower bound of the figure is known, seen
// counts the bound in b.bounds.
func (b *board) seen(p *Point, q query) (figure, error) {
	known, err := b.results.figure(p, q.metric, q.scope)
	if err == nil {
		err = b.results.enough(p, q.metric, q.scope)
	}
	switch {
	case err != nil || known.exact(p) && !q.metric.ranged():
		return known, err
	case q.metric.share() && math.IsInf(known.Median, 1):
		return known,
			fmt.Errorf("figure %s of %s has no value: nothing ended there, and no share of nothing is large or small",
				q.metric.name, p.Label)
	}
	f, err := b.results.figureAs(p, q.metric, q.scope, b.view, b.bounds)
	// The figure depends on a bound if its value in view least differs from its value in view infinite.
	if lower, wrong := b.results.figureAs(p, q.metric, q.scope, least, 0); wrong == nil && lower.Median != known.Median {
		b.bounds++
		if ms := lower.Median; ms > 0 && ms < 1<<40 {
			b.bound = max(b.bound, int64(ms*1000))
		}
	}
	return f, err
}

// percentiles maps the names of latency percentiles to their values.
var percentiles = map[string]float64{"p50": 50, "p90": 90, "p95": 95, "p99": 99}

// enough returns an error if a percentile at a point is computed from too few transactions of a run. Such a percentile
// would simply be the maximum latency.
func (r *Results) enough(p *Point, m *metric, of scope) error {
	name, ofRegions := strings.CutSuffix(m.name, "OfRegions")
	percentile, ok := percentiles[name]
	if !ok {
		return nil
	}
	needed := result.SamplesNeeded(percentile)
	for _, run := range p.Runs {
		d, err := r.Document(run)
		if err != nil {
			return err
		}
		// Count the transactions that the percentile covers: aborted transactions have no latency, and unanswered
		// transactions rank above all others.
		answered := func(c *result.Counts, unanswered int64) int64 { return c.Ended() - c.Aborted + unanswered }
		n := answered(&d.Summary.Counts, d.Summary.Hung+d.Summary.Unsent())
		if of.typ != "" {
			t, err := r.ofType(run, of.typ, of.region)
			if err != nil {
				return err
			}
			n = answered(&t.Counts, t.Hung)
		}
		for i := range d.Regions {
			if x := &d.Regions[i]; of.typ == "" && (ofRegions || x.Name == of.region) {
				n = min(n, answered(&x.Counts, x.Hung+x.Unsent()))
			}
		}
		// A figure without any transactions already has its own error or value.
		if n > 0 && n < needed {
			return fmt.Errorf("figure %s of %s is of %d transactions of a run, and needs %d or more: "+
				"let runs measure for longer, or take a lower percentile",
				m.name, p.Label, n, needed)
		}
	}
	return nil
}

// exact reports whether the figure does not depend on a bound. With several repetitions, the median may be finite
// although some repetitions contribute only bounds, so exact then returns false.
func (f *figure) exact(p *Point) bool { return !math.IsInf(f.Median, 1) && len(p.Runs) == 1 }

// atLeast returns the figure of a point for charts and documents. If the figure depends on values with only a lower
// bound, atLeast returns the resulting lower bound and true. The figure remains infinite if no transaction ended, or if
// the database never recovered.
func (r *Results) atLeast(p *Point, m *metric, of scope) (f figure, bound bool, err error) {
	if f, err = r.figure(p, m, of); err != nil || f.exact(p) && !m.ranged() {
		return f, false, err
	}
	lower, err := r.figureAs(p, m, of, least, 0)
	if err != nil || lower.Median >= f.Median || math.IsInf(lower.Median, 0) {
		return f, false, err
	}
	return figure{Median: lower.Median}, true, nil
}

// judged evaluates a claim in all views. It returns errBounded if the views disagree.
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
	// Without bounds the answer is the same in all views, so one evaluation suffices.
	if holds, measured, err = answer(infinite); err != nil || b.bounds == 0 {
		return holds, measured, err
	}
	for _, v := range b.views(expression, max(b.bound, 1)) {
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
