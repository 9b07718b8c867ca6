package faultstatus

import "time"

const (
	// StartLead is the time between the announcement of the common start time and the start itself. It exceeds the
	// interval at which workers poll for the start time.
	StartLead = 5 * time.Second

	// Poll is the time between attempts at an unfinished step of a fault. Patience is the time after which the fault is
	// abandoned.
	Poll     = 500 * time.Millisecond
	Patience = 20 * time.Second
	// roleAhead applies to a fault whose targets are the nodes with a role. It is the time before the start of the fault
	// at which these nodes are determined, and is long enough to notify all of them. killAhead is the time before a kill
	// at which the processes to kill are determined. All other faults are set up once the start time is known.
	roleAhead = 3 * time.Second
	killAhead = 4 * time.Second
	// injectEarly is the time before a fault's start from which the operator waits for the exact start, if the operator
	// injects the fault itself.
	injectEarly = 1500 * time.Millisecond
)
