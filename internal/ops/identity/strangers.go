package identity

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// strangersEvery is the minimum time between two log lines about rejected peers.
const strangersEvery = 10 * time.Second

// Unauthenticated counts peers that are rejected because they cannot prove their identity, and logs them at intervals.
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

// Count returns the number of rejected peers.
func (s *Unauthenticated) Count() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
