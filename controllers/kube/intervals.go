package kube

import "time"

// RequestsPerSecond and RequestBurst limit the operator's requests to the API server, per kind of object. They are
// high, because a fault would be late if its requests queued in the client. The API server already throttles the
// operator by priority and fairness.
const (
	RequestsPerSecond = 200
	RequestBurst      = 400
)

// The polling intervals of controllers.
const (
	// PollFast is the polling interval while a change is expected. PollRun is the interval while a run uses the database,
	// and PollSlow while the database is ready and idle. PollQueue is the interval for a run in the queue of a database,
	// which is normally woken up by an event.
	PollFast  = 2 * time.Second
	PollRun   = 5 * time.Second
	PollSlow  = time.Minute
	PollQueue = 2 * time.Minute
)
