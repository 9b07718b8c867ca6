// Package faultstatus contains the code for the faults of a run that packages run and database share. timeline.go
// converts between the timeline of the faults and the status of the run. network.go applies faults to the network, and
// down.go determines the pods that faults keep down. Only package run acts on the faults.
package faultstatus
