//go:build full

package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestOperatorLeavesRoom(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{512 << 20: 483183819, math.MaxInt64: math.MaxInt64} {
		debug.SetMemoryLimit(limit)
		if leaveRoom(); debug.SetMemoryLimit(-1) != want {
			t.Errorf("of %d bytes, the Go runtime is to make do with %d, want %d", limit, debug.SetMemoryLimit(-1), want)
		}
	}
}
