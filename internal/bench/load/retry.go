package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
)

// maxAttempts is the most that spec.load.retry.attempts can be.
const maxAttempts = 100

// retry says which attempts are followed by another, and when. The zero value is none.
type retry struct {
	attempts uint8 // of a transaction, at most
	causes   [txn.NumCauses]bool
	backoff  backoff
}

// newRetry reads spec.load.retry; nil is none. Errors name the manifest's field.
func newRetry(spec *v1alpha1.Retry) (r retry, err error) {
	const field = "spec.load.retry."
	if spec == nil {
		return retry{}, nil
	}
	switch {
	case spec.Attempts < 1 || spec.Attempts > maxAttempts:
		return r, fmt.Errorf(field+"attempts: %d is not between 1 and %d, the first attempt included", spec.Attempts, maxAttempts)
	case spec.Backoff.Duration < 0:
		return r, fmt.Errorf(field+"backoff: %s is negative", spec.Backoff)
	case spec.MaxBackoff.Duration < spec.Backoff.Duration:
		return r, fmt.Errorf(field+"maxBackoff: %s is shorter than backoff (%s)", spec.MaxBackoff, spec.Backoff)
	case spec.Jitter < 0 || spec.Jitter > 100:
		return r, fmt.Errorf(field+"jitter: %d is not between 0 and 100 percent", spec.Jitter)
	case len(spec.Causes) == 0:
		return r, fmt.Errorf(field + "causes: it is empty, which retries nothing: list Conflict, Node or both")
	}
	r.attempts = uint8(spec.Attempts)
	r.backoff = backoff{spec.Backoff.Duration, spec.MaxBackoff.Duration, int64(spec.Jitter)}
	for i, c := range spec.Causes {
		switch c {
		case v1alpha1.RetryConflict:
			r.causes[txn.CauseConflict] = true
		case v1alpha1.RetryNode:
			r.causes[txn.CauseNode] = true
		default:
			return r, fmt.Errorf(field+"causes[%d]: %q is not one of Conflict, Node", i, c)
		}
	}
	return r, nil
}

// covers reports whether an attempt with outcome o may be retried. It must have left no trace, whatever its cause: an
// attempt with an unknown outcome may have committed, and would then take effect twice.
func (r *retry) covers(o *txn.Outcome) bool {
	return (o.Status == txn.Aborted || o.Status == txn.Refused) && r.causes[o.Cause]
}

// backoff is a pause that doubles.
type backoff struct {
	first, most   time.Duration // before jitter
	jitterPercent int64
}

// refusalBackoff is the pause of a client whose transaction was refused. It keeps the clients of an unavailable
// database from retrying together or often.
var refusalBackoff = backoff{10 * time.Millisecond, time.Second, 50}

// pause draws the next pause after n consecutive pauses.
func (b *backoff) pause(n uint8, rng *rand.Rand) time.Duration {
	d := time.Duration(math.Min(math.Ldexp(float64(b.first), int(n)), float64(b.most)))
	jitter := d / 100 * time.Duration(b.jitterPercent)
	if jitter == 0 {
		return d
	}
	return d - jitter + time.Duration(rng.Int64N(2*int64(jitter)))
}
