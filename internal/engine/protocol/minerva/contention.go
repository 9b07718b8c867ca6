package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/engine/protocol"
)

// contention controls the high-contention mode of a replica (section 4). In this mode, transactions enter batches
// without optimistic execution, so that they are executed only once, at commit. The paper defines when the mode starts.
// It ends after the same time or, as in the authors' code, after some batches; the replica then tries optimistic
// execution again.
type contention struct {
	r         *Replica
	immediate bool
	off       bool

	on      bool
	since   time.Duration // when the mode started, or when most transactions began to be re-executed
	many    bool          // most transactions of the last epoch were re-executed
	left    int           // batches until the mode ends, if immediate
	entered int64
}

const (
	// sustained is both the time for which most transactions must have been re-executed before the mode starts, and the
	// duration of the mode.
	sustained = 200 * time.Millisecond
	// immediateBatches is the duration of the mode in batches of this replica, if a single epoch starts it.
	immediateBatches = 5
)

func (c *contention) init(r *Replica, p protocol.Params) {
	c.r = r
	c.immediate, c.off = p.Word("highContention") == contentionImmediate, p.Word("highContention") == contentionOff
}

// high reports whether the replica is in high-contention mode. It ends the mode when its time is over.
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

// epoch evaluates an epoch: valid transactions were committed as executed, again were re-executed. Transactions that
// were first executed at commit count in neither.
func (c *contention) epoch(valid, again int) {
	// An epoch without optimistic executions shows nothing about contention, and must not end the period that since
	// measures.
	if c.off || c.high() || valid+again == 0 {
		return
	}
	now, was := c.r.env.Now(), c.many
	if c.many = again > valid; !c.many {
		return
	}
	// The period starts with the first of consecutive epochs in which most transactions were re-executed.
	if !was {
		c.since = now
	}
	if c.immediate || now-c.since >= sustained {
		c.on, c.many, c.since, c.left = true, false, now, immediateBatches
		c.entered++
		c.r.env.Mark(contentionMode)
	}
}
