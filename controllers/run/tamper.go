package run

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/chaosaudit"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
)

// meddled ends the run if Chaos Mesh has affected one of the given pods between the first warm-up and the end of the
// last window. It ignores the effects of the run's own faults and of the emulation of its database's network.
func (s *scope) meddled(pods []string) {
	if s.run.Status.WarmupStartTime == nil {
		return
	}
	names := make([]string, len(pods))
	for i, pod := range pods {
		names[i] = s.run.Namespace + "/" + pod
	}
	effects := s.Chaos.Between(names, s.run.Status.WarmupStartTime.Time, measureEnd(s.run), s.ownChaos)
	if len(effects) == 0 {
		return
	}
	e := &effects[0]
	until, more := "on", ""
	if !e.To.IsZero() {
		until = "to " + e.To.UTC().Format(time.TimeOnly)
	}
	if len(effects) > 1 {
		more = fmt.Sprintf(" (and %d more effects)", len(effects)-1)
	}
	s.fail(result.ReasonUndeclaredDisturbance, "in stage %s: %s, which is no fault of the manifest, was injected into pod %s from %s %s%s",
		s.run.Status.Stage, e, e.Pod, e.From.UTC().Format(time.TimeOnly), until, more)
}

// ownChaos reports whether the operator created the object for the run or its database. The operator deletes foreign
// objects that have the same labels.
func (s *scope) ownChaos(e *chaosaudit.Effect) bool {
	bears := func(labels map[string]string) bool {
		for k, v := range labels {
			if e.Labels[k] != v {
				return false
			}
		}
		return e.Namespace == s.run.Namespace
	}
	return e.Owner == s.run.UID && len(s.run.Spec.Faults) > 0 && bears(kube.RunLabels(s.run, kube.RoleFault)) ||
		e.Owner == s.db.UID && s.current.Emulation() == v1alpha1.EmulationChaosMesh && bears(kube.DatabaseLabels(s.db, kube.RoleNetwork))
}
