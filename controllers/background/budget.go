package background

import (
	"context"
	"slices"
	"sync"
)

// Budget is a resource that jobs of one kind share: a number of concurrent jobs, or bytes of memory. A job waits until
// its share is free. The next share goes to the namespace whose last share was granted longest ago. Within a namespace,
// it goes to the job that has waited longest. So a tenant with many jobs delays another tenant's jobs by at most one of
// its jobs.
type Budget struct {
	size, each int64

	mu sync.Mutex
	// used is the sum of all shares in use. usedBy is the same per namespace.
	used   int64
	usedBy map[string]int64
	// turns is the number of granted shares. lastTurn maps a namespace to the value of turns at its last share.
	turns    int64
	lastTurn map[string]int64
	waiting  []*waiter
}

// waiter is a job that waits for its share.
type waiter struct {
	namespace string
	share     int64
	// given is closed once the job has been granted its share.
	given chan struct{}
}

// NewBudget returns a budget of the given size without a limit per namespace.
func NewBudget(size int64) *Budget { return NewSharedBudget(size, size) }

// NewSharedBudget returns a budget of the given size. each limits the sum of the shares that one namespace uses. A
// single share may exceed this limit if the namespace uses no other share.
func NewSharedBudget(size, each int64) *Budget {
	return &Budget{size: size, each: each, usedBy: map[string]int64{}, lastTurn: map[string]int64{}}
}

// Size returns the size of the budget.
func (b *Budget) Size() int64 { return b.size }

// acquire blocks until a share is granted or ctx is done. The share must be at most the size of the budget.
func (b *Budget) acquire(ctx context.Context, namespace string, share int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &waiter{namespace, share, make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.give()
	b.mu.Unlock()
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	} else {
		b.free(namespace, share) // the share was granted in the meantime
	}
	b.give()
	return ctx.Err()
}

func (b *Budget) release(namespace string, share int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free(namespace, share)
	b.give()
}

func (b *Budget) free(namespace string, share int64) {
	b.used -= share
	if b.usedBy[namespace] -= share; b.usedBy[namespace] == 0 {
		delete(b.usedBy, namespace)
	}
}

// give grants shares in the order that Budget describes until the next job's share is not free. It does not skip that
// job: otherwise a job with a large share could wait without bound.
func (b *Budget) give() {
	for {
		next := -1
		for i, w := range b.waiting {
			// A namespace that uses no share may get a share larger than each. Otherwise the job would wait forever.
			if used := b.usedBy[w.namespace]; used > 0 && used+w.share > b.each {
				continue // the namespace has used its part of the budget
			}
			// If two jobs have equal turns, the job that has waited longer is first in the list and stays next.
			if next < 0 || b.lastTurn[w.namespace] < b.lastTurn[b.waiting[next].namespace] {
				next = i
			}
		}
		if next < 0 || b.used+b.waiting[next].share > b.size {
			break
		}
		w := b.waiting[next]
		b.waiting = slices.Delete(b.waiting, next, next+1)
		b.used += w.share
		b.usedBy[w.namespace] += w.share
		b.turns++
		b.lastTurn[w.namespace] = b.turns
		close(w.given)
	}
	// A namespace without jobs needs no entry. Removing the entry bounds the size of the map.
	for namespace := range b.lastTurn {
		if b.usedBy[namespace] == 0 && !slices.ContainsFunc(b.waiting, func(w *waiter) bool { return w.namespace == namespace }) {
			delete(b.lastTurn, namespace)
		}
	}
}
