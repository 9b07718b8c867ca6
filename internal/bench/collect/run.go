package collect

import (
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/metrics"
)

// Object identifies a run in metrics.
type Object struct{ Namespace, Run, Database string }

func (o Object) labels(more ...string) []string {
	return append([]string{o.Namespace, o.Run, o.Database}, more...)
}

// PutStage reports the stage of a run and its deadline, unless the deadline is zero.
func PutStage(put metrics.Put, o Object, stage v1alpha1.Stage, deadline time.Time) {
	put(metrics.RunStage, 1, o.labels(string(stage))...)
	if !deadline.IsZero() {
		put(metrics.RunDeadline, float64(deadline.UnixMilli())/1000, o.labels(string(stage))...)
	}
}

// PutFault reports whether a fault of a run may currently have an effect.
func PutFault(put metrics.Put, o Object, f *v1alpha1.Fault, active bool) {
	put(metrics.FaultActive, flag(active), o.labels(f.Name, strings.Join(f.Kinds(), " "))...)
}

// PutObjectives reports the limits of a run's objectives. If two objectives bound the same figure, the first applies.
func PutObjectives(put metrics.Put, o Object, objectives []v1alpha1.Objective) {
	type series struct {
		metric                     v1alpha1.Metric
		region, transaction, bound string
	}
	seen := map[series]bool{}
	one := func(b *v1alpha1.Bound, of *v1alpha1.Objective, bound string) {
		s := series{of.Metric, of.Region, of.Transaction, bound}
		if b == nil || seen[s] {
			return
		}
		p, isLatency := percentiles[of.Metric]
		var v float64
		if isLatency {
			d, err := time.ParseDuration(b.StrVal)
			if err != nil {
				return // Preflight refuses such a bound
			}
			v = d.Seconds()
		} else {
			v = float64(b.IntVal)
			// An integer bound may be written as a string.
			if b.StrVal != "" {
				n, err := strconv.ParseInt(b.StrVal, 10, 64)
				if err != nil {
					return
				}
				v = float64(n)
			}
		}
		seen[s] = true
		switch {
		case isLatency:
			put(metrics.RunLatencyLimit, v, o.labels(p, of.Region, of.Transaction, bound)...)
		case of.Metric == v1alpha1.MetricThroughput:
			put(metrics.RunThroughputLimit, v, o.labels(of.Region, of.Transaction, bound)...)
		case of.Metric == v1alpha1.MetricAbortPPM:
			// Metrics are ratios, whereas manifests use parts per million.
			put(metrics.RunAbortLimit, v/1e6, o.labels(of.Region, of.Transaction, bound)...)
		case of.Metric == v1alpha1.MetricUnknownPPM:
			put(metrics.RunUnknownLimit, v/1e6, o.labels(of.Region, of.Transaction, bound)...)
		}
	}
	for i := range objectives {
		one(objectives[i].Min, &objectives[i], "min")
		one(objectives[i].Max, &objectives[i], "max")
	}
}

// PutPrices reports the price table of a run's cost model; nil means the default table.
func PutPrices(put metrics.Put, o Object, regions []string, p *result.Prices) {
	if p == nil {
		p = result.DefaultPrices()
	}
	put(metrics.NodePrice, float64(p.InstanceMicrosPerHour[p.Instance])/1e6, o.labels(p.Currency)...)
	for _, from := range regions {
		for _, to := range regions {
			if from != to {
				put(metrics.TransferPrice, float64(p.Transfer(from, to))/1e6, o.labels(from, to, p.Currency)...)
			}
		}
	}
}

// percentiles maps the latency metrics of objectives to their labels.
var percentiles = map[v1alpha1.Metric]string{
	v1alpha1.MetricLatencyP50: "p50", v1alpha1.MetricLatencyP90: "p90", v1alpha1.MetricLatencyP95: "p95", v1alpha1.MetricLatencyP99: "p99",
}
