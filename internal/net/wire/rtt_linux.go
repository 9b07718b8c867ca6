package wire

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// minRTT returns the kernel's minimum round trip of a TCP connection, or 0 if it is unknown.
func minRTT(conn net.Conn) (rtt time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return 0
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { // fails if the connection is closed
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			rtt = time.Duration(info.Min_rtt) * time.Microsecond
		}
	})
	if rtt == time.Duration(^uint32(0))*time.Microsecond { // the kernel's value for unknown
		return 0
	}
	return rtt
}
