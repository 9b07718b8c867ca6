package wire

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/invariant"
)

var (
	loggedGrows  = invariant.New("wire.logged-grows", "the logged and acknowledged frame numbers of a link never decrease")
	receivedOnce = invariant.New("wire.received-once",
		"a link has received every logged frame and delivered every received frame")
	framesKept = invariant.New("wire.frames-kept",
		"the sender of a resumable link keeps all frames after the last acknowledged one, in order")
)

// Check checks the invariants of a link. While it runs, no goroutine may read from the link. Only tests call Check,
// because the drivers that check invariants have no links.
func (l *Link) Check(c *invariant.Checker) {
	name := fmt.Sprintf("the link to node %d", l.peer)
	logged, received := l.logged.Load(), l.received.Load()
	c.Grows(loggedGrows, name+", logged", uint64(logged))
	if l.e.cfg.Durable {
		c.That(receivedOnce, received >= logged, "%s has received %d frames, and %d are in the log", name, received, logged)
	}
	c.That(receivedOnce, l.delivered >= received, "%s has received %d frames, and delivered %d", name, received, l.delivered)

	s := &l.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Grows(loggedGrows, name+", acknowledged", uint64(s.acked))
	if !s.resumable || s.given {
		return
	}
	last := s.acked
	for _, held := range [...]*ring{&s.unacked, &s.queue} {
		for _, f := range held.c[held.head:] {
			if f.typ == frameData {
				c.That(framesKept, f.seq == last+1, "%s holds frame %d behind %d", name, f.seq, last)
				last = f.seq
			}
		}
	}
	c.That(framesKept, last >= s.last, "%s holds frames up to %d of %d", name, last, s.last)
}
