//go:build unix

package late

import (
	"runtime"
	"syscall"
	"time"
)

// CPUTime returns the user and system time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// PeakMemory returns the largest resident memory that this process has had, in bytes; 0 if the kernel does not report
// it.
func PeakMemory() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) * maxrssBytes(runtime.GOOS)
}

// maxrssBytes returns the unit of getrusage's ru_maxrss, in bytes: 1 with Apple's kernels (getrusage(2) of macOS), 1024
// with Linux and the BSDs.
func maxrssBytes(goos string) int64 {
	switch goos {
	case "darwin", "ios":
		return 1
	default:
		return 1 << 10
	}
}
