package faultstatus

import "time"

const (
	// StartLead is how far ahead of time the common start is announced: workers poll for it.
	StartLead = 5 * time.Second

	// Poll is how often a step of a fault that is not done is tried again, and Patience after how long the fault is
	// given up.
	Poll     = 500 * time.Millisecond
	Patience = 20 * time.Second
	// roleAhead is how long before a fault the nodes that have a role are looked up, so that all can be told in time, and
	// killAhead how long before a kill the processes that it is to end. Other faults are set up once the start is known.
	roleAhead = 3 * time.Second
	killAhead = 4 * time.Second
	// injectEarly is how long before its time a fault is in the operator's hands, which inject it when its time has come.
	injectEarly = 1500 * time.Millisecond
)
