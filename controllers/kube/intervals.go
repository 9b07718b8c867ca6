package kube

import "time"

// RequestsPerSecond and RequestBurst are how many requests of a kind of object the operator sends to the API server:
// its own share of it is the API server's business (priority and fairness), but a fault that waits for its turn here
// is late.
const (
	RequestsPerSecond = 200
	RequestBurst      = 400
)

// The intervals at which controllers look again.
const (
	// PollFast is how often nodes are asked while something is expected to change, PollRun while a run uses the
	// database and PollSlow when all is well and nobody is watching. PollQueue is how often a run that waits for its
	// turn is looked at that nobody has woken up.
	PollFast  = 2 * time.Second
	PollRun   = 5 * time.Second
	PollSlow  = time.Minute
	PollQueue = 2 * time.Minute
)
