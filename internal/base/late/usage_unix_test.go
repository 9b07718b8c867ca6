//go:build unix

package late

import (
	"runtime"
	"runtime/metrics"
	"testing"
)

// ru_maxrss is in bytes on macOS and in kilobytes on Linux.
func TestUnitOfPeakMemory(t *testing.T) {
	for goos, want := range map[string]int64{"linux": 1024, "freebsd": 1024, "openbsd": 1024, "darwin": 1, "ios": 1} {
		if got := maxrssBytes(goos); got != want {
			t.Errorf("%s: a unit of %d bytes, want %d", goos, got, want)
		}
	}
}

// TestPeakMemory checks that the peak lies between the memory that the test has written and the memory that the runtime
// has mapped. If the unit were 1024 times too small or too large, a bound would be violated on every system. The upper
// bound includes room for the race detector's shadow memory.
func TestPeakMemory(t *testing.T) {
	const touched, program = 64 << 20, 1 << 30
	block := make([]byte, touched)
	for i := range block {
		block[i] = byte(i)
	}
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(sample)
	mapped := int64(sample[0].Value.Uint64())
	if got := PeakMemory(); got < touched || got > 16*mapped+program {
		t.Errorf("%d bytes, of which %d were written to; the runtime has mapped %d", got, touched, mapped)
	}
	runtime.KeepAlive(block)
}
