package spanner

import "time"

// clock is a hybrid logical clock (Kulkarni et al. 2014): it shows the node's time in nanoseconds, and never less than
// a timestamp that the node has seen or given.
type clock struct{ last uint64 }

// now returns the time.
func (c *clock) now(physical time.Duration) uint64 {
	c.last = max(c.last, uint64(max(physical, 0)))
	return c.last
}

// tick returns a timestamp that is larger than all that the node has seen or given.
func (c *clock) tick(physical time.Duration) uint64 {
	c.last = max(c.last+1, uint64(max(physical, 0)))
	return c.last
}

// see takes a timestamp of another node.
func (c *clock) see(t uint64) { c.last = max(c.last, t) }
