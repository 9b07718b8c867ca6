package sqltarget

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/ops/admin"
)

// Database is an open target.Database. Its opener must close it.
type Database interface {
	target.Database
	target.Described
	// Waits reports whether, according to the server of a region, the client's running statement waits for another
	// transaction.
	Waits(ctx context.Context, region geo.Region, client target.Connection) (bool, error)
	// CatchUp returns once the clients of every region can read everything that was committed before the call.
	CatchUp(ctx context.Context) error
	// Close drops the place if Options.Drop is set, and closes the remaining connections. The clients must have
	// disconnected.
	Close() error
}

// database implements Database.
type database[C Conn] struct {
	topology  *geo.Topology
	server    Server
	options   Options
	dialect   Dialect[C]
	mark      string
	pending   atomic.Int64
	described result.Target
	made      Made
	data      target.Dataset

	mu sync.Mutex
	// asked contains the query connection of each endpoint. The first connection holds the lock of the place. An entry is
	// not open if its connection has not been dialed yet or has broken. servers lists the first endpoint of each server.
	asked   []asked[C]
	servers []int
	// serverOf maps each endpoint to the first endpoint of the same server.
	serverOf []int
}

type asked[C Conn] struct {
	c    C
	open bool
}

// Session returns a unique name by which servers identify a run. It consists of letters, digits and dashes.
func Session() string { return "geobench-" + strings.ToLower(rand.Text()) }

// Open opens a database for topology t, whose regions are the regions of the endpoints of s. It checks that the
// database is usable, and creates the table. session is a name from Session. The caller closes the database.
//
// If the manifest does not match the database, the error is a *target.FieldError, and Open leaves no objects in the
// database.
func Open[C Conn](ctx context.Context, t *geo.Topology, s Server, o Options, d Dialect[C], session string) (Database, error) {
	db := newDatabase(t, s, o, d, session)
	if err := db.open(ctx); err != nil {
		return nil, errors.Join(err, db.undo())
	}
	return db, nil
}

// Join returns the target of a region's clients and the round-trip time to their endpoint. Another process must already
// have opened the database with the same session. Join creates nothing in the database. Errors are as described for
// Open.
func Join[C Conn](ctx context.Context, t *geo.Topology, s Server, o Options, d Dialect[C], session string, region geo.Region) (target.Target, time.Duration, error) {
	db := newDatabase(t, s, o, d, session)
	ctx, cancel := context.WithTimeout(ctx, ConnectWithin+Silence)
	defer cancel()
	e := s.Endpoints[region]
	c, err := db.dial(ctx, e)
	if err != nil {
		return nil, 0, d.Explain(ctx, e, err)
	}
	defer c.Close() //nolint:errcheck // its answers have been read
	if _, _, err := d.Look(ctx, c, e); err != nil {
		return nil, 0, err
	}
	if err := db.sameDatabase(ctx, c, e); err != nil {
		return nil, 0, err
	}
	took, err := roundTrip(ctx, c)
	return db.Clients(region), took, err
}

func newDatabase[C Conn](t *geo.Topology, s Server, o Options, d Dialect[C], session string) *database[C] {
	return &database[C]{
		topology: t, server: s, options: o, dialect: d, mark: Mark + session, asked: make([]asked[C], len(s.Endpoints)),
		described: result.Target{Isolation: d.IsolationName(), Form: formName(&o), Messages: d.Messages(), Placement: placementName(&o)},
	}
}

// placementName returns the value of the parameter placement.
func placementName(o *Options) string {
	if o.Homes {
		return PlacementHomes
	}
	return PlacementOwnership
}

// open inspects all endpoints, and then creates the table.
func (d *database[C]) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(d.server.Endpoints))*(ConnectWithin+Silence))
	defer cancel()
	regions := map[string]int{} // number of regions that each server serves
	first := map[string]int{}
	var servers []string
	for i, e := range d.server.Endpoints {
		c, err := d.dial(ctx, e)
		if err != nil {
			return d.dialect.Explain(ctx, e, err)
		}
		d.asked[i] = asked[C]{c, true}
		version, server, err := d.dialect.Look(ctx, c, e)
		if err != nil {
			return err
		}
		took, err := roundTrip(ctx, c)
		if err != nil {
			return err
		}
		d.described.Server = version
		d.described.Endpoints = append(d.described.Endpoints, result.TargetEndpoint{Region: e.Region, RTTMicroseconds: result.Microseconds(took)})
		// Endpoints of several regions may lead to the same server. Check the capacity and count the activity of each server
		// only once.
		if _, ok := first[server]; !ok {
			first[server] = i
			servers = append(servers, server)
			d.servers = append(d.servers, i)
		}
		d.serverOf = append(d.serverOf, first[server])
		regions[server]++
	}
	for _, server := range servers {
		if err := d.capacity(ctx, d.asked[first[server]].c, regions[server]); err != nil {
			return err
		}
	}
	if err := d.makeTable(ctx, d.asked[0].c); err != nil {
		return err
	}
	// Equal versions do not prove that two addresses lead to one database. The mark does, because it is unique to this
	// run.
	for i, e := range d.server.Endpoints[1:] {
		if err := d.sameDatabase(ctx, d.asked[i+1].c, e); err != nil {
			return err
		}
	}
	return d.keepServers()
}

// keepServers keeps the first connection to each server and closes all other connections.
func (d *database[C]) keepServers() error {
	var err error
	for i := range d.asked {
		keep := false
		for _, j := range d.servers {
			keep = keep || i == j
		}
		if !keep {
			err = errors.Join(err, d.end(i))
		}
	}
	return err
}

// end closes the query connection of endpoint i.
func (d *database[C]) end(i int) error {
	a := d.asked[i]
	// The entry is cleared first, so that a failed Close is not repeated.
	d.asked[i] = asked[C]{}
	if !a.open {
		return nil
	}
	return a.c.Close()
}

// capacity checks that a server has enough free connections for the clients of the given number of regions.
func (d *database[C]) capacity(ctx context.Context, c C, regions int) error {
	left, err := d.dialect.Left(ctx, c)
	if err != nil {
		return err
	}
	const own = 1 // the query connection
	if need := regions*d.options.Connections + own; need > left {
		return Wrong(ParameterField(ConnectionsParameter), strconv.Itoa(d.options.Connections),
			"%d regions x %d connections and %d more are %d, and the server has %d left: take at most %d, or raise its max_connections",
			regions, d.options.Connections, own, need, left, max(0, left-own)/regions)
	}
	return nil
}

// makeTable takes the lock of the place and creates the table if it does not exist. The lock belongs to connection c.
func (d *database[C]) makeTable(ctx context.Context, c C) error {
	locked, err := d.dialect.Lock(ctx, c)
	if err != nil {
		return err
	}
	if !locked {
		return Wrong(ParameterField(d.dialect.PlaceParameter()), d.options.Place, "another run uses this %s of the database now: wait for it, or use another %[1]s", d.dialect.PlaceWord())
	}
	d.made, err = d.dialect.Make(ctx, c, d.mark)
	return err
}

// sameDatabase checks that an endpoint leads to the same database as the first endpoint: the table at the endpoint must
// have this run's mark.
func (d *database[C]) sameDatabase(ctx context.Context, c C, e Endpoint) error {
	mark, err := d.dialect.Marked(ctx, c)
	if err == nil && mark != d.mark {
		err = Wrong(d.server.Field(e), e.Address,
			"the table of Geobench there is not the one of this run, made at %s (region %s): all endpoints lead to the same database, and nobody else uses the %s meanwhile",
			d.server.Endpoints[0].Address, d.server.Endpoints[0].Region, d.dialect.PlaceWord())
	}
	return err
}

// undo drops the objects that a failed open has created, and closes the database.
func (d *database[C]) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), Silence)
	defer cancel()
	var err error
	// Only a table that this run has created may be dropped; an existing table stays, even if it is Geobench's.
	if d.made.Table {
		err = d.dialect.Drop(ctx, d.asked[0].c, d.made.Place)
	}
	return errors.Join(err, d.unlock(), d.endAll())
}

func (d *database[C]) endAll() error {
	var err error
	for i := range d.asked {
		err = errors.Join(err, d.end(i))
	}
	return err
}

// Close implements Database.
func (d *database[C]) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.options.Drop {
		ctx, cancel := context.WithTimeout(context.Background(), Silence)
		defer cancel()
		var c C
		if c, err = d.reach(ctx, 0); err == nil {
			err = d.dialect.Drop(ctx, c, true)
		}
		if err != nil {
			err = fmt.Errorf("the %s %s could not be dropped: %w", d.dialect.PlaceWord(), d.options.Place, err)
		}
	}
	return errors.Join(err, d.unlock(), d.endAll())
}

// reach returns the query connection to an endpoint. It reconnects if the connection has broken, which also loses the
// lock of the place. The mark of the table then shows whether another run has used the place in the meantime.
func (d *database[C]) reach(ctx context.Context, endpoint int) (c C, err error) {
	// If open is not set, a.c is the zero value, and calling Broken on it could panic.
	if a := d.asked[endpoint]; a.open && !a.c.Broken() {
		return a.c, nil
	}
	_ = d.end(endpoint)
	e := d.server.Endpoints[endpoint]
	c, err = d.dial(ctx, e)
	if err != nil {
		return c, err
	}
	// The lock was lost with the old connection, so another run may have taken the place in the meantime.
	if err := d.sameDatabase(ctx, c, e); err != nil {
		return c, errors.Join(err, c.Close())
	}
	d.asked[endpoint] = asked[C]{c, true}
	return c, nil
}

// dial opens a query connection.
func (d *database[C]) dial(ctx context.Context, e Endpoint) (c C, err error) {
	err = openWithin(ctx, func(ctx context.Context) error {
		c, err = d.dialect.Dial(ctx, e)
		return err
	})
	return c, err
}

// openWithin applies ConnectWithin to the whole setup of a connection. The dialects' own timeouts cover only the
// server's first answers.
func openWithin(ctx context.Context, open func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ConnectWithin, fmt.Errorf("the server said nothing more while a connection was opened, which took longer than %v", ConnectWithin))
	defer cancel()
	if err := open(ctx); err != nil {
		return causeOf(ctx, err)
	}
	return nil
}

// ask runs a read-only query on the server of an endpoint. It retries once if the connection turns out to be broken.
func (d *database[C]) ask(ctx context.Context, endpoint int, question func(C) error) error {
	for again := true; ; again = false {
		c, err := d.reach(ctx, endpoint)
		if err != nil {
			return err
		}
		// An idle connection may have broken long ago, which is detected only at its next use. Hence one retry; a second
		// broken connection is an error.
		if err = question(c); err == nil || !again || !c.Broken() || ctx.Err() != nil {
			return err
		}
	}
}

// Describe implements target.Described.
func (d *database[C]) Describe() result.Target { return d.described }

// Clients implements target.Database.
func (d *database[C]) Clients(region geo.Region) target.Target {
	return &target.Statements{
		Procedures: catalog.Procedures(), Placement: d.topology.Placement(), Connections: d.options.Connections, Pending: &d.pending,
		Connect: func(ctx context.Context) (c target.Connection, err error) {
			err = openWithin(ctx, func(ctx context.Context) error {
				c, err = d.dialect.Connect(ctx, d.server.Endpoints[region])
				return err
			})
			return c, err
		},
		Classify: d.dialect.Classify,
	}
}

// Layout implements target.Database. The database counts as one copy.
func (d *database[C]) Layout() geo.Layout { return d.topology.Whole(0) }

// Status implements target.Database.
func (d *database[C]) Status(context.Context) ([]admin.Status, error) { return nil, nil }

// Activity implements target.Database. It queries the servers, because a transaction whose connection broke may still
// be running there.
func (d *database[C]) Activity(ctx context.Context) (a target.Activity, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Silence, fmt.Errorf("the server did not say within %v what it works on", Silence))
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, endpoint := range d.servers {
		err = d.ask(ctx, endpoint, func(c C) error {
			n, err := d.dialect.Working(ctx, c)
			if err == nil {
				a.Pending += n
			}
			return err
		})
		if err != nil {
			return target.Activity{}, fmt.Errorf("%s: %w", d.server.Endpoints[endpoint].Address, causeOf(ctx, err))
		}
	}
	// The two counts overlap, because a transaction of a client is usually also a busy session. Return the larger count: a
	// server may not show a transaction yet, or may still run a transaction whose client has disconnected.
	a.Pending = max(a.Pending, int(d.pending.Load()))
	return a, nil
}

// Waits implements Database.
func (d *database[C]) Waits(ctx context.Context, region geo.Region, client target.Connection) (waits bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, Silence, fmt.Errorf("the server did not say within %v who waits for whom", Silence))
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	endpoint := d.serverOf[region]
	err = d.ask(ctx, endpoint, func(c C) error {
		waits, err = d.dialect.Waits(ctx, c, client)
		return err
	})
	var field *target.FieldError
	if err != nil && !errors.As(err, &field) {
		err = fmt.Errorf("%s: %w", d.server.Endpoints[endpoint].Address, causeOf(ctx, err))
	}
	return waits, err
}

// CatchUp implements Database. It waits for all servers concurrently.
func (d *database[C]) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Silence, fmt.Errorf("the server did not show within %v what was committed", Silence))
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	var g errgroup.Group
	for _, endpoint := range d.servers {
		// reach changes d.asked, so it runs outside the goroutines.
		c, err := d.reach(ctx, endpoint)
		g.Go(func() error {
			if err == nil {
				err = d.dialect.CatchUp(ctx, c)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", d.server.Endpoints[endpoint].Address, causeOf(ctx, err))
			}
			return err
		})
	}
	return g.Wait()
}

// Audit implements target.Database. A single statement reads all rows in one snapshot.
func (d *database[C]) Audit(ctx context.Context, _ func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	if d.options.Form == FormSQL {
		return d.auditForm(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The audit of a large table may take arbitrarily long, so limit only the time without a row.
	hung := time.AfterFunc(Silence, func() { cancel(fmt.Errorf("the server has said nothing for %v", Silence)) })
	defer hung.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows store.Store
	err := d.calm(ctx, func(c C) error {
		// calm may repeat the query after a failed attempt that has already loaded rows, so start with an empty store.
		rows = store.NewHash()
		n := 0
		return d.dialect.Rows(ctx, c, func(k, value []byte) {
			rows.Load(txn.Key(k), CopyOf(value))
			const often = 1024
			if n++; n%often == 0 {
				hung.Reset(Silence)
			}
		})
	})
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	layout := d.Layout()
	return [][]store.ShardSums{audit.Of(0, &layout, rows, d.data.Workload, d.data.Traced)}, nil
}

// calm sends a query to the first endpoint, and repeats it up to four times after conflicts. A database that orders
// transactions by timestamp may abort a large read that finds rows with uncertain timestamps.
func (d *database[C]) calm(ctx context.Context, question func(C) error) (err error) {
	const times = 5
	for range times {
		// Retry only after conflicts, because any other error would recur.
		if err = d.ask(ctx, 0, question); err == nil || d.dialect.Classify(err).Cause != txn.CauseConflict {
			return err
		}
	}
	return err
}

// CopyOf returns a copy of value, which is non-nil even if value is nil.
func CopyOf(value []byte) []byte { return append(make([]byte, 0, len(value)), value...) }

// causeOf returns the cause of ctx if ctx has ended, and err otherwise.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

const (
	// chunk is the approximate size in bytes of the rows that are loaded together. loadersMost is the maximum number of
	// connections that load concurrently. This number keeps the server busy without overloading it.
	chunk       = 256 << 10
	loadersMost = 8
)

// Load implements target.Database. It loads over several connections to the first endpoint. An operation has no
// deadline while the server still answers pings.
func (d *database[C]) Load(ctx context.Context, data target.Dataset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Check before Empty: refusing a data set must not destroy the existing rows.
	if f, ok := any(d.dialect).(Fitter); ok {
		if err := f.Fits(d.topology, data); err != nil {
			return err
		}
	}
	form, err := d.formOf(data.Workload)
	if err != nil {
		return err
	}
	if err := d.ordered(ctx, 0, d.dialect.Empty); err != nil {
		return fmt.Errorf("removing the rows that were there: %w", err)
	}
	d.data = data
	c, err := d.reach(ctx, 0)
	if err != nil {
		return err
	}
	copyIn := d.copyIn
	if form != nil {
		if copyIn, err = d.formed(ctx, form, data.Traced); err != nil {
			return err
		}
	}
	if err := whileItAnswers(ctx, c, func(ctx context.Context) error { return copyIn(ctx, data) }); err != nil {
		return fmt.Errorf("loading: %w", err)
	}
	// Clients may connect to any server, so each must have settled.
	for _, endpoint := range d.servers {
		if err := d.ordered(ctx, endpoint, d.dialect.Settle); err != nil {
			return fmt.Errorf("settling what was loaded: %w", err)
		}
	}
	return nil
}

// ordered runs an operation of unbounded duration on the server of an endpoint. Meanwhile it pings the server over a
// second connection. No clients are connected yet, so nothing else would detect a failure.
func (d *database[C]) ordered(ctx context.Context, endpoint int, order func(context.Context, C) error) error {
	c, err := d.reach(ctx, endpoint)
	if err != nil {
		return err
	}
	beside, err := d.dial(ctx, d.server.Endpoints[endpoint])
	if err != nil {
		return err
	}
	defer beside.Close() //nolint:errcheck // its answers have been read
	return whileItAnswers(ctx, beside, func(ctx context.Context) error { return order(ctx, c) })
}

// whileItAnswers runs do without a deadline. It pings the server over c, which must otherwise be idle, and cancels do
// if the server no longer answers.
func whileItAnswers(ctx context.Context, c Conn, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		tick := time.NewTicker(Silence / 3)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			asked, stop := context.WithTimeout(ctx, Silence)
			if err := c.Ping(asked); err != nil {
				cancel(fmt.Errorf("the server no longer answers: it was asked for a sign of life, and there was none within %v (%w)", Silence, err))
			}
			stop()
		}
	})
	err := do(ctx)
	if err != nil {
		err = causeOf(ctx, err)
	}
	// Stop the pings and wait for the goroutine, so that the caller can use or close c.
	cancel(nil)
	asking.Wait()
	return err
}

func (d *database[C]) copyIn(ctx context.Context, data target.Dataset) error {
	chunks := make(chan []byte)
	g, ctx := errgroup.WithContext(ctx)
	for range min(loadersMost, 2*runtime.GOMAXPROCS(0), d.options.Connections) {
		g.Go(func() error { return d.dialect.Copy(ctx, d.server.Endpoints[0], chunks) })
	}
	g.Go(func() error {
		defer close(chunks)
		layout := d.Layout()
		var rows int64
		var buffer []byte
		send := func() {
			if len(buffer) == 0 {
				return
			}
			select {
			case chunks <- buffer:
				if data.Progress != nil {
					data.Progress(rows)
				}
			case <-ctx.Done():
			}
			// A receiver may still use the sent bytes, so the next chunk needs a new buffer.
			buffer = nil
		}
		err := workload.Fill(data.Workload, &layout, 0, func(k txn.Key, value []byte) {
			buffer = d.dialect.AppendRow(buffer, k, value)
			rows++
			if len(buffer) >= chunk {
				send()
			}
		})
		send()
		return err
	})
	return g.Wait()
}
