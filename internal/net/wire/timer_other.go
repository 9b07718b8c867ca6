//go:build !linux

package wire

import (
	"sync"
	"time"
)

// kernelTimer is a runtime timer, for systems without timerfd.
type kernelTimer struct{ s *timerState }

type timerState struct {
	t    *time.Timer
	done chan struct{}
	once sync.Once
}

func newKernelTimer() kernelTimer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return kernelTimer{&timerState{t: t, done: make(chan struct{})}}
}

func (t kernelTimer) arm(d time.Duration) { t.s.t.Reset(d) }

func (t kernelTimer) wait() bool {
	select {
	case <-t.s.t.C:
		return true
	case <-t.s.done:
		return false
	}
}

func (t kernelTimer) close() { t.s.once.Do(func() { t.s.t.Stop(); close(t.s.done) }) }
