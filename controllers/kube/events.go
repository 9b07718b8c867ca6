package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Event is a message about an object, which kubectl describe shows to users.
type Event struct {
	kind, reason, action, note string
	// logged is an additional message for the log, or "". keys alternates between keys and values of the log line.
	logged string
	keys   []any
}

// Logged returns the event with an additional log line: the message what, and keys with their values.
func (e Event) Logged(what string, keys ...any) Event {
	e.logged, e.keys = what, keys
	return e
}

func (e Event) emit(r events.EventRecorder, about runtime.Object) {
	r.Eventf(about, nil, e.kind, e.reason, e.action, "%s", Truncate(e.note, 1000))
}

// EmitAll records events about an object, and writes their log lines.
func EmitAll(ctx context.Context, all []Event, r events.EventRecorder, about runtime.Object) {
	for _, e := range all {
		e.emit(r, about)
		if e.logged != "" {
			log.FromContext(ctx).Info(e.logged, e.keys...)
		}
	}
}

// Normal returns an event for normal operation, with a reason, an action and a sentence.
func Normal(reason, action, note string) Event {
	return Event{kind: corev1.EventTypeNormal, reason: reason, action: action, note: note}
}

// Warning returns an event that needs a user's attention, with a reason, an action and a sentence.
func Warning(reason, action, note string) Event {
	return Event{kind: corev1.EventTypeWarning, reason: reason, action: action, note: note}
}

// Refused returns an event with the reason why the operator refuses a spec.
func Refused(r *Refusal) Event { return Warning(r.Reason, "Plan", r.Message) }

// CleanupFailed returns an event about objects that could not be removed.
func CleanupFailed(message string) Event {
	return Warning("CleanupFailed", "CleanUp", message)
}
