package target

import (
	"context"
	"sync"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/result"
)

// NewNoop returns a target that commits every transaction immediately. result computes an outcome's result; if it is
// nil, results are empty.
func NewNoop(result func(t *txn.Transaction) []byte) Target { return noop{result} }

type noop struct{ result func(*txn.Transaction) []byte }

// Open implements Target.
func (n noop) Open(_ context.Context, sink Sink) (Session, error) {
	s := &noopSession{result: n.result, signal: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run(sink)
	return s, nil
}

// Incidents implements Target.
func (noop) Incidents() []result.Incident { return nil }

// Close implements Target.
func (noop) Close() error { return nil }

type noopSession struct {
	result func(*txn.Transaction) []byte
	batch  []txn.Outcome // submitted, but not flushed

	mu      sync.Mutex
	flushed []txn.Outcome
	closed  bool
	signal  chan struct{} // holds a token if flushed or closed has changed
	done    chan struct{}
}

// Submit implements Session.
func (s *noopSession) Submit(t *txn.Transaction) {
	o := txn.Outcome{ID: t.ID, Status: txn.Committed}
	if s.result != nil {
		o.Result = s.result(t)
	}
	s.batch = append(s.batch, o)
}

// Flush implements Session.
func (s *noopSession) Flush() {
	if len(s.batch) == 0 {
		return
	}
	s.mu.Lock()
	// Swapping the slices reuses the array that run has finished with, so that the no-op target adds little garbage to
	// the measurement.
	if len(s.flushed) == 0 {
		s.flushed, s.batch = s.batch, s.flushed
	} else {
		s.flushed = append(s.flushed, s.batch...)
		s.batch = s.batch[:0]
	}
	s.mu.Unlock()
	s.notify()
}

// Close implements Session.
func (s *noopSession) Close() error {
	// Flush first, so that every submitted transaction reaches the sink before run sees closed.
	s.Flush()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.notify()
	<-s.done
	return nil
}

func (s *noopSession) notify() {
	select {
	// signal has room for one token. A token that is already in the channel announces this change, too.
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *noopSession) run(sink Sink) {
	defer close(s.done)
	var batch []txn.Outcome
	for {
		s.mu.Lock()
		batch, s.flushed = s.flushed, batch[:0]
		closed := s.closed
		s.mu.Unlock()
		if len(batch) > 0 {
			sink(batch)
			// Outcomes may have been flushed during the call of sink. Read flushed again before closed can end the loop.
			continue
		}
		if closed {
			return
		}
		<-s.signal
	}
}
