package history

import (
	"errors"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Taps records the transactions of all clients of an environment in one history.
type Taps struct {
	// Placement and Procedures are used as in TapConfig.
	Placement  geo.Placement
	Procedures *txn.Registry
	History    History

	taps []*Tap
}

// Client returns a constructor for clients of a region. It calls newClient to create a client, with a tap as the
// client's environment. process is TapConfig.Client.
func (x *Taps) Client(region string, process func(txn.ID) uint32, newClient func(protocol.ClientEnv) protocol.Client) func(protocol.ClientEnv) protocol.Client {
	n := x.History.Region(region)
	return func(env protocol.ClientEnv) protocol.Client {
		tap := NewTap(env, TapConfig{
			Placement: x.Placement, Procedures: x.Procedures, Client: process, Record: func(t *Txn) { x.History.Add(n, t) },
		})
		x.taps = append(x.taps, tap)
		return tap.Attach(newClient(tap))
	}
}

// Len returns the number of clients.
func (x *Taps) Len() int { return len(x.taps) }

// Finish finishes the taps of all clients: see Tap.Finish.
func (x *Taps) Finish() error {
	var errs []error
	for _, tap := range x.taps {
		errs = append(errs, tap.Finish())
	}
	return errors.Join(errs...)
}

// Misclassified returns the sum of Tap.Misclassified over all clients, with the first example.
func (x *Taps) Misclassified() (n int64, example string) {
	for _, tap := range x.taps {
		m, first := tap.Misclassified()
		if n == 0 {
			example = first
		}
		n += m
	}
	return n, example
}
