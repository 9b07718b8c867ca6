package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// warmup creates the workers and waits until all have connected their clients. It then chooses a start time, sends it
// to the workers, and waits until measuring starts. The order of the steps is:
//
//	Jobs created -> WorkersCreated in the status -> all workers ready -> snapshot of the nodes' processes
//	-> start time in the status -> start time in each worker's ConfigMap, once -> measuring starts
func (s *scope) warmup(ctx context.Context) error {
	s.again = time.Second
	st := &s.run.Status
	if !s.isTrue(v1alpha1.ConditionWorkersCreated) {
		if err := s.createWorkers(ctx); err != nil {
			return err
		}
		// Once this is stored, a missing Job means that its workers are lost: the Job must not be created again.
		s.condition(v1alpha1.ConditionWorkersCreated, true, "Created", "the worker Jobs of all regions were made")
		s.again = time.Millisecond
		return nil
	}
	if st.WarmupStartTime == nil {
		if ready := s.inState(deploy.StateReady); ready < len(s.workers) {
			return s.awaitWorkers(ctx, ready)
		}
		if ok, err := s.awaitClocks(ctx); !ok {
			return err
		}
		if ok, err := s.noteProcesses(ctx); !ok {
			return err
		}
		s.setStart()
		return nil
	}
	if told, err := s.tellStart(ctx); !told {
		return err
	}
	if _, err := s.playFaults(ctx); err != nil {
		return err
	}
	if wait := st.MeasureStartTime.Sub(s.Clock.Now()); wait > 0 {
		s.condition(v1alpha1.ConditionMeasured, false, "WarmingUp",
			fmt.Sprintf("%d workers warm up until %s", len(s.workers), st.MeasureStartTime.UTC().Format(time.TimeOnly)))
		s.again = min(wait, kube.PollRun, s.again)
		return nil
	}
	s.enter(v1alpha1.StageMeasure)
	return nil
}

func (s *scope) awaitWorkers(ctx context.Context, ready int) error {
	message := fmt.Sprintf("%d of %d workers are ready", ready, len(s.workers))
	if i := slices.IndexFunc(s.workers, func(w workerState) bool { return w.state() != deploy.StateReady }); i >= 0 {
		message += fmt.Sprintf(": %s has not connected all of its clients yet", s.workers[i].place())
	}
	if problem, err := s.stuckWorker(ctx); err != nil {
		return err
	} else if problem != "" {
		message += "; " + problem
	}
	s.condition(v1alpha1.ConditionMeasured, false, "WaitingForWorkers", message)
	if s.Clock.Now().Sub(s.run.Status.StageStartTime.Time) > readyDeadline {
		s.fail("WorkersNotReady", "%s after %s", message, v1alpha1.DurationOf(readyDeadline))
	}
	return nil
}

// noteProcesses stores a snapshot with the nodes' processes. From here on, a different process means a lost node. A
// node without the data set was replaced after the load, so the run fails. noteProcesses returns false until the
// snapshot is stored.
func (s *scope) noteProcesses(ctx context.Context) (bool, error) {
	workload, err := json.Marshal(s.run.Spec.Workload)
	if err != nil {
		return false, err
	}
	want := datasetName(s.run, workload)
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.Status == nil || !n.Ready {
			s.condition(v1alpha1.ConditionMeasured, false, "WaitingForNodes", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
			return false, nil
		}
		if !s.stewarded() && n.Status.Dataset != want {
			s.fail("NodeLost", "node %s has lost the data set that it had loaded: it has %q, not %q", n.PodName, n.Status.Dataset, want)
			return false, nil
		}
	}
	if s.stewarded() {
		n, err := s.steward(ctx)
		if err != nil {
			return false, err
		}
		if !n.Ready {
			s.condition(v1alpha1.ConditionMeasured, false, "WaitingForNodes", fmt.Sprintf("steward %s: %s", n.PodName, n.Problem))
			return false, nil
		}
		if n.Status.Dataset != want {
			s.fail("StewardLost", "steward %s has not loaded the data of this run: it has %q, not %q", n.PodName, n.Status.Dataset, want)
			return false, nil
		}
	}
	was, err := s.readSnapshot(ctx, snapshotBefore)
	if was != nil || err != nil {
		return was != nil, err
	}
	if different, err := s.differentImages(ctx); err != nil {
		return false, err
	} else if different != "" {
		s.fail("ImagesDiffer", "%s", different)
		return false, nil
	}
	if err := s.holdPods(ctx); err != nil {
		return false, err
	}
	// The result shows the round trips of this snapshot, and the verdict depends on them. Starting the workers may have
	// kept the machine busy since stage Emulate, so wait until the round trips match the declared values again.
	if ok, err := s.networkHolds(); !ok {
		return false, err
	}
	if ok, err := s.enterMesh(ctx); !ok || err != nil {
		return false, err
	}
	_, err = s.takeSnapshot(ctx, snapshotBefore)
	return err == nil, err
}

// networkHolds reports whether the round trips that the nodes measure now match the declared values.
func (s *scope) networkHolds() (bool, error) {
	links, err := database.Measure(&s.current.Database.Topology, s.nodes)
	if err != nil {
		return false, err
	}
	v := database.VerifyNetwork(&s.current.Database, links, s.current.Emulation())
	if v.Verified {
		return true, nil
	}
	s.condition(v1alpha1.ConditionMeasured, false, "WaitingForNetwork", v.Message)
	if s.Clock.Now().Sub(s.run.Status.StageStartTime.Time) > readyDeadline {
		s.fail("NetworkNotVerified", "%s; it has been so since the workers got ready, for up to %s", v.Message, v1alpha1.DurationOf(readyDeadline))
	}
	return false, nil
}

// setStart chooses the common start time, which is written to the status before any worker receives it. If the run
// would exceed its deadline before everything is measured, setStart fails it now instead of after most of the work.
func (s *scope) setStart() {
	// The status has a resolution of microseconds, and reports must name exactly the stored start.
	start := metav1.NewMicroTime(s.Clock.Now().Add(faultstatus.StartLead).Truncate(time.Microsecond))
	if takes, limit := start.Add(measuredTime(&s.run.Spec.Load)).Sub(s.run.Status.StartTime.Time), runDeadline(s.run); takes > limit {
		s.fail("DeadlineExceeded", "the last window would close %s after the start of the run, which spec.deadline (%s) does not allow, since the stages before the load took %s; make spec.deadline at least %s",
			v1alpha1.DurationOf(takes.Round(time.Second)), v1alpha1.DurationOf(limit), v1alpha1.DurationOf(start.Sub(s.run.Status.StartTime.Time).Round(time.Second)),
			v1alpha1.DurationOf(takes.Round(time.Minute)+time.Minute))
		return
	}
	measure := metav1.NewMicroTime(start.Add(s.run.Spec.Load.Warmup.Duration))
	s.run.Status.WarmupStartTime, s.run.Status.MeasureStartTime = &start, &measure
	s.condition(v1alpha1.ConditionMeasured, false, "WarmingUp", fmt.Sprintf("%d workers start at %s", len(s.workers), start.UTC().Format(time.TimeOnly)))
	s.again = time.Millisecond
}

// startAt returns the common start time in the format for workers.
func startAt(run *v1alpha1.BenchmarkRun) string {
	return run.Status.WarmupStartTime.UTC().Format(time.RFC3339Nano)
}

// tellStart sends the start time to every worker that has not received it. The lock on the resource version ensures
// that a worker receives it only once. If the operator was down, too little time may be left. Then tellStart chooses a
// new start time if no worker has received the old one, and fails the run otherwise.
func (s *scope) tellStart(ctx context.Context) (bool, error) {
	start := s.run.Status.WarmupStartTime
	var untold []*workerState
	for i := range s.workers {
		if s.workers[i].report.Data[deploy.KeyStartAt] == "" {
			untold = append(untold, &s.workers[i])
		}
	}
	if len(untold) == 0 {
		return true, nil
	}
	if late := startSlack - start.Sub(s.Clock.Now()); late > 0 {
		if len(untold) < len(s.workers) {
			s.fail(result.ReasonStartMissed, "the operator was away while it told the workers when to start: %s was not told in time", untold[0].name())
			return false, nil
		}
		s.setStart()
		return false, nil
	}
	// Finish this even during shutdown: if only some workers received the start time, the run would be lost.
	ctx = context.WithoutCancel(ctx)
	for _, w := range untold {
		base := w.report.DeepCopy()
		if w.report.Data == nil {
			w.report.Data = map[string]string{}
		}
		w.report.Data[deploy.KeyStartAt] = startAt(s.run)
		if err := s.Client.Patch(ctx, w.report, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return false, err
		}
	}
	return true, nil
}
