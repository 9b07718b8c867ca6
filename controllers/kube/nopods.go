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

// NoPods returns the reason why the cluster creates no pods for a StatefulSet or a Job. Examples are a quota, a
// LimitRange below a request, or an admission policy. Only events contain the reason. It returns "" if there is no such
// event, or if the operator may not list events.
func NoPods(ctx context.Context, live client.Reader, kind, namespace, name string) string {
	events := &corev1.EventList{}
	of := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name, "reason": "FailedCreate"}.AsSelector()
	err := live.List(ctx, events, client.InNamespace(namespace), client.MatchingFieldsSelector{Selector: of})
	if err != nil {
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
	_, why, found := strings.Cut(latest.Message, "Error creating: ") // the format for a Job
	if !found {
		if _, why, found = strings.Cut(latest.Message, " failed error: "); !found { // the format for a StatefulSet
			why = latest.Message
		}
	}
	return "the cluster makes no pod: " + Truncate(why, 512)
}

// lastOf returns the time of the last occurrence of an event.
func lastOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp.Time
	}
	return e.EventTime.Time
}
