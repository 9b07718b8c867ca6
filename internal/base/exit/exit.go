// Package exit holds the exit codes of programs that run manifests.
package exit

// The exit codes; 0 is a run that passed.
const (
	Failed = 1 // a verdict is not Passed, a claim does not hold, or a run is worse than its baseline
	Usage  = 2 // bad input or usage
	Broken = 3 // could not run

	Interrupted = 130 // Ctrl-C: 128 and the signal's number, as shells say it
)
