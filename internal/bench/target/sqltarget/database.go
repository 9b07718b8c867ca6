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

// Database is a target.Database whose owner closes it.
type Database interface {
	target.Database
	target.Described
	// Waits reports whether the database says that a statement of a client of a region, which is under way, waits for
	// another transaction.
	Waits(ctx context.Context, region geo.Region, client target.Connection) (bool, error)
	// CatchUp returns once the clients of every region are shown all that was committed before.
	CatchUp(ctx context.Context) error
	// Close drops what Options.Drop asks for, and ends the last connections. The clients are gone by then.
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
	// asked are the connections for queries, by endpoint: the first connection holds the lock of the place. A connection
	// that has not been opened, or has broken, is not open. servers has one endpoint of each server.
	asked   []asked[C]
	servers []int
	// serverOf is, for each endpoint, the entry of servers that leads to the same server.
	serverOf []int
}

type asked[C Conn] struct {
	c    C
	open bool
}

// Session returns a unique name for a run's activity at a server, of letters, digits and dashes.
func Session() string { return "geobench-" + strings.ToLower(rand.Text()) }

// Open opens a database for a topology, whose regions are the regions of the server's endpoints. It checks that the
// database is usable, and creates the table. An error in the manifest is a *target.FieldError, and leaves no objects in
// the database. The caller closes the database. session is a name of Session.
func Open[C Conn](ctx context.Context, t *geo.Topology, s Server, o Options, d Dialect[C], session string) (Database, error) {
	db := newDatabase(t, s, o, d, session)
	if err := db.open(ctx); err != nil {
		return nil, errors.Join(err, db.undo())
	}
	return db, nil
}

// Join returns the target of a region's clients, for a database that another process has opened with the same session,
// and its round trip. It creates nothing. The error is as in Open.
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

// placementName is the value of the parameter placement.
func placementName(o *Options) string {
	if o.Homes {
		return PlacementHomes
	}
	return PlacementOwnership
}

// open looks at every endpoint before anything is made.
func (d *database[C]) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(d.server.Endpoints))*(ConnectWithin+Silence))
	defer cancel()
	regions := map[string]int{} // of each server
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
	for i, e := range d.server.Endpoints[1:] {
		if err := d.sameDatabase(ctx, d.asked[i+1].c, e); err != nil {
			return err
		}
	}
	return d.keepServers()
}

// keepServers closes the connections to servers that another connection leads to.
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

// end ends a connection for questions.
func (d *database[C]) end(i int) error {
	a := d.asked[i]
	d.asked[i] = asked[C]{}
	if !a.open {
		return nil
	}
	return a.c.Close()
}

// capacity checks that a server has the connections that the clients of the given number of regions need.
func (d *database[C]) capacity(ctx context.Context, c C, regions int) error {
	left, err := d.dialect.Left(ctx, c)
	if err != nil {
		return err
	}
	const own = 1 // for questions
	if need := regions*d.options.Connections + own; need > left {
		return Wrong(ParameterField(ConnectionsParameter), strconv.Itoa(d.options.Connections),
			"%d regions x %d connections and %d more are %d, and the server has %d left: take at most %d, or raise its max_connections",
			regions, d.options.Connections, own, need, left, max(0, left-own)/regions)
	}
	return nil
}

// makeTable makes the table where it is not there, and holds the lock of its place from then on.
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

// sameDatabase checks that an endpoint leads to the same database as the first endpoint.
func (d *database[C]) sameDatabase(ctx context.Context, c C, e Endpoint) error {
	mark, err := d.dialect.Marked(ctx, c)
	if err == nil && mark != d.mark {
		err = Wrong(d.server.Field(e), e.Address,
			"the table of Geobench there is not the one of this run, made at %s (region %s): all endpoints lead to the same database, and nobody else uses the %s meanwhile",
			d.server.Endpoints[0].Address, d.server.Endpoints[0].Region, d.dialect.PlaceWord())
	}
	return err
}

// undo drops the created objects of a database that could not be opened, and closes it.
func (d *database[C]) undo() error {
	ctx, cancel := context.WithTimeout(context.Background(), Silence)
	defer cancel()
	var err error
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

// reach returns the connection for queries to an endpoint, reopened if it has broken. A broken connection loses its
// lock; the mark of the table shows whether another run has used the place since.
func (d *database[C]) reach(ctx context.Context, endpoint int) (c C, err error) {
	if a := d.asked[endpoint]; a.open && !a.c.Broken() {
		return a.c, nil
	}
	_ = d.end(endpoint)
	e := d.server.Endpoints[endpoint]
	c, err = d.dial(ctx, e)
	if err != nil {
		return c, err
	}
	if err := d.sameDatabase(ctx, c, e); err != nil {
		return c, errors.Join(err, c.Close())
	}
	d.asked[endpoint] = asked[C]{c, true}
	return c, nil
}

// dial opens a connection for questions.
func (d *database[C]) dial(ctx context.Context, e Endpoint) (c C, err error) {
	err = openWithin(ctx, func(ctx context.Context) error {
		c, err = d.dialect.Dial(ctx, e)
		return err
	})
	return c, err
}

// openWithin bounds the opening of a connection by ConnectWithin, with all that is said on it until it is of use:
// dialects bound the first answers alone.
func openWithin(ctx context.Context, open func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, ConnectWithin, fmt.Errorf("the server said nothing more while a connection was opened, which took longer than %v", ConnectWithin))
	defer cancel()
	if err := open(ctx); err != nil {
		return causeOf(ctx, err)
	}
	return nil
}

// ask asks the server of an endpoint something that changes nothing, and once more where the connection turns out to be
// broken.
func (d *database[C]) ask(ctx context.Context, endpoint int, question func(C) error) error {
	for again := true; ; again = false {
		c, err := d.reach(ctx, endpoint)
		if err != nil {
			return err
		}
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

// Layout implements target.Database: one copy.
func (d *database[C]) Layout() geo.Layout { return d.topology.Whole(0) }

// Status implements target.Database.
func (d *database[C]) Status(context.Context) ([]admin.Status, error) { return nil, nil }

// Activity implements target.Database. Transactions whose connections broke may continue at the servers, which report
// them.
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

// CatchUp implements Database. Servers catch up at the same time.
func (d *database[C]) CatchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Silence, fmt.Errorf("the server did not show within %v what was committed", Silence))
	defer cancel()
	d.mu.Lock()
	defer d.mu.Unlock()
	var g errgroup.Group
	for _, endpoint := range d.servers {
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

// Audit implements target.Database: one statement reads all rows, in a snapshot.
func (d *database[C]) Audit(ctx context.Context, _ func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	if d.options.Form == FormSQL {
		return d.auditForm(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hung := time.AfterFunc(Silence, func() { cancel(fmt.Errorf("the server has said nothing for %v", Silence)) })
	defer hung.Stop()
	d.mu.Lock()
	defer d.mu.Unlock()
	var rows store.Store
	err := d.calm(ctx, func(c C) error {
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

// calm sends a query to the first endpoint, and retries a few times on conflicts. A database that orders transactions
// by time may refuse a large read, because it meets rows whose timestamps are uncertain.
func (d *database[C]) calm(ctx context.Context, question func(C) error) (err error) {
	const times = 5
	for range times {
		if err = d.ask(ctx, 0, question); err == nil || d.dialect.Classify(err).Cause != txn.CauseConflict {
			return err
		}
	}
	return err
}

// CopyOf returns a non-nil copy of the bytes.
func CopyOf(value []byte) []byte { return append(make([]byte, 0, len(value)), value...) }

// causeOf is the reason why a context ended, if it did, else the error.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

const (
	// chunk is about how many bytes of rows a loader takes at a time, and loadersMost how many there are: they are to keep
	// the server busy, and not to drown it.
	chunk       = 256 << 10
	loadersMost = 8
)

// Load implements target.Database, over several connections to the first endpoint. A server's operation may take any
// time while the server answers other queries.
func (d *database[C]) Load(ctx context.Context, data target.Dataset) error {
	d.mu.Lock()
	defer d.mu.Unlock()
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
	for _, endpoint := range d.servers {
		if err := d.ordered(ctx, endpoint, d.dialect.Settle); err != nil {
			return fmt.Errorf("settling what was loaded: %w", err)
		}
	}
	return nil
}

// ordered orders something of the server of an endpoint, and asks over another connection whether it is still there:
// clients have none yet.
func (d *database[C]) ordered(ctx context.Context, endpoint int, order func(context.Context, C) error) error {
	c, err := d.reach(ctx, endpoint)
	if err != nil {
		return err
	}
	beside, err := d.dial(ctx, d.server.Endpoints[endpoint])
	if err != nil {
		return err
	}
	defer beside.Close() //nolint:errcheck // it was asked
	return whileItAnswers(ctx, beside, func(ctx context.Context) error { return order(ctx, c) })
}

// whileItAnswers runs an unbounded operation until the server at the other end of c, which is idle, no longer answers.
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
