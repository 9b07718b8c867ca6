package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/worldtest"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
)

// update returns a transaction that reads the given version of row k and replaces it.
func update(id, version txn.ID, sent, answered time.Duration) history.Txn {
	return history.Txn{ID: id, Client: 1, Invoked: sent, Answered: answered, Status: txn.Committed, Ops: []history.Op{
		{Kind: history.Read, Key: txn.IntKey(1, 7), Version: version, Known: true}, {Kind: history.Write, Key: txn.IntKey(1, 7), Version: version, Known: true}}}
}

// inTurn returns a region's history. In the two regions' histories, transactions of both regions replace one row in
// turn.
func inTurn(region string) []history.Txn {
	if region == "us-west-2" {
		return []history.Txn{update(1, 0, 0, 10), update(3, 2, 40, 50)}
	}
	return []history.Txn{update(2, 1, 20, 30)}
}

func TestHistoryIsChecked(t *testing.T) {
	both := []v1alpha1.Verification{v1alpha1.VerifySerializable, v1alpha1.VerifyStrictSerializable}
	tests := map[string]struct {
		verify  []v1alpha1.Verification
		world   func(*worldtest.World)
		verdict v1alpha1.Verdict
		reason  string
		message string
	}{
		"in turn":         {both, func(w *worldtest.World) { w.RecordedHistory = inTurn }, v1alpha1.VerdictPassed, "ObjectivesHold", ""},
		"the link breaks": {both, func(w *worldtest.World) { w.RecordedHistory, w.HistoryAway = inTurn, 3 }, v1alpha1.VerdictPassed, "ObjectivesHold", ""},
		"a lost update": {both[:1], func(w *worldtest.World) {
			w.RecordedHistory = func(region string) []history.Txn {
				if region == "us-west-2" {
					return []history.Txn{update(1, 0, 0, 10)}
				}
				return []history.Txn{update(2, 0, 20, 30)}
			}
		}, v1alpha1.VerdictFailed, "CheckFailed", "not serializable (the history is read-committed): lost-update"},
		"a lost update, where snapshots are promised": {[]v1alpha1.Verification{v1alpha1.VerifySnapshotIsolation}, func(w *worldtest.World) {
			w.RecordedHistory = func(region string) []history.Txn {
				if region == "us-west-2" {
					return []history.Txn{update(1, 0, 0, 10)}
				}
				return []history.Txn{update(2, 0, 20, 30)}
			}
		}, v1alpha1.VerdictFailed, "CheckFailed", "not snapshot-isolation"},
		"an order that time forbids": {both[1:], func(w *worldtest.World) {
			w.RecordedHistory = func(region string) []history.Txn {
				if region == "us-west-2" {
					return []history.Txn{update(1, 2, 0, 10)}
				}
				return []history.Txn{update(2, 0, 20, 30)}
			}
		}, v1alpha1.VerdictFailed, "CheckFailed", "realtime"},
		"more than the operator has memory for": {both, func(w *worldtest.World) {
			w.RecordedHistory, w.Run.Memory = inTurn, background.NewBudget(3*220)
		}, v1alpha1.VerdictInvalid, "HistoryTooLarge", "checking 3 transactions with 6 operations"},
		"more than a worker may record": {both, func(w *worldtest.World) {
			w.RecordedHistory, w.HistoryFull = inTurn, true
		}, v1alpha1.VerdictInvalid, "HistoryTooLarge", "stopped recording after"},
		"a worker that ends before its history is fetched": {both, func(w *worldtest.World) {
			w.RecordedHistory, w.Pending = inTurn, 1 // pending transactions keep the run in Evaluate
		}, v1alpha1.VerdictInvalid, "HistoryLost", "its pod has ended"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			tt.world(w)
			w.Create(worldtest.MakeDatabase("d").Obj(), worldtest.MakeRun("r").Database("d").Duration(3*time.Second).Verify(tt.verify...).Obj())
			if w.Pending > 0 {
				w.UntilStage("r", v1alpha1.StageEvaluate)
				pod := w.WorkerPod("r", "us-west-2")
				pod.Status.Phase = corev1.PodSucceeded
				w.Must(w.Client.Status().Update(w.Ctx, pod))
				w.Pending = 0
			}
			st := w.UntilOver("r").Status
			if st.Verdict != tt.verdict || st.Reason != tt.reason || !strings.Contains(st.Message, tt.message) {
				t.Errorf("the run ended %s %s: %s", st.Verdict, st.Reason, st.Message)
			}
			if st.Stage != v1alpha1.StageCompleted || st.ReportRef == nil || st.Summary == nil || st.Summary.Committed == 0 {
				t.Errorf("stage %s, summary %+v: the figures are lost", st.Stage, st.Summary)
			}
			if tt.verdict == v1alpha1.VerdictPassed {
				names := fmt.Sprint(st.Checks)
				for _, v := range []string{"{serializable true 3 committed transactions with 6 operations", "{strict-serializable true"} {
					if !strings.Contains(names, v) {
						t.Errorf("checks are %s, without %s", names, v)
					}
				}
			}
			for _, n := range w.PlayedNodes {
				if n.Dataset != "" && !n.Traced {
					t.Error("a node was loaded without versions")
				}
			}
			w.RanOnce()
		})
	}
}
