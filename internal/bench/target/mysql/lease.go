package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// In a Galera cluster, get_lock locks only on the node that runs it. Two runs that list the nodes in different orders
// would both get the lock and use one table concurrently. A run therefore also takes a lease: a row of a table, which
// all nodes replicate. If two runs commit the row concurrently, certification aborts one of them. A lease expires if
// its holder stops renewing it.
const (
	leases = "geobench_leases"
	// leaseLife is the time after which a lease expires unless it is renewed. leaseEvery is the interval between renewals.
	leaseLife  = 30 * time.Second
	leaseEvery = 5 * time.Second
)

// lease contains all leases that a run holds in a Galera cluster.
type lease struct {
	places []string
	stop   context.CancelFunc
	ended  sync.WaitGroup
}

// leaseOn takes a lease on each place for this run, and renews the leases until Unlock. It returns false if another run
// has a lease on any place.
func (d *dialect) leaseOn(ctx context.Context, c *conn, places ...string) (bool, error) {
	err := c.exec(ctx, "create table if not exists "+leases+" (place varchar(80) primary key, holder varchar(80) not null, ends datetime(6) not null) engine = InnoDB comment = 'which run of Geobench uses which table'")
	if err != nil {
		return false, err
	}
	for _, place := range places {
		took, err := d.take(ctx, c, place)
		if err != nil || !took {
			return false, errors.Join(err, d.giveBack(ctx, c, places))
		}
	}
	// The renewals continue after this call's context ends; only Unlock stops them.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.lease = &lease{places: places, stop: stop}
	d.lease.ended.Go(func() { d.keep(keeping, places) })
	return true, nil
}

// holder returns the name by which leases identify this run.
func (d *dialect) holder() string { return strings.Trim(d.said, " /*") }

// take takes a lease on a place, and returns false if another run has the lease. After a conflict with a concurrent run
// it retries; the next attempt then finds that run's lease.
func (d *dialect) take(ctx context.Context, c *conn, place string) (bool, error) {
	const times = 3
	var err error
	for range times {
		var took bool
		if took, err = d.tryTake(ctx, c, place); err == nil {
			return took, nil
		}
		var answer *mysql.MySQLError
		if !errors.As(err, &answer) || !slices.Contains([]uint16{deadlock, lockWaitTimeout}, answer.Number) {
			break
		}
		_ = c.exec(ctx, "rollback") // in case the server has not rolled back
	}
	return false, err
}

func (d *dialect) tryTake(ctx context.Context, c *conn, place string) (bool, error) {
	if err := c.exec(ctx, "begin"); err != nil {
		return false, err
	}
	held := false
	// The server's clock decides whether a lease has expired, because the clocks of two runs may differ.
	err := c.query(ctx, fmt.Sprintf("select holder <> '%s' and ends > utc_timestamp(6) from %s where place = '%s' for update", d.holder(), leases, place), func(values []driver.Value) {
		held = text(values[0]) != "0"
	})
	// The row stays locked until the transaction ends, so roll back even if another run has the lease.
	if err != nil || held {
		return false, errors.Join(err, c.exec(ctx, "rollback"))
	}
	err = c.exec(ctx, fmt.Sprintf("replace into %s values ('%s', '%s', %s)", leases, place, d.holder(), until))
	if err != nil {
		return false, errors.Join(err, c.exec(ctx, "rollback"))
	}
	err = c.exec(ctx, "commit")
	return err == nil, err
}

// until is the SQL expression for the expiry time of a lease that is renewed now.
var until = fmt.Sprintf("utc_timestamp(6) + interval %d second", int(leaseLife/time.Second))

// keep renews the leases through the first endpoint that answers.
func (d *dialect) keep(ctx context.Context, places []string) {
	tick := time.NewTicker(leaseEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, e := range d.server.Endpoints {
			if d.at(ctx, e, func(c *conn) error {
				return c.exec(ctx, fmt.Sprintf("update %s set ends = %s where holder = '%s' and place in ('%s')", leases, until, d.holder(), strings.Join(places, "', '")))
			}) == nil {
				break
			}
		}
	}
}

// at runs do on a temporary connection to endpoint e.
func (d *dialect) at(ctx context.Context, e sqltarget.Endpoint, do func(*conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, sqltarget.ConnectWithin)
	defer cancel()
	c, err := dial(ctx, d.configs[e])
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close())
}

// giveBack deletes the leases that this run has on places.
func (d *dialect) giveBack(ctx context.Context, c *conn, places []string) error {
	return c.exec(ctx, fmt.Sprintf("delete from %s where holder = '%s' and place in ('%s')", leases, d.holder(), strings.Join(places, "', '")))
}

// Unlock implements sqltarget.Unlocker. A lease that cannot be released through any endpoint expires.
func (d *dialect) Unlock() error {
	l := d.lease
	if l == nil {
		return nil
	}
	d.lease = nil
	l.stop()
	// Wait for a renewal in progress: a renewal after giveBack would take the lease again.
	l.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), sqltarget.Silence)
	defer cancel()
	for _, e := range d.server.Endpoints {
		if d.at(ctx, e, func(c *conn) error { return d.giveBack(ctx, c, l.places) }) == nil {
			break
		}
	}
	return nil
}
