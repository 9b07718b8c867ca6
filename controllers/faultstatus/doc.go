// Package faultstatus contains the code for a run's faults that packages run and database share: the timeline in the
// status of the run (timeline.go), its effect on the network (network.go), and the pods that it keeps down (down.go).
// Only package run acts on the faults.
package faultstatus
