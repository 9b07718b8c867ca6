package controllers

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/geobench/geobench/api/v1alpha1"
)

var stageSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:                        "geobench_run_stage_duration_seconds",
	Help:                        "How long runs stayed in a stage before they left it.",
	Buckets:                     []float64{1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600},
	NativeHistogramBucketFactor: 1.1,
}, []string{"stage"})

func init() { metrics.Registry.MustRegister(stageSeconds) }

// observeStages counts the time that a run spent in the stage it left.
func observeStages(before, after *v1alpha1.BenchmarkRun) {
	was, is := &before.Status, &after.Status
	if was.Stage == "" || was.Stage == is.Stage || was.StageStartTime == nil || is.StageStartTime == nil {
		return
	}
	stageSeconds.WithLabelValues(string(was.Stage)).Observe(is.StageStartTime.Sub(was.StageStartTime.Time).Seconds())
}

// runCollector counts runs by stage and verdict, from the cache.
type runCollector struct {
	reader client.Reader
	runs   *prometheus.Desc
}

// NewRunCollector returns a collector of the gauge geobench_runs, read from reader when asked.
func NewRunCollector(reader client.Reader) prometheus.Collector {
	return &runCollector{reader, prometheus.NewDesc("geobench_runs", "BenchmarkRuns by stage and verdict.", []string{"stage", "verdict"}, nil)}
}

func (c *runCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.runs }

func (c *runCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	list := &v1alpha1.BenchmarkRunList{}
	if err := c.reader.List(ctx, list); err != nil {
		ch <- prometheus.NewInvalidMetric(c.runs, err)
		return
	}
	type key struct{ stage, verdict string }
	counts := map[key]float64{}
	for i := range list.Items {
		st := &list.Items[i].Status
		counts[key{string(st.Stage), string(st.Verdict)}]++
	}
	for k, n := range counts {
		ch <- prometheus.MustNewConstMetric(c.runs, prometheus.GaugeValue, n, k.stage, k.verdict)
	}
}
