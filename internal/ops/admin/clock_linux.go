package admin

import (
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is a clock that all processes of a machine share and nobody sets: neither the synchronisation of clocks nor
// a fault.
func Monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("admin: every Linux has CLOCK_MONOTONIC: " + err.Error())
	}
	return time.Duration(t.Nano())
}
