package inprocess

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/geobench/geobench/internal/ops/metrics"
)

// TestLiveMetrics scrapes a run continuously. The metrics match the table of metrics, and show the stages of the run
// and the active fault. At the end, they agree with the result.
func TestLiveMetrics(t *testing.T) {
	text := manifestOf("smallbank-two-regions", twoRegions, "{name: calvin}", "{clientsPerRegion: 10, warmup: 1s, duration: 4s}", 1) +
		"  faults: [{name: slow, at: 1s, duration: 1s, networkDelay: {between: {}, delay: 20ms}}]\n"
	p := planOf(t, text)
	registry := prometheus.NewPedanticRegistry()
	stages, fault := map[string]bool{}, map[float64]bool{}
	look := func() {
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case metrics.RunStage.Name:
					stages[label(m, "stage")] = true
				case metrics.FaultActive.Name:
					fault[m.GetGauge().GetValue()] = true
				}
			}
		}
	}
	looking, stop := context.WithCancel(t.Context())
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for looking.Err() == nil {
			look()
			<-tick.C
		}
	}()
	var committed, counted float64
	d, err := Observed(t.Context(), p, nil, Observer{Registry: registry, Last: func(context.Context) {
		stop()
		<-looked
		look()
		families, err := registry.Gather()
		if err != nil {
			t.Error(err)
		}
		checkTable(t, families)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case metrics.Committed.Name:
					committed += m.GetCounter().GetValue()
				case metrics.Latency.Name:
					counted += float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
	}})
	stop()
	<-looked
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Warmup", "Measure", "Evaluate", "Completed"} {
		if !stages[want] {
			t.Errorf("stage %s was never shown, only %v", want, stages)
		}
	}
	if !fault[0] || !fault[1] {
		t.Errorf("the fault was shown with %v only", fault)
	}
	// The metrics include the warm-up, whereas the result does not.
	if measured := float64(d.Summary.Committed); committed < measured || committed > 3*measured || counted != committed {
		t.Errorf("%.0f committed and %.0f latencies were shown, %.0f are in the result", committed, counted, measured)
	}
}

// checkTable checks that metric families match the table of metrics.
func checkTable(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	table := map[string]*metrics.Definition{}
	for _, s := range metrics.All() {
		for _, d := range s.Metrics {
			table[d.Name] = d
		}
	}
	for _, f := range families {
		d := table[f.GetName()]
		if d == nil || d.Help != f.GetHelp() || !strings.EqualFold(string(d.Type), f.GetType().String()) {
			t.Errorf("%s %s is not in the table", f.GetType(), f.GetName())
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			want := slices.Clone(d.Labels)
			slices.Sort(want)
			if !slices.Equal(labels, want) {
				t.Errorf("%s has labels %v, the table says %v", f.GetName(), labels, want)
			}
		}
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return fmt.Sprintf("no label %s", name)
}
