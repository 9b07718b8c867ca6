//go:build !linux

package admin

import "time"

var began = time.Now()

// Monotonic returns the time since the start of the process. Neither clock synchronization nor a fault changes this
// clock.
func Monotonic() time.Duration { return time.Since(began) }
