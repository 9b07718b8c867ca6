//go:build !linux

package admin

import "time"

var began = time.Now()

// Monotonic is a clock that nobody sets: neither the synchronisation of clocks nor a fault. It begins with the process.
func Monotonic() time.Duration { return time.Since(began) }
