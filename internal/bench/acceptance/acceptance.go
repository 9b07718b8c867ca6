// Package acceptance provides the tests that a database must pass before it is measured (Dike, section 4.2, "Function
// Testing", and figure 13). Each test is an ordinary BenchmarkRun whose verdict shows whether the database has the
// tested property.
package acceptance

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/geobench/geobench/api/v1alpha1"
)

// test holds the properties in which the tests differ. The deadlock test checks only that answers arrive, not their
// contents: a database that loses updates may still be free of deadlocks.
type test struct {
	suffix string
	// answered requires that every transaction is answered. With or without it, a run must commit some transactions.
	answered bool
	verify   []v1alpha1.Verification
	// group is the number of balances that a transaction accesses: deadlockTimes and snapshotTimes in Dike's
	// configuration.
	group int32
	mix   v1alpha1.TPCCMix
}

var tests = map[v1alpha1.FunctionalTest]test{
	v1alpha1.FunctionalGlobalDeadlock: {"-deadlock", true, nil, 5, v1alpha1.TPCCMix{UpdateBalance: 100}},
	v1alpha1.FunctionalGlobalSnapshot: {"-snapshot", false, []v1alpha1.Verification{v1alpha1.VerifyInvariants}, 4, v1alpha1.TPCCMix{UpdateBalance: 50, SelectBalance: 50}},
}

const (
	// measured is twice the timeout, so that transactions that wait for each other forever time out within the window.
	// Transactions are not retried: an abort, for example of a deadlock's victim, is an answer.
	measured = 20 * time.Second
	patience = measured / 2
	// clients is the number of clients per region. With many more clients, no transaction could acquire the locks of five
	// rows over a wide area; with fewer clients, transactions would not conflict.
	clients = 3
	// warehouses is the number of warehouses per partition. It equals the size of the largest group, so that a group
	// exists even with a single partition.
	warehouses = 5
)

// MaxName is the maximum length of the name of a run with functional tests. The names of the tests' BenchmarkRuns add a
// suffix to this name and may have at most 32 characters.
const MaxName = 32 - len("-deadlock")

// Runs returns the BenchmarkRuns of the tests of a run, in the order of spec.functionalTests. The specs of the tests
// are complete, as if the API server had set the defaults. Apart from the type, only names and specs are set.
func Runs(run *v1alpha1.BenchmarkRun) (out []*v1alpha1.BenchmarkRun) {
	for _, name := range run.Spec.FunctionalTests {
		t := tests[name]
		var objectives []v1alpha1.Objective
		if t.answered {
			none := intstr.FromInt32(0)
			// A client sees a deadlock as a transaction without an outcome in time.
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
