package late

import (
	"runtime"
	"syscall"
)

// PeakMemory returns the largest resident memory of this process so far, in bytes; 0 if the kernel does not say.
func PeakMemory() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) * maxrssBytes(runtime.GOOS)
}

// maxrssBytes returns the bytes in the unit of getrusage's ru_maxrss: a byte with Apple's kernels (getrusage(2) of
// macOS), a kilobyte with Linux and the BSDs.
func maxrssBytes(goos string) int64 {
	switch goos {
	case "darwin", "ios":
		return 1
	default:
		return 1 << 10
	}
}
