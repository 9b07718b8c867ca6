package result

import (
	"slices"
	"time"
)

// Execution identifies the execution of the run that the document describes, by its ID and the times of its windows.
// Times are read from the clock of the operator or of the measuring process. A document belongs to another execution if
// its times differ from the times in the status of its run.
type Execution struct {
	// ID is status.execution of the BenchmarkRun; empty outside a cluster.
	ID string `json:"id,omitempty"`
	// WarmupStartTime is the time at which the clients started.
	WarmupStartTime time.Time `json:"warmupStartTime"`
	// Windows are the measured windows, in order.
	Windows []OpenWindow `json:"windows"`
}

// OpenWindow is the time during which a measured window was open.
type OpenWindow struct {
	// Repetition counts from 1.
	Repetition int       `json:"repetition"`
	Opened     time.Time `json:"opened"`
	Closed     time.Time `json:"closed"`
}

// Cut keeps only the windows that were measured before the run was cancelled. It sets the end of each window to
// duration after its start.
func (e *Execution) Cut(repetitions int, duration time.Duration) {
	if e == nil { // simulations have no execution
		return
	}
	e.Windows = e.Windows[:min(repetitions, len(e.Windows))]
	for i := range e.Windows {
		// The status stores times with a resolution of a microsecond; Same compares at that resolution.
		e.Windows[i].Closed = e.Windows[i].Opened.Add(duration.Truncate(time.Microsecond))
	}
}

// Same reports whether two executions have the same ID and, to the microsecond, the same times. nil equals only nil.
func (e *Execution) Same(other *Execution) bool {
	if e == nil || other == nil {
		return e == other
	}
	at := func(a, b time.Time) bool { return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond)) }
	return e.ID == other.ID && at(e.WarmupStartTime, other.WarmupStartTime) && slices.EqualFunc(e.Windows, other.Windows, func(a, b OpenWindow) bool {
		return a.Repetition == b.Repetition && at(a.Opened, b.Opened) && at(a.Closed, b.Closed)
	})
}
