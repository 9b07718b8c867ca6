package chaosmesh

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ForceFinalizer is the annotation, with the value Forced, that makes Chaos Mesh give an object up that it cannot
// recover.
const (
	ForceFinalizer = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
	Forced         = "forced"
)

// Status is what an object says of itself. AllInjected does not prove an effect: measure it.
type Status struct {
	Selected, AllInjected, AllRecovered, Paused bool
	// Records are the pods or containers that were chosen.
	Records []Record
}

// Record is the status of one pod or container: namespace/pod or namespace/pod/container.
type Record struct {
	ID string
	// Injected reports whether the object is injected there now.
	Injected bool
	// Released says that nothing is left in it, or nothing was ever tried.
	Released bool
	// InjectedAt and RecoveredAt are the times of the last successful injection and recovery; zero if there was none.
	InjectedAt, RecoveredAt time.Time
	// Failure is the last message about a failure, empty when the last attempt succeeded.
	Failure string
}

// ReadStatus reads an object's status. Missing fields are false.
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
		record := Record{Injected: m["phase"] == "Injected", Released: m["phase"] == "Not Injected"}
		record.ID, _ = m["id"].(string)
		events, _ := m["events"].([]any)
		for _, e := range events {
			ev, _ := e.(map[string]any)
			text, _ := ev["timestamp"].(string)
			at, _ := time.Parse(time.RFC3339, text)
			switch {
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

// Problem returns the reason why an object is not injected everywhere, or an empty string if it is.
func (s Status) Problem() string {
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
