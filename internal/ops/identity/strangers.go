package identity

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// strangersEvery is the least time between two lines in the log about those who are turned away.
const strangersEvery = 10 * time.Second

// Unauthenticated counts those who are turned away because they cannot prove who they are, and tells the log of them
// now and then.
type Unauthenticated struct {
	Log *slog.Logger

	mu    sync.Mutex
	count int64
	told  int64 // up to here, in the log
	last  time.Time
}

// Turned notes that somebody was turned away.
func (s *Unauthenticated) Turned(from net.Addr, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if now := time.Now(); now.Sub(s.last) >= strangersEvery {
		s.Log.Warn("somebody was turned away who cannot prove who he is", "from", from.String(), "reason", reason, "count", s.count-s.told)
		s.last, s.told = now, s.count
	}
}

// Count is how many were turned away.
func (s *Unauthenticated) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
