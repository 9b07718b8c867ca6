// Package faultstatus has the view of a run's faults that packages run and database share. It has the timeline in the
// status of the run (timeline.go), its effect on the network (network.go), and the pods that it keeps down (down.go).
// Package run acts on the faults.
package faultstatus
