package late

import (
	"time"

	"golang.org/x/sys/windows"
)

// CPUTime returns the user and kernel time that this process has used.
func CPUTime() time.Duration {
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &exited, &kernel, &user) != nil {
		return 0
	}
	// Filetime counts units of 100 ns. Its method Nanoseconds does not apply here, because it is for times since 1601.
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}

// PeakMemory returns 0, because the peak is not measured on Windows.
func PeakMemory() int64 { return 0 }
