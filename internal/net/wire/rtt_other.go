//go:build !linux

package wire

import (
	"net"
	"time"
)

// minRTT returns 0, because the kernel's measurement is available only on Linux.
func minRTT(net.Conn) time.Duration { return 0 }
