package raftgroup

import "time"

// Clock is a hybrid logical clock (Kulkarni et al. 2014). It returns the node's time in nanoseconds or, if that is
// greater, the largest timestamp that the node has received or issued.
type Clock struct{ last uint64 }

// Last returns the largest timestamp that the node has received or issued.
func (c *Clock) Last() uint64 { return c.last }

// Now returns the current timestamp. Two calls may return the same value.
func (c *Clock) Now(physical time.Duration) uint64 {
	c.last = max(c.last, uint64(max(physical, 0)))
	return c.last
}

// Tick returns a timestamp larger than every timestamp that the node has received or issued.
func (c *Clock) Tick(physical time.Duration) uint64 {
	c.last = max(c.last+1, uint64(max(physical, 0)))
	return c.last
}

// See records a timestamp received from another node.
func (c *Clock) See(t uint64) { c.last = max(c.last, t) }
