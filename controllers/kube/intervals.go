package kube

import "time"

// RequestsPerSecond and RequestBurst limit the operator's requests to the API server, per kind of object. They are
// high: the API server already throttles the operator by priority and fairness, and a fault that queues in the client
// would be late.
const (
	RequestsPerSecond = 200
	RequestBurst      = 400
)

// The intervals at which controllers look again.
const (
	// PollFast is the polling interval of nodes while a change is expected, and PollRun the interval while a run uses the
	// database. PollSlow is the interval when all is well and no run uses it. PollQueue is the polling interval of a run
	// that waits for its turn and is not woken up.
	PollFast  = 2 * time.Second
	PollRun   = 5 * time.Second
	PollSlow  = time.Minute
	PollQueue = 2 * time.Minute
)
