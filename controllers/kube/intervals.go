package kube

import "time"

// The intervals at which controllers look again.
const (
	// PollFast is how often nodes are asked while something is expected to change, PollRun while a run uses the database
	// and PollSlow when all is well and nobody is watching. PollQueue is how often a run that waits for its turn is looked at that
	// nobody has woken up.
	PollFast  = 2 * time.Second
	PollRun   = 5 * time.Second
	PollSlow  = time.Minute
	PollQueue = 2 * time.Minute
)
