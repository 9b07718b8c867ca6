package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// contention controls the high-contention mode of a replica (section 4). In this mode, transactions enter batches
// without optimistic execution, so that they are executed only once, at commit. The paper defines when the mode starts.
// Here the replica leaves the mode after the same duration or, as in the authors' code, after a number of batches. It
// then tries optimistic execution again.
type contention struct {
	r         *Replica
	immediate bool
	off       bool

	on      bool
	since   time.Duration // start of the mode; before that, time of the first of the consecutive epochs that set many
	many    bool          // most transactions of the last epoch were re-executed
	left    int           // batches until the mode ends, if immediate
	entered int64
}

const (
	// sustained is the time for which most transactions must have been re-executed before the mode starts. It is also the
	// duration of the mode.
	sustained = 200 * time.Millisecond
	// immediateBatches is the duration of the mode if a single epoch starts it, in batches of this replica.
	immediateBatches = 5
)

func (c *contention) init(r *Replica, p protocol.Params) {
	c.r = r
	c.immediate, c.off = p.Word("highContention") == contentionImmediate, p.Word("highContention") == contentionOff
}

// high reports whether the replica is in high-contention mode. It leaves the mode once sustained has passed.
func (c *contention) high() bool {
	if c.on && !c.immediate && c.r.env.Now()-c.since >= sustained {
		c.on, c.many = false, false
	}
	return c.on
}

// sent counts a batch that the replica has sent in the mode.
func (c *contention) sent() {
	if c.on && c.immediate {
		c.left--
		c.on = c.left > 0
	}
}

// epoch evaluates the re-executions of an epoch. valid is the number of transactions that were committed as executed,
// and again is the number of re-executed transactions. Neither number includes transactions that were first executed at
// commit.
func (c *contention) epoch(valid, again int) {
	// An epoch without optimistic executions proves nothing about contention, so it must not end the period that started
	// at c.since.
	if c.off || c.high() || valid+again == 0 {
		return
	}
	now, was := c.r.env.Now(), c.many
	if c.many = again > valid; !c.many {
		return
	}
	// The period starts with the first of several consecutive epochs in which most transactions were re-executed.
	if !was {
		c.since = now
	}
	if c.immediate || now-c.since >= sustained {
		c.on, c.many, c.since, c.left = true, false, now, immediateBatches
		c.entered++
		c.r.env.Mark(contentionMode)
	}
}
