package load

import (
	"context"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/timers"
)

// driver runs a machine in real time against a target; it is the machine's protocol.ClientEnv. It is an event loop on
// the goroutine of its caller: receive outcomes, fire due timers, submit transactions to the session, wait.
type driver struct {
	machine *Machine
	session target.Session
	started time.Time
	offset  time.Duration
	now     time.Duration
	timers  timers.Queue

	mu     sync.Mutex
	inbox  []txn.Outcome
	signal chan struct{} // has a token if the inbox may be non-empty
}

// connect opens the session of a machine's clients, which then wait for the start. The caller must call play or close
// the session.
func connect(ctx context.Context, m *Machine, t target.Target) (*driver, error) {
	d := &driver{machine: m, signal: make(chan struct{}, 1)}
	var err error
	d.session, err = t.Open(ctx, d.put)
	return d, err
}

// play runs the machine until its schedule is over and every transaction has an outcome. It then closes the session.
// The schedule counts from epoch. An error stops the machine early; its report then holds the measurements so far,
// including the open window if the context was cancelled.
func (d *driver) play(ctx context.Context, epoch time.Time) error {
	// From here on, only the monotonic clock is used, so that a step of the wall clock does not move the windows.
	d.started = time.Now()
	d.offset = d.started.Sub(epoch)
	err := d.run(ctx, d.machine)
	if ctx.Err() != nil {
		d.machine.Stop()
	}
	if e := d.session.Close(); err == nil {
		err = e
	}
	return err
}

// refresh is the number of outcomes handled between two readings of the clock. Reading the clock for every outcome
// would cost as much as generating a transaction.
const refresh = 16

func (d *driver) run(ctx context.Context, m *Machine) error {
	d.tick()
	c := m.attach(d, d.clock)
	defer m.EndTrace()
	c.Start()
	wait := time.NewTimer(time.Hour)
	defer wait.Stop()
	var batch []txn.Outcome
	for !m.Finished() {
		d.tick()
		for {
			t, ok := d.timers.PopDue(d.now)
			if !ok {
				break
			}
			c.Fire(t)
		}
		batch = d.take(batch)
		for i := range batch {
			if i%refresh == refresh-1 {
				d.tick()
			}
			c.Complete(batch[i])
		}
		// The session sends all transactions that were submitted during the batch at once.
		d.session.Flush()
		if err := ctx.Err(); err != nil {
			return err
		}
		// More outcomes may have arrived meanwhile, so do not sleep yet.
		if len(batch) > 0 || m.Finished() {
			continue
		}
		d.tick()
		if at, ok := d.timers.Next(); ok {
			wait.Reset(max(0, at-d.now))
		} else {
			wait.Reset(time.Hour)
		}
		select {
		case <-d.signal:
		case <-wait.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (d *driver) tick() { d.now = d.clock() }

// clock returns the current time, whereas Now returns the time of the last tick.
func (d *driver) clock() time.Duration { return d.offset + time.Since(d.started) }

// put implements target.Sink.
func (d *driver) put(outcomes []txn.Outcome) {
	d.mu.Lock()
	// Only outcomes for an empty inbox must wake the loop; for a non-empty inbox, the signal already has a token.
	first := len(d.inbox) == 0
	d.inbox = append(d.inbox, outcomes...)
	d.mu.Unlock()
	if first {
		select {
		case d.signal <- struct{}{}:
		default:
		}
	}
}

// take returns the inbox and replaces it with the emptied buffer done. With two buffers, targets never wait for the
// machine.
func (d *driver) take(done []txn.Outcome) []txn.Outcome {
	// Release the outcomes' results to the garbage collector.
	clear(done)
	d.mu.Lock()
	full := d.inbox
	d.inbox = done[:0]
	d.mu.Unlock()
	return full
}

// Now implements protocol.ClientEnv.
func (d *driver) Now() time.Duration { return d.now }

// Submit implements protocol.ClientEnv.
func (d *driver) Submit(t *txn.Transaction) { d.session.Submit(t) }

// After implements protocol.ClientEnv.
func (d *driver) After(after time.Duration, t protocol.Timer) { d.timers.Push(d.now+after, t) }
