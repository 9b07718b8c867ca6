package load

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/txn"
)

// maxAttempts is the maximum of spec.load.retry.attempts.
const maxAttempts = 100

// retry configures which attempts are followed by another attempt, and when. The zero value means no retries.
type retry struct {
	attempts uint8 // maximum number of attempts of a transaction
	causes   [txn.NumCauses]bool
	backoff  backoff
}

// newRetry converts spec.load.retry; nil means no retries. Errors name the field of the manifest.
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

// covers reports whether an attempt with outcome o may be retried. The attempt must certainly have had no effect: an
// attempt with an unknown outcome may have committed, and a retry would take effect twice.
func (r *retry) covers(o *txn.Outcome) bool {
	return (o.Status == txn.Aborted || o.Status == txn.Refused) && r.causes[o.Cause]
}

// backoff is an exponential backoff: pauses double from first up to most.
type backoff struct {
	first, most   time.Duration // both before jitter
	jitterPercent int64
}

// refusalBackoff is the backoff of a client whose transactions are refused. It keeps the clients of an unavailable
// database from retrying frequently or at the same time.
var refusalBackoff = backoff{10 * time.Millisecond, time.Second, 50}

// pause returns the next pause of a transaction or client that has already paused n times in succession.
func (b *backoff) pause(n uint8, rng *rand.Rand) time.Duration {
	// The product is bounded as a floating-point number, because it may exceed 64 bits.
	d := time.Duration(math.Min(math.Ldexp(float64(b.first), int(n)), float64(b.most)))
	jitter := d / 100 * time.Duration(b.jitterPercent)
	if jitter == 0 {
		return d
	}
	return d - jitter + time.Duration(rng.Int64N(2*int64(jitter)))
}
