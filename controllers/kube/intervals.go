package kube

import "time"

// The intervals at which controllers look again.
const (
	// PollFast is how often nodes are asked while something is expected to change, PollRun while a run uses the database
	// and PollSlow when all is well and nobody is watching.
	PollFast = 2 * time.Second
	PollRun  = 5 * time.Second
	PollSlow = 30 * time.Second
)
