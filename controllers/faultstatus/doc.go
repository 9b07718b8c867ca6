// Package faultstatus contains the code for a run's faults that packages run and database share. The file timeline.go
// contains the timeline in the status of the run. The file network.go contains its effect on the network, and down.go
// the pods that it keeps down. Only package run acts on the faults.
package faultstatus
