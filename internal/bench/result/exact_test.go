package result

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
)

// TestObjectivesAreExact checks that objectives are compared with exact figures. For example, 0.705 per second is less
// than 1, and one abort among three million is more than none.
func TestObjectivesAreExact(t *testing.T) {
	limit := func(n int) *v1alpha1.Bound { b := intstr.FromInt(n); return &b }
	for name, c := range map[string]struct {
		m         measured
		metric    v1alpha1.Metric
		min, max  *v1alpha1.Bound
		holds     bool
		measured  string
		undecided bool
	}{
		"rounded up": {measuredRate(141, 200e6), v1alpha1.MetricThroughput, limit(1), nil, false, "0.705/s",
			false},
		"rounded down": {measuredRate(281, 200e6), v1alpha1.MetricThroughput, nil, limit(1), false, "1.405/s",
			false},
		"enough": {measuredRate(200, 200e6), v1alpha1.MetricThroughput, limit(1), limit(1), true, "1/s",
			false},
		"rounded elsewhere": {measuredRate(1_999_700, 1e9), v1alpha1.MetricThroughput, limit(1000), nil, true,
			"2000/s", false},
		"no abort": {measuredAborts(0, 3e6, 0), v1alpha1.MetricAbortPPM, nil, limit(0), true, "0 ppm", false},
		"an abort": {measuredAborts(1, 3e6, 0), v1alpha1.MetricAbortPPM, nil, limit(0), false,
			"0.333333333 ppm", false},
		"hung, may abort": {measuredAborts(0, 990, 10), v1alpha1.MetricAbortPPM, nil, limit(0), false, "0 ppm",
			true},
		"hung, whatever": {measuredAborts(0, 990, 10), v1alpha1.MetricAbortPPM, nil, limit(10_000), true, "0 ppm",
			false},
		"hung, missed": {measuredAborts(20, 990, 10), v1alpha1.MetricAbortPPM, nil, limit(10_000), false,
			"20202 ppm", false},
		"hung, a minimum": {measuredAborts(10, 990, 10), v1alpha1.MetricAbortPPM, limit(10_050), nil, false,
			"10101 ppm", true},
		"no hung, a minimum": {measuredAborts(10, 990, 0), v1alpha1.MetricAbortPPM, limit(10_050), nil, true,
			"10101 ppm", false},
	} {
		got := c.m.judge(v1alpha1.Objective{Metric: c.metric, Min: c.min, Max: c.max})
		if got.Holds != c.holds || got.Measured != c.measured || (got.Undecided != "") != c.undecided {
			t.Errorf("%s: %+v, want holds %v, measured %s, undecided %v", name, got, c.holds, c.measured, c.undecided)
		}
	}
}

// TestTerminalsOfRegionsWithoutWarehouses checks that clients of regions without warehouses count as terminals.
func TestTerminalsOfRegionsWithoutWarehouses(t *testing.T) {
	d := &Document{}
	spec := &v1alpha1.TPCC{WarehousesPerPartition: 2, RowsPercent: 100, KeyingAndThinkTimePercent: 100,
		Mix:             v1alpha1.TPCCMix{NewOrder: 45, Payment: 43, OrderStatus: 4, Delivery: 4, StockLevel: 4},
		RollbackPercent: 1, ByLastNamePercent: 60,
		Remote: v1alpha1.TPCCRemote{OrderLinePercent: new(int32(1)), PaymentPercent: 15}}
	in := &Inputs{TpmCType: "newOrder", Topology: &geo.Topology{Regions: []string{"north", "south"}, Homes: 1,
		Partitions: 1}, Workload: v1alpha1.Workload{TPCC: spec}}
	in.Load = v1alpha1.Load{ClientsPerRegion: 20}
	d.fillTpmC(&Report{DurationMicroseconds: 60e6, Repetitions: 1}, in)
	if notes := strings.Join(d.Notes, "\n"); !strings.Contains(notes,
		"40 terminals on 2 warehouses break clause 4.2.2") || len(d.Notes) != 1 {
		t.Errorf("notes: %s", notes)
	}
	in.Load.ClientsPerRegion, d.Notes = 10, nil
	d.fillTpmC(&Report{DurationMicroseconds: 60e6, Repetitions: 1}, in)
	if len(d.Notes) > 0 {
		t.Errorf("ten terminals a warehouse: %v", d.Notes)
	}
}
