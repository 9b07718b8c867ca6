package controllers

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/fault"
)

// event is something worth telling whoever describes an object.
type event struct {
	kind, reason, action, note string
}

func (e event) emit(r events.EventRecorder, about runtime.Object) {
	r.Eventf(about, nil, e.kind, e.reason, e.action, "%s", truncate(e.note, 1000))
}

func emitAll(all []event, r events.EventRecorder, about runtime.Object) {
	for _, e := range all {
		e.emit(r, about)
	}
}

func normal(reason, action, note string) event {
	return event{corev1.EventTypeNormal, reason, action, note}
}

func warning(reason, action, note string) event {
	return event{corev1.EventTypeWarning, reason, action, note}
}

func eventDeployed(incarnation, cause string) event {
	return normal("Deployed", "Deploy", "Made incarnation "+incarnation+": "+cause)
}

func eventStateLost(why string) event { return warning("StateLost", "Watch", why) }

func eventRefused(r *refusal) event { return warning(r.reason, "Plan", r.message) }

func eventDatabaseReady(nodes string) event {
	return normal("Ready", "Watch", nodes+" nodes are ready")
}

func eventNetworkVerified(message string) event {
	return normal("NetworkVerified", "Measure", message)
}

func eventNetworkLost(message string) event {
	return warning("NetworkNotVerified", "Measure", message)
}

func eventStage(from, to v1alpha1.Stage, took time.Duration) event {
	if from == "" {
		return normal(string(to), "EnterStage", "Started")
	}
	return normal(string(to), "EnterStage", string(from)+" took "+v1alpha1.DurationOf(took.Round(time.Second)).String())
}

func eventFault(l *fault.Life, reason, what string) event {
	tell := normal
	if l.Problem != "" {
		tell = warning
	}
	return tell(reason, "PlayFaults", fmt.Sprintf("Fault %s (%s) %s", l.Fault.Name, l.Fault.Kind, what))
}

func eventWaiting(message string) event { return normal("Waiting", "Queue", message) }

func eventCompleted(verdict v1alpha1.Verdict, reason, message string) event {
	if verdict != v1alpha1.VerdictPassed {
		return warning(string(verdict), "Complete", reason+": "+message)
	}
	return normal(string(verdict), "Complete", message)
}

func eventCleanupFailed(message string) event {
	return warning("CleanupFailed", "CleanUp", message)
}

// truncate shortens s to at most limit bytes.
func truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 3 && s[limit-3]&0xc0 == 0x80 {
		limit--
	}
	return s[:limit-3] + "..."
}
