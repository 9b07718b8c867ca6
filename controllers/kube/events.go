package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Event is something worth telling whoever describes an object.
type Event struct {
	kind, reason, action, note string
}

func (e Event) emit(r events.EventRecorder, about runtime.Object) {
	r.Eventf(about, nil, e.kind, e.reason, e.action, "%s", Truncate(e.note, 1000))
}

// EmitAll records events about an object.
func EmitAll(all []Event, r events.EventRecorder, about runtime.Object) {
	for _, e := range all {
		e.emit(r, about)
	}
}

// Normal is an event of something that went as it should: a reason, what was done, and a sentence.
func Normal(reason, action, note string) Event {
	return Event{corev1.EventTypeNormal, reason, action, note}
}

// Warning is an event of something that somebody should look at: a reason, what was done, and a sentence.
func Warning(reason, action, note string) Event {
	return Event{corev1.EventTypeWarning, reason, action, note}
}

// Refused tells why a spec is not carried out.
func Refused(r *Refusal) Event { return Warning(r.Reason, "Plan", r.Message) }

// CleanupFailed tells what could not be removed.
func CleanupFailed(message string) Event {
	return Warning("CleanupFailed", "CleanUp", message)
}
