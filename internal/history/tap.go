package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/txn"
)

// TapConfig is what a Tap is made of.
type TapConfig struct {
	// Procedures holds the traced form of every procedure that the client calls: see TraceAll.
	Procedures *txn.Registry
	// Client returns the process that sent a transaction, by its id: see Txn.Client.
	Client func(txn.ID) uint32
	// Record takes each transaction when its fate is known. It must not keep t or its operations. Writer.Add fits.
	Record func(t *Txn)
	// Clock is read when an answer arrives; nil is ClientEnv.Now. A driver whose Now lags behind must give another, since
	// an answer that seems earlier than it was makes an order that was not.
	Clock func() time.Duration
}

// Tap stands between a protocol.Client and its world: it calls traced procedures instead of those that the client asks
// for, and records what comes of them. The client notices nothing. Attach makes one.
type Tap struct {
	protocol.ClientEnv
	c     TapConfig
	inner protocol.Client
	open  map[txn.ID]time.Duration // when each transaction under way was sent
	err   error
}

// NewTap returns a tap in front of env. The client that is made with it as its world is given to Attach.
func NewTap(env protocol.ClientEnv, c TapConfig) *Tap {
	if c.Clock == nil {
		c.Clock = env.Now
	}
	return &Tap{ClientEnv: env, c: c, open: map[txn.ID]time.Duration{}}
}

// Attach names the client behind the tap, and returns the client that the driver must drive in its place.
func (t *Tap) Attach(client protocol.Client) protocol.Client {
	t.inner = client
	return (*tapped)(t)
}

// Submit implements protocol.ClientEnv.
func (t *Tap) Submit(x *txn.Transaction) {
	args := make([]byte, 0, codec.SizeID(x.ID)+len(x.Args))
	args = append(codec.AppendID(args, x.ID), x.Args...)
	traced := &txn.Transaction{ID: x.ID, Proc: x.Proc + Traced, Attempt: x.Attempt, Home: x.Home, Args: args}
	if err := t.c.Procedures.Prepare(traced); err != nil {
		panic(fmt.Sprintf("history: %v", err)) // the client's own call was valid
	}
	t.open[x.ID] = t.Now()
	t.ClientEnv.Submit(traced)
}

// complete records an outcome and returns it as the client expects it.
func (t *Tap) complete(o txn.Outcome) txn.Outcome {
	sent, ok := t.open[o.ID]
	if !ok {
		return o
	}
	delete(t.open, o.ID)
	x := Txn{ID: o.ID, Client: t.c.Client(o.ID), Invoked: sent, Answered: max(sent, t.c.Clock()), Status: o.Status}
	if o.Status == txn.Committed {
		result, ops, err := SplitTrace(o.Result)
		if err != nil && t.err == nil {
			t.err = fmt.Errorf("transaction %v: %w", o.ID, err)
		}
		o.Result, x.Ops = result, ops
	}
	t.c.Record(&x)
	return o
}

// Finish records the transactions that were never answered, as unknown. It returns the first error: an answer that
// held no trace, after which the history is worthless.
func (t *Tap) Finish() error {
	ids := make([]txn.ID, 0, len(t.open))
	for id := range t.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t.c.Record(&Txn{ID: id, Client: t.c.Client(id), Invoked: t.open[id], Answered: t.open[id], Status: txn.Unknown})
	}
	clear(t.open)
	return t.err
}

// tapped is the driver's side of a Tap.
type tapped Tap

// Start implements protocol.Client.
func (t *tapped) Start() { t.inner.Start() }

// Complete implements protocol.Client.
func (t *tapped) Complete(o txn.Outcome) { t.inner.Complete((*Tap)(t).complete(o)) }

// Fire implements protocol.Client.
func (t *tapped) Fire(timer protocol.Timer) { t.inner.Fire(timer) }
