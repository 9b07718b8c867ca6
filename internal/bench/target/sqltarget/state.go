package sqltarget

import (
	"context"
	"errors"
	"fmt"

	"github.com/geobench/geobench/internal/bench/result"
)

// Stater is a Dialect that reports the settings of its servers. State gets a new connection, so that the defaults of
// users and databases apply as in any new session. It returns nil if the server reports no settings.
type Stater[C Conn] interface {
	State(ctx context.Context, c C) (*result.Server, error)
}

// Unlocker is a Dialect whose Lock acquires something that outlives the connection, such as a lease. Unlock releases
// it.
type Unlocker interface {
	Unlock() error
}

// State implements target.Stated.
func (d *database[C]) State(ctx context.Context) (out []result.Server, err error) {
	stater, ok := any(d.dialect).(Stater[C])
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, Silence, fmt.Errorf("the server did not tell its settings within %v", Silence))
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, endpoint := range d.servers {
		e := d.server.Endpoints[endpoint]
		s, err := d.stateAt(ctx, stater, e)
		if err != nil {
			return nil, fmt.Errorf("the settings of %s: %w", e.Address, causeOf(ctx, err))
		}
		if s != nil {
			s.Address = e.Address
			out = append(out, *s)
		}
	}
	return out, nil
}

// stateAt reads a server's state over a new connection.
func (d *database[C]) stateAt(ctx context.Context, stater Stater[C], e Endpoint) (s *result.Server, err error) {
	c, err := d.dial(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return stater.State(ctx, c)
}

// unlock releases the part of the lock that does not end with the connection.
func (d *database[C]) unlock() error {
	if u, ok := any(d.dialect).(Unlocker); ok {
		return u.Unlock()
	}
	return nil
}
