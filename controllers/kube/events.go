package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Event is something worth telling whoever describes an object.
type Event struct {
	kind, reason, action, note string
	// logged is what the log says of it, besides; keys are those of the log's line, with their values.
	logged string
	keys   []any
}

// Logged returns the event as one that the log tells of too: what happened, and keys with their values.
func (e Event) Logged(what string, keys ...any) Event {
	e.logged, e.keys = what, keys
	return e
}

func (e Event) emit(r events.EventRecorder, about runtime.Object) {
	r.Eventf(about, nil, e.kind, e.reason, e.action, "%s", Truncate(e.note, 1000))
}

// EmitAll records events about an object, and logs those that are to be.
func EmitAll(ctx context.Context, all []Event, r events.EventRecorder, about runtime.Object) {
	for _, e := range all {
		e.emit(r, about)
		if e.logged != "" {
			log.FromContext(ctx).Info(e.logged, e.keys...)
		}
	}
}

// Normal is an event of something that went as it should: a reason, what was done, and a sentence.
func Normal(reason, action, note string) Event {
	return Event{kind: corev1.EventTypeNormal, reason: reason, action: action, note: note}
}

// Warning is an event of something that somebody should look at: a reason, what was done, and a sentence.
func Warning(reason, action, note string) Event {
	return Event{kind: corev1.EventTypeWarning, reason: reason, action: action, note: note}
}

// Refused tells why a spec is not carried out.
func Refused(r *Refusal) Event { return Warning(r.Reason, "Plan", r.Message) }

// CleanupFailed tells what could not be removed.
func CleanupFailed(message string) Event {
	return Warning("CleanupFailed", "CleanUp", message)
}
