// Package exit defines the exit codes of programs that run manifests.
package exit

// Exit codes. 0 means that all runs passed.
const (
	Failed = 1 // a verdict is not Passed, a claim does not hold, or a run is worse than its baseline
	Usage  = 2 // bad input or usage
	Broken = 3 // could not run

	Interrupted = 130 // interrupted by Ctrl-C: 128 plus the number of the signal, as in shells
)
