// Package faultstatus is what both sides know of a run's faults, the run that plays them and the database that they are
// played on: the timeline as the status of the run has it (timeline.go), what it makes of the network (network.go), and
// which pods it keeps down (down.go). What is done about a fault is in package run.
package faultstatus
