package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/geobench/geobench/api/v1alpha1"
)

// A program that ends while it is measured, and is started again in its pod, has been away: no fault says so.
func TestProgramRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(makeDatabase("d").program().client().emulation(v1alpha1.EmulationSidecar).obj(), makeRun("r").database("d").obj())
	w.untilStage("r", v1alpha1.StageMeasure)
	pod := w.nodePod("d", "ap-northeast-1", 0)
	c := &pod.Status.ContainerStatuses[0]
	c.RestartCount++
	c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	w.must(w.client.Status().Update(w.ctx, pod))
	invalid(t, w.untilOver("r"), "NodeLost", "d-ap-northeast-1-0", "OOMKilled")
}
