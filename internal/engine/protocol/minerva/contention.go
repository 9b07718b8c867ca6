package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// contention controls the high-contention mode of a replica (section 4). In this mode, transactions are put into
// batches without being executed, so that they are executed once, at their commit. The paper defines when the mode
// starts. It stops after the same time or, as in the authors' code, after some batches: then the replica tries
// optimistic execution again.
type contention struct {
	r         *Replica
	immediate bool
	off       bool

	on      bool
	since   time.Duration // when it began, or when most transactions began to be executed again
	many    bool          // most of the last epoch's were
	left    int           // batches, if immediate
	entered int64
}

const (
	// sustained is the time for which most transactions must have been executed again, and the duration of the mode after
	// that.
	sustained = 200 * time.Millisecond
	// immediateBatches is the number of batches for which the mode lasts if a single epoch has started it.
	immediateBatches = 5
)

func (c *contention) init(r *Replica, p protocol.Params) {
	c.r = r
	c.immediate, c.off = p.Word("highContention") == contentionImmediate, p.Word("highContention") == contentionOff
}

// high reports whether the replica is in the mode.
func (c *contention) high() bool {
	if c.on && !c.immediate && c.r.env.Now()-c.since >= sustained {
		c.on, c.many = false, false
	}
	return c.on
}

// sent counts a batch of the replica.
func (c *contention) sent() {
	if c.on && c.immediate {
		c.left--
		c.on = c.left > 0
	}
}

// epoch learns how many of an epoch's transactions were valid, and how many were executed again. Those executed at
// their commit alone do not count.
func (c *contention) epoch(valid, again int) {
	if c.off || c.high() || valid+again == 0 {
		return
	}
	now, was := c.r.env.Now(), c.many
	if c.many = again > valid; !c.many {
		return
	}
	if !was {
		c.since = now
	}
	if c.immediate || now-c.since >= sustained {
		c.on, c.many, c.since, c.left = true, false, now, immediateBatches
		c.entered++
		c.r.env.Mark(contentionMode)
	}
}
