package run

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/fault"
)

// eventStage reports that a run enters stage to, with the reason.
func eventStage(run *v1alpha1.BenchmarkRun, to v1alpha1.Stage, reason string, now time.Time) kube.Event {
	st := &run.Status
	note, keys := "Started", []any{"run", run.Name, "stage", to, "reason", reason}
	if st.Stage != "" {
		took := now.Sub(st.StageStartTime.Time).Round(time.Second)
		note = fmt.Sprintf("%s took %s", st.Stage, v1alpha1.DurationOf(took))
		keys = append(keys, "from", st.Stage, "took", took.String())
	}
	return kube.Normal(string(to), "EnterStage", note).Logged("stage entered", keys...)
}

// eventFault reports a change of state of a fault.
func eventFault(run *v1alpha1.BenchmarkRun, l *fault.Life, reason, happened, what string) kube.Event {
	tell := kube.Normal
	if l.Problem != "" {
		tell = kube.Warning
	}
	return tell(reason, "PlayFaults", fmt.Sprintf("Fault %s (%s) %s", l.Fault.Name, l.Fault.Kind, what)).
		Logged(happened, "run", run.Name, "stage", run.Status.Stage, "reason", what, "fault", l.Fault.Name, "kind", l.Fault.Kind, "injector", l.Injector)
}

func eventWaiting(message string) kube.Event { return kube.Normal("Waiting", "Queue", message) }

// eventTest reports that BenchmarkRun by executes a functional test of run.
func eventTest(run *v1alpha1.BenchmarkRun, test v1alpha1.FunctionalTest, by *v1alpha1.BenchmarkRun) kube.Event {
	return kube.Normal("FunctionalTest", "PlayTests", fmt.Sprintf("BenchmarkRun %s plays functional test %s", by.Name, test)).
		Logged("functional test begins", "run", run.Name, "stage", run.Status.Stage, "reason", reasonTesting, "test", test, "by", by.Name)
}

// eventCompleted reports that a run has finished, with the verdict in its status.
func eventCompleted(run *v1alpha1.BenchmarkRun, message string) kube.Event {
	st := &run.Status
	e := kube.Normal(string(st.Verdict), "Complete", message)
	if st.Verdict != v1alpha1.VerdictPassed {
		e = kube.Warning(string(st.Verdict), "Complete", st.Reason+": "+message)
	}
	return e.Logged("run ended", "run", run.Name, "stage", st.Stage, "verdict", st.Verdict, "reason", st.Reason, "message", st.Message)
}
