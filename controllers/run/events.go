package run

import (
	"fmt"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/fault"
)

func eventStage(from, to v1alpha1.Stage, took time.Duration) kube.Event {
	if from == "" {
		return kube.Normal(string(to), "EnterStage", "Started")
	}
	return kube.Normal(string(to), "EnterStage", string(from)+" took "+v1alpha1.DurationOf(took.Round(time.Second)).String())
}

func eventFault(l *fault.Life, reason, what string) kube.Event {
	tell := kube.Normal
	if l.Problem != "" {
		tell = kube.Warning
	}
	return tell(reason, "PlayFaults", fmt.Sprintf("Fault %s (%s) %s", l.Fault.Name, l.Fault.Kind, what))
}

func eventWaiting(message string) kube.Event { return kube.Normal("Waiting", "Queue", message) }

func eventCompleted(verdict v1alpha1.Verdict, reason, message string) kube.Event {
	if verdict != v1alpha1.VerdictPassed {
		return kube.Warning(string(verdict), "Complete", reason+": "+message)
	}
	return kube.Normal(string(verdict), "Complete", message)
}
