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

// driver runs a machine in real time against a target: it is the machine's environment, its protocol.ClientEnv. It is
// one event loop on its caller's goroutine: take the received outcomes, fire the due timers, hand submitted
// transactions to the session, wait.
type driver struct {
	machine *Machine
	session target.Session
	started time.Time
	offset  time.Duration
	now     time.Duration
	timers  timers.Queue

	mu     sync.Mutex
	inbox  []txn.Outcome
	signal chan struct{} // holds a token when the inbox may have something
}

// connect opens the session of a machine's clients, which then wait for their start. The caller plays or closes it.
func connect(ctx context.Context, m *Machine, t target.Target) (*driver, error) {
	d := &driver{machine: m, signal: make(chan struct{}, 1)}
	var err error
	d.session, err = t.Open(ctx, d.put)
	return d, err
}

// play runs the machine until its schedule is over and every transaction has its outcome, and closes the session. The
// schedule counts from epoch. An error stops it early; the machine's report then holds the measurements so far. If the
// context ended, the report also includes the open window.
func (d *driver) play(ctx context.Context, epoch time.Time) error {
	// From here on the monotonic clock alone counts: a step of the wall clock must not move the windows.
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

// refresh is the number of outcomes handled between two looks at the clock, which would otherwise cost as much as
// making a transaction.
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
		d.session.Flush()
		if err := ctx.Err(); err != nil {
			return err
		}
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

// clock is the current time, while Now is the time of the last tick.
func (d *driver) clock() time.Duration { return d.offset + time.Since(d.started) }

// put is the target.Sink.
func (d *driver) put(outcomes []txn.Outcome) {
	d.mu.Lock()
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

// take exchanges the full inbox for an empty one: with two buffers, targets never wait for the machine.
func (d *driver) take(done []txn.Outcome) []txn.Outcome {
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
