//go:build !linux

package kernel

import "runtime"

// Probe returns an Answer with an error: only Linux has queueing disciplines.
func Probe() *Answer {
	return &Answer{Error: "queueing disciplines need Linux, and this is " + runtime.GOOS}
}
