package faultstatus

import "time"

const (
	// StartLead is the time by which the announcement of the common start precedes it: workers poll for it.
	StartLead = 5 * time.Second

	// Poll is the time between attempts of an unfinished step of a fault, and Patience the time after which the fault is
	// abandoned.
	Poll     = 500 * time.Millisecond
	Patience = 20 * time.Second
	// roleAhead is the time before a fault at which the nodes with a role are looked up, so that all can be notified in
	// time. killAhead is the time before a kill at which the processes to kill are looked up. Other faults are set up once
	// the start is known.
	roleAhead = 3 * time.Second
	killAhead = 4 * time.Second
	// injectEarly is the time before a fault's start at which the operator takes over faults that it injects itself, at
	// their exact time.
	injectEarly = 1500 * time.Millisecond
)
