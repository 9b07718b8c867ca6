package run

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/collect"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/ops/metrics"
)

var (
	stageSeconds  = metrics.StageSeconds.HistogramVec()
	faultLateness = metrics.FaultLateness.HistogramVec()
)

func init() { ctrlmetrics.Registry.MustRegister(stageSeconds, faultLateness) }

// observeFaults records how far the actual start and end of each fault deviate from the plan. It records each time
// once, when the time becomes known.
func observeFaults(before, after *v1alpha1.BenchmarkRun) {
	if after.Status.MeasureStartTime == nil {
		return
	}
	for i := range after.Spec.Faults {
		f := &after.Spec.Faults[i]
		was, is := faultstatus.Find(before, f.Name), faultstatus.Find(after, f.Name)
		if is == nil {
			continue
		}
		if was == nil {
			was = &v1alpha1.FaultStatus{}
		}
		begin := after.Status.MeasureStartTime.Add(f.At.Duration)
		end := begin
		if f.Duration != nil {
			end = begin.Add(f.Duration.Duration)
		}
		for _, edge := range []struct {
			name    string
			was, is *metav1.MicroTime
			planned time.Time
		}{
			{"begin", was.InjectingTime, is.InjectingTime, begin},
			{"end", was.RecoveringTime, is.RecoveringTime, end},
		} {
			// Only the change from unknown to known counts, so each time is observed once.
			if edge.was == nil && edge.is != nil {
				faultLateness.WithLabelValues(string(is.Injector), edge.name).Observe(edge.is.Sub(edge.planned).Abs().Seconds())
			}
		}
	}
}

// observeStages records the time that a run spent in the stage that it has left.
func observeStages(before, after *v1alpha1.BenchmarkRun) {
	was, is := &before.Status, &after.Status
	if was.Stage == "" || was.Stage == is.Stage || was.StageStartTime == nil || is.StageStartTime == nil {
		return
	}
	stageSeconds.WithLabelValues(string(was.Stage)).Observe(is.StageStartTime.Sub(was.StageStartTime.Time).Seconds())
}

const (
	// collectTimeout bounds the time for cache reads in one scrape.
	collectTimeout = 5 * time.Second
	// shownAfterEnd is the time for which a finished run keeps its metrics by name, so that dashboards show its end.
	// Dropping the metrics of older runs bounds the number of series.
	shownAfterEnd = 15 * time.Minute
)

// NewCollector returns a collector for the metrics of all runs and databases, which it reads from reader at each
// scrape.
func NewCollector(reader client.Reader, now clock.PassiveClock) prometheus.Collector {
	of := append(metrics.RunMetrics(), metrics.Runs, metrics.Databases, metrics.NetworkVerified, metrics.DatabaseMesh)
	return metrics.NewCollector(of, func(put metrics.Put) {
		ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
		defer cancel()
		databases := &v1alpha1.GeoDatabaseList{}
		if err := reader.List(ctx, databases); err == nil {
			collectDatabases(put, databases.Items)
		}
		runs := &v1alpha1.BenchmarkRunList{}
		if err := reader.List(ctx, runs); err == nil {
			collectRuns(ctx, put, reader, now.Now(), runs.Items, databases.Items)
		}
	})
}

func collectDatabases(put metrics.Put, databases []v1alpha1.GeoDatabase) {
	type key struct{ engine, ready string }
	counts := map[key]float64{}
	for i := range databases {
		db := &databases[i]
		ready := meta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionNodesReady)
		counts[key{db.Spec.Engine.Name, strconv.FormatBool(ready)}]++
		verified := 0.0
		if meta.IsStatusConditionTrue(db.Status.Conditions, v1alpha1.ConditionNetworkVerified) {
			verified = 1
		}
		put(metrics.NetworkVerified, verified, db.Namespace, db.Name)
		if m := db.Status.Mesh; m != nil {
			put(metrics.DatabaseMesh, 1, db.Namespace, db.Name, string(m.Mode), string(m.MutualTLS), m.Version)
		}
	}
	for k, n := range counts {
		put(metrics.Databases, n, k.engine, k.ready)
	}
}

func collectRuns(ctx context.Context, put metrics.Put, reader client.Reader, now time.Time, runs []v1alpha1.BenchmarkRun, databases []v1alpha1.GeoDatabase) {
	byName := map[types.NamespacedName]*v1alpha1.GeoDatabase{}
	for i := range databases {
		byName[client.ObjectKeyFromObject(&databases[i])] = &databases[i]
	}
	type key struct{ stage, verdict string }
	counts := map[key]float64{}
	for i := range runs {
		run := &runs[i]
		st := &run.Status
		counts[key{string(st.Stage), string(st.Verdict)}]++
		if st.Stage == "" || st.CompletionTime != nil && now.Sub(st.CompletionTime.Time) > shownAfterEnd {
			continue
		}
		o := collect.Object{Namespace: run.Namespace, Run: run.Name, Database: run.Spec.DatabaseRef.Name}
		var deadline time.Time
		if st.StageStartTime != nil && !kube.Over(run) && st.Stage != v1alpha1.StagePreflight && !waitsForOthers(run) {
			deadline = st.StageStartTime.Add(stageOf(run).deadline(run))
		}
		collect.PutStage(put, o, st.Stage, deadline)
		collect.PutObjectives(put, o, run.Spec.Objectives)
		for i := range run.Spec.Faults {
			f := &run.Spec.Faults[i]
			l := faultstatus.LifeOf(run, f.Name)
			collect.PutFault(put, o, f, !kube.Over(run) && l.Touches())
		}
		db := byName[types.NamespacedName{Namespace: run.Namespace, Name: o.Database}]
		if db == nil {
			continue
		}
		if profile, err := database.ResolveProfile(ctx, reader, db); err == nil {
			var regions []string
			for i := range db.Spec.Regions {
				regions = append(regions, db.Spec.Regions[i].Name)
			}
			collect.PutPrices(put, o, regions, plan.Prices(profile.Spec.Prices))
		}
	}
	for k, n := range counts {
		put(metrics.Runs, n, k.stage, k.verdict)
	}
}
