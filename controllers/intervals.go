package controllers

import "time"

// The intervals at which controllers look again.
const (
	// pollFast is how often nodes are asked while something is expected to change, pollRun while a run uses the database
	// and pollSlow when all is well and nobody is watching.
	pollFast = 2 * time.Second
	pollRun  = 5 * time.Second
	pollSlow = 30 * time.Second
)
