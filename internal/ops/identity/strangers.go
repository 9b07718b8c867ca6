package identity

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// strangersEvery is the minimum time between two log lines about rejected peers.
const strangersEvery = 10 * time.Second

// Unauthenticated counts peers that were rejected because they could not prove their identity. It logs such peers, but
// not more often than once per strangersEvery.
type Unauthenticated struct {
	Log *slog.Logger

	mu    sync.Mutex
	count int64
	told  int64 // value of count when it was last logged
	last  time.Time
}

// Turned records a rejected peer.
func (s *Unauthenticated) Turned(from net.Addr, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	// Limit the rate, so that a client that connects in a loop does not fill the log.
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
