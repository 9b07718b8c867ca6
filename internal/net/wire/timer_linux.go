package wire

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// kernelTimer is a timerfd. The runtime's poller wakes its reader with the precision of the kernel's high-resolution
// timers, about 40 us late at the median.
type kernelTimer struct {
	fd int
	f  *os.File
}

func newKernelTimer() kernelTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic("wire: no timerfd: " + err.Error()) // out of file descriptors, so nothing else would work either
	}
	return kernelTimer{fd, os.NewFile(uintptr(fd), "timerfd")}
}

// arm sets the timer, and replaces an earlier setting.
func (t kernelTimer) arm(d time.Duration) {
	_ = unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

// wait returns true when the timer has gone off, and false once it is closed.
func (t kernelTimer) wait() bool {
	var b [8]byte
	_, err := t.f.Read(b[:])
	return err == nil
}

func (t kernelTimer) close() { _ = t.f.Close() }
