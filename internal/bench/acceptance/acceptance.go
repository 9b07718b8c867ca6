// Package acceptance has the tests that a database passes before it is measured (Dike, section 4.2, "Function Testing",
// and figure 13). Each test is an ordinary BenchmarkRun, whose verdict says whether the database has the tested
// property.
package acceptance

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// test holds the differences between the tests. The test of deadlocks checks that answers arrive, not their contents: a
// database that loses updates may be free of deadlocks.
type test struct {
	suffix string
	// answered: no transaction may be left without an answer. That some are committed every run is held to.
	answered bool
	verify   []v1alpha1.Verification
	// group is the number of balances that a transaction touches: deadlockTimes and snapshotTimes of Dike's configuration.
	group int32
	mix   v1alpha1.TPCCMix
}

var tests = map[v1alpha1.FunctionalTest]test{
	v1alpha1.FunctionalGlobalDeadlock: {"-deadlock", true, nil, 5, v1alpha1.TPCCMix{UpdateBalance: 100}},
	v1alpha1.FunctionalGlobalSnapshot: {"-snapshot", false, []v1alpha1.Verification{v1alpha1.VerifyInvariants}, 4, v1alpha1.TPCCMix{UpdateBalance: 50, SelectBalance: 50}},
}

const (
	// measured is twice the timeout of a transaction, so that transactions that wait for each other permanently are
	// counted within it. No transaction is retried: an abort, as of a deadlock's victim, is an answer.
	measured = 20 * time.Second
	patience = measured / 2
	// clients of each region: few enough for the locks of five rows to be had over a wide area, enough to be in each
	// other's way.
	clients = 3
	// warehouses of each partition: as many as in the largest group, so that there is a group even with a single
	// partition.
	warehouses = 5
)

// MaxName is the longest name of a run that has tests, whose BenchmarkRuns have names of at most 32 characters.
const MaxName = 32 - len("-deadlock")

// Runs are the BenchmarkRuns of the tests that come before a run, in the order in which the run names them. Their
// fields are complete, as the API server's defaults would make them. Only names and specs are set.
func Runs(run *v1alpha1.BenchmarkRun) (out []*v1alpha1.BenchmarkRun) {
	for _, name := range run.Spec.FunctionalTests {
		t := tests[name]
		var objectives []v1alpha1.Objective
		if t.answered {
			none := intstr.FromInt32(0)
			objectives = []v1alpha1.Objective{{Metric: v1alpha1.MetricUnknownPPM, Max: &none}}
		}
		out = append(out, &v1alpha1.BenchmarkRun{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BenchmarkRun"},
			ObjectMeta: metav1.ObjectMeta{Name: run.Name + t.suffix, Namespace: run.Namespace},
			Spec: v1alpha1.BenchmarkRunSpec{
				DatabaseRef: run.Spec.DatabaseRef, RunID: run.Spec.RunID, Seed: run.Spec.Seed,
				Workload: v1alpha1.Workload{TPCC: t.workload()},
				Load: v1alpha1.Load{
					ClientsPerRegion: clients, WorkersPerRegion: 1, Arrival: v1alpha1.ArrivalClosed, Repetitions: 1,
					Duration: v1alpha1.DurationOf(measured), RequestTimeout: v1alpha1.DurationOf(patience),
				},
				Objectives: objectives,
				Verify:     t.verify,
			},
		})
	}
	return out
}

func (t *test) workload() *v1alpha1.TPCC {
	theta := int32(80)
	return &v1alpha1.TPCC{
		WarehousesPerPartition: warehouses, Mix: t.mix,
		Dike:      &v1alpha1.TPCCDike{CoAccessPartitions: 2, BalanceGroup: t.group, BalancesThetaPercent: &theta},
		Remote:    v1alpha1.TPCCRemote{OrderLinePercent: new(int32)},
		Districts: v1alpha1.DistrictsAny, Warehouses: v1alpha1.WarehousesOwn,
		ByLastNamePercent: 60, RollbackPercent: 1, RowsPercent: 1,
	}
}
