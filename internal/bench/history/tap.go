package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// TapConfig configures a Tap.
type TapConfig struct {
	// Placement is the placement of rows, for Tap.Misclassified.
	Placement geo.Placement
	// Procedures contains the traced form of every procedure that the client calls: see TraceAll.
	Procedures *txn.Registry
	// Client returns the client process that sent the transaction with this ID: see Txn.Client.
	Client func(txn.ID) uint32
	// Record receives each transaction once its outcome is known, or at Finish. It must not retain t or its operations.
	// Writer.Add is suitable.
	Record func(t *Txn)
	// Clock returns the time at which an answer arrives; nil means ClientEnv.Now. A driver whose Now lags must supply a
	// clock. If an answer is recorded too early, the history contains an order that did not exist.
	Clock func() time.Duration
}

// Tap is a layer between a protocol.Client and its environment. It replaces the procedures that the client calls with
// their traced forms and records the results, transparently for the client. Use NewTap and Attach to create one.
type Tap struct {
	protocol.ClientEnv
	c     TapConfig
	inner protocol.Client
	open  map[txn.ID]call // transactions in flight
	err   error

	misclassified int64
	example       string // describes the first misclassified transaction
}

// call is a transaction in flight.
type call struct {
	sent time.Duration
	t    *txn.Transaction
}

// NewTap returns a tap in front of env. Pass the client that uses the tap as its environment to Attach.
func NewTap(env protocol.ClientEnv, c TapConfig) *Tap {
	if c.Clock == nil {
		c.Clock = env.Now
	}
	return &Tap{ClientEnv: env, c: c, open: map[txn.ID]call{}}
}

// Attach sets the client of the tap. It returns the client that the driver must use instead.
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
		panic(fmt.Sprintf("history: %v", err)) // cannot fail: the client's own call was valid
	}
	t.open[x.ID] = call{t.Now(), traced}
	t.ClientEnv.Submit(traced)
}

// complete records an outcome and returns it in the form that the client expects.
func (t *Tap) complete(o txn.Outcome) txn.Outcome {
	c, ok := t.open[o.ID]
	if !ok {
		return o
	}
	delete(t.open, o.ID)
	// A Clock that differs from Now may lag behind the time of sending.
	x := Txn{ID: o.ID, Client: t.c.Client(o.ID), Invoked: c.sent, Answered: max(c.sent, t.c.Clock()), Status: o.Status}
	if o.Status == txn.Committed {
		result, ops, err := SplitTrace(o.Result)
		if err != nil && t.err == nil {
			t.err = fmt.Errorf("transaction %v: %w", o.ID, err)
		}
		o.Result, x.Ops = result, ops
		if err == nil && !c.t.Exact {
			t.classify(&c.t.Footprint, ops, &o)
		}
	}
	t.c.Record(&x)
	return o
}

// classify checks the reported class of a transaction whose footprint was only a hint. The class must cover the
// used rows, and may also cover the hint's rows, because engines may fetch them beforehand.
func (t *Tap) classify(hint *txn.Footprint, ops []Op, o *txn.Outcome) {
	var all []txn.Access
	for i := range ops {
		if k := ops[i].Key; !k.Everywhere() {
			all = append(all, txn.Access{Key: k})
		}
	}
	least := t.c.Placement.Class(all)
	most := t.c.Placement.Class(append(all, hint.Accesses...))
	if o.Class&least == least && o.Class&^most == 0 {
		return
	}
	if t.misclassified == 0 {
		t.example = fmt.Sprintf("transaction %v was answered with class %v; the rows that it has used make it %v", o.ID, o.Class, least)
		if most != least {
			t.example += fmt.Sprintf(", with those that its hint names %v", most)
		}
	}
	t.misclassified++
}

// Misclassified returns the number of committed transactions without an exact footprint for which the database reported
// a wrong class (txn.Outcome.Class). The result example describes the first of these transactions.
func (t *Tap) Misclassified() (n int64, example string) { return t.misclassified, t.example }

// Finish records the transactions without an answer as unknown. It returns the first answer without a valid trace as an
// error; the history is then worthless.
func (t *Tap) Finish() error {
	ids := make([]txn.ID, 0, len(t.open))
	for id := range t.open {
		ids = append(ids, id)
	}
	// The order of a map is random, and histories of simulations must be reproducible.
	slices.Sort(ids)
	for _, id := range ids {
		sent := t.open[id].sent
		t.c.Record(&Txn{ID: id, Client: t.c.Client(id), Invoked: sent, Answered: sent, Status: txn.Unknown})
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
