package admin

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic returns the time on a clock that all processes of a machine share. Neither clock synchronization nor a
// fault changes this clock.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("admin: every Linux has CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(t.Nano())
}
