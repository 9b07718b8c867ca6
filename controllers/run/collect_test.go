package run

import (
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
)

// The reconciliation of a run does not block while another run's reports are in memory.
func TestCollectWaitsForNobody(t *testing.T) {
	r := &Reconciler{}
	r.reading.Lock()
	s := &scope{Reconciler: r, run: &v1alpha1.BenchmarkRun{}}
	s.run.Status.Stage = v1alpha1.StageCollect
	if err := s.collect(t.Context()); err != nil || s.run.Status.Stage != v1alpha1.StageCollect || s.again <= 0 || s.again >= kube.PollFast {
		t.Errorf("stage %s, again in %v: %v", s.run.Status.Stage, s.again, err)
	}
}
