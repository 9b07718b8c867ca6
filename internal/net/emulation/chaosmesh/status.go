package chaosmesh

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ForceFinalizer is an annotation. With the value Forced, it makes Chaos Mesh delete an object that it cannot recover.
const (
	ForceFinalizer = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
	Forced         = "forced"
)

// Status is the status of an object as reported by Chaos Mesh. AllInjected does not prove an effect; only measurements
// do.
type Status struct {
	Selected, AllInjected, AllRecovered, Paused bool
	// Records has one entry per selected pod or container.
	Records []Record
}

// Record is the status of an object in one pod or container. ID is namespace/pod or namespace/pod/container.
type Record struct {
	ID string
	// Injected reports whether the object is currently injected into the pod.
	Injected bool
	// Released reports whether the object has no effect on the pod, because it was recovered or never injected.
	Released bool
	// InjectedAt and RecoveredAt are the times of the last successful injection and recovery; zero if there was none.
	InjectedAt, RecoveredAt time.Time
	// Failure is the message of the last attempt if it failed; empty if it succeeded.
	Failure string
}

// ReadStatus returns the status of an object. Missing fields have their zero values.
func ReadStatus(u *unstructured.Unstructured) Status {
	var s Status
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		on := m["status"] == "True"
		switch m["type"] {
		case "Selected":
			s.Selected = on
		case "AllInjected":
			s.AllInjected = on
		case "AllRecovered":
			s.AllRecovered = on
		case "Paused":
			s.Paused = on
		}
	}
	records, _, _ := unstructured.NestedSlice(u.Object, "status", "experiment", "containerRecords")
	for _, r := range records {
		m, _ := r.(map[string]any)
		// While Chaos Mesh is working on a pod, the pod is in neither phase.
		record := Record{Injected: m["phase"] == "Injected", Released: m["phase"] == "Not Injected"}
		record.ID, _ = m["id"].(string)
		events, _ := m["events"].([]any)
		for _, e := range events {
			ev, _ := e.(map[string]any)
			text, _ := ev["timestamp"].(string)
			at, _ := time.Parse(time.RFC3339, text)
			switch {
			// Events are in chronological order. A success clears the failure of an earlier attempt.
			case ev["type"] == "Failed":
				record.Failure, _ = ev["message"].(string)
			case ev["operation"] == "Apply":
				record.InjectedAt, record.Failure = at, ""
			case ev["operation"] == "Recover":
				record.RecoveredAt, record.Failure = at, ""
			}
		}
		s.Records = append(s.Records, record)
	}
	return s
}

// Problem returns the reason why the object is not injected into every selected pod; empty if it is.
func (s Status) Problem() string {
	// A failure explains more than the conditions, so report it first.
	for _, r := range s.Records {
		if r.Failure != "" {
			return fmt.Sprintf("%s: %s", r.ID, r.Failure)
		}
	}
	switch {
	case !s.Selected:
		return "no pod is selected yet"
	case !s.AllInjected:
		return "not injected into every pod yet"
	}
	return ""
}
