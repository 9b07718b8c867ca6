package kube

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups="",resources=events,verbs=list

// NoPods returns why the cluster makes no pods for a StatefulSet or a Job: a quota, a LimitRange below a request, an admission that refuses them. Only
// its events tell. The reason is empty if there is none, or if the operator may not read events.
func NoPods(ctx context.Context, live client.Reader, kind, namespace, name string) string {
	events := &corev1.EventList{}
	of := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name, "reason": "FailedCreate"}
	if err := live.List(ctx, events, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: of.AsSelector()}); err != nil {
		return ""
	}
	var latest *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; latest == nil || lastOf(e).After(lastOf(latest)) {
			latest = e
		}
	}
	if latest == nil {
		return ""
	}
	_, why, found := strings.Cut(latest.Message, "rror creating: ") // of a Job's
	if !found {
		if _, why, found = strings.Cut(latest.Message, " failed error: "); !found { // of a StatefulSet's
			why = latest.Message
		}
	}
	return "the cluster makes no pod: " + Truncate(why, 512)
}

// lastOf returns when an event happened last.
func lastOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
