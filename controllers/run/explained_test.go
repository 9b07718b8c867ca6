package run_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/worldtest"
)

// A fault explains the exit of a container only while the fault affects the node.
func TestFaultsExplainRestartsWhileTheyAct(t *testing.T) {
	const skew = "[{name: skew, at: 2s, duration: 3s, clockSkew: {target: {regions: [ap-northeast-1]}, offset: 10ms}}]"
	for name, tt := range map[string]struct {
		ends   time.Duration // relative to the start of measuring
		reason string
	}{
		"while it acts": {3 * time.Second, ""},
		"afterwards":    {8 * time.Second, "NodeLost"},
		"before":        {500 * time.Millisecond, "NodeLost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldtest.NewWorld(t)
			db := worldtest.MakeDatabase("d").Obj()
			db.Spec.Durability = v1alpha1.DurabilityJournal
			w.Create(db, worldtest.MakeRun("r").Database("d").Faults(skew).Obj())
			w.UntilStage("r", v1alpha1.StageMeasure)
			start := w.GetRun("r").Status.MeasureStartTime.Time
			w.Until("it is time", func() bool { return w.FakeClock.Since(start) >= tt.ends })
			pod := w.NodePod("d", "ap-northeast-1", 0)
			c := &pod.Status.ContainerStatuses[0]
			c.RestartCount++
			c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, FinishedAt: metav1.NewTime(w.FakeClock.Now())}}
			w.Must(w.Client.Status().Update(w.Ctx, pod))
			over := w.UntilOver("r")
			if tt.reason == "" {
				passed(t, over)
			} else {
				invalid(t, over, tt.reason, "no fault of the manifest declares")
			}
		})
	}
}
