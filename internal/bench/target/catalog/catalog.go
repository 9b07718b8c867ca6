// Package catalog lists the third-party databases that Geobench can measure. To add a database, write its package below
// internal/bench/target and add an entry here. Package attach opens the databases.
package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/etcd"
	"github.com/geobench/geobench/internal/bench/target/mysql"
	"github.com/geobench/geobench/internal/bench/target/postgres"
	"github.com/geobench/geobench/internal/bench/target/sqltarget"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Targets is the set of supported databases, with the configuration that a manifest may contain. The engines of these
// databases have no replica code, because Geobench connects to the databases only as a client.
type Targets struct{}

// entry describes a database: its configuration in a manifest, and the functions that open and join it. user and
// password are the names of the environment variables that contain the credentials if there is no Secret.
type entry struct {
	engine         *protocol.Engine
	user, password string
	open           func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string) (sqltarget.Database, error)
	// needsDatabase is set if a manifest must name one of the server's databases. noDatabase is set if the server has a
	// single, unnamed database.
	needsDatabase, noDatabase bool
	// deployed is set if Geobench measures the database only where the operator has deployed it. Such a database needs no
	// lock between runs, because a GeoDatabase has one run at a time.
	deployed bool
	names    Names
	join     func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string, region geo.Region, connections int) (target.Target, time.Duration, error)
}

// all lists the databases, sorted by name.
var all = []entry{
	ofProduct(postgres.Citus), ofProduct(postgres.CockroachDB),
	{engine: etcd.Engine, user: etcd.UserVariable, password: etcd.PasswordVariable, noDatabase: true,
		names: Names{Levels: "reads", Place: "prefix", Drop: "dropPrefix"},
		open: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string) (sqltarget.Database, error) {
			return etcd.Open(ctx, t, s, etcd.OptionsOf(p), session)
		},
		join: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string, region geo.Region, connections int) (target.Target, time.Duration, error) {
			o := etcd.OptionsOf(p)
			o.Connections = connections
			return etcd.Join(ctx, t, s, o, session, region)
		}},
	ofMySQL(mysql.Galera, func(o *mysql.Options) { o.Galera = true }),
	ofMySQL(mysql.Engine, func(*mysql.Options) {}),
	ofMySQLProduct(mysql.OceanBase),
	ofPostgres(postgres.Engine, nil, Names{Levels: sqltarget.IsolationParameter, Place: "schema", Drop: "dropSchema", Writes: postgres.WritesParameter, Waits: postgres.WritesEach, Form: sqltarget.FormParameter}),
	ofMySQLProduct(mysql.TiDB),
	ofProduct(postgres.YugabyteDB),
}

// ofMySQLProduct returns the entry of a database that speaks MySQL's protocol and is deployed by the operator.
func ofMySQLProduct(product *mysql.Product) entry {
	e := ofMySQL(product.Engine, func(o *mysql.Options) { o.Product = product })
	e.deployed = true
	return e
}

// ofProduct returns the entry of a database that speaks PostgreSQL's protocol and is deployed by the operator.
func ofProduct(product *postgres.Product) entry {
	e := ofPostgres(product.Engine, product, Names{Levels: sqltarget.IsolationParameter, Place: "schema", Drop: "dropSchema"})
	e.deployed = true
	return e
}

func ofPostgres(engine *protocol.Engine, product *postgres.Product, names Names) entry {
	options := func(p protocol.Params) postgres.Options {
		o := postgres.OptionsOf(p)
		o.Product = product
		return o
	}
	return entry{
		engine: engine, user: postgres.UserVariable, password: postgres.PasswordVariable, names: names,
		open: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string) (sqltarget.Database, error) {
			return postgres.Open(ctx, t, s, options(p), session)
		},
		join: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string, region geo.Region, connections int) (target.Target, time.Duration, error) {
			o := options(p)
			o.Connections = connections
			return postgres.Join(ctx, t, s, o, session, region)
		},
	}
}

func ofMySQL(engine *protocol.Engine, are func(*mysql.Options)) entry {
	options := func(p protocol.Params) mysql.Options {
		o := mysql.OptionsOf(p)
		are(&o)
		return o
	}
	return entry{
		engine: engine, user: mysql.UserVariable, password: mysql.PasswordVariable, needsDatabase: true,
		names: Names{Levels: sqltarget.IsolationParameter, Place: "table", Drop: "dropTable", Form: sqltarget.FormParameter},
		open: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string) (sqltarget.Database, error) {
			return mysql.Open(ctx, t, s, options(p), session)
		},
		join: func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string, region geo.Region, connections int) (target.Target, time.Duration, error) {
			o := options(p)
			o.Connections = connections
			return mysql.Join(ctx, t, s, o, session, region)
		},
	}
}

// Names returns the databases' names, sorted.
func (Targets) Names() []string {
	var names []string
	for _, e := range all {
		names = append(names, e.engine.Name)
	}
	return names
}

// Elsewhere is the subset of Targets that spec.external can name: databases that are already running.
type Elsewhere struct{}

// Names returns the databases' names, sorted.
func (Elsewhere) Names() []string {
	return slices.DeleteFunc(Targets{}.Names(), func(name string) bool { e, _ := lookup(name); return e.deployed })
}

// Lookup returns the database called name.
func (Elsewhere) Lookup(name string) (*protocol.Engine, bool) {
	e, ok := lookup(name)
	if e.deployed {
		return nil, false
	}
	return e.engine, ok
}

// Databases reports whether clients of the server called name must specify one of its databases, and whether they may
// specify one.
func Databases(name string) (must, may bool) {
	e, _ := lookup(name)
	return e.needsDatabase, !e.noDatabase
}

// Names are the names of a database's parameters.
type Names struct {
	// Levels is the parameter that selects the isolation level that the database guarantees.
	Levels string
	// Place is the parameter that names the objects (a table, schema or key prefix) that Geobench uses exclusively. Drop
	// is the parameter that determines whether they are dropped after the run.
	Place, Drop string
	// Writes is the parameter that determines whether a client waits for the answer to each write. Waits is the
	// parameter's value for waiting. Both are empty if the database offers no choice.
	Writes, Waits string
	// Form is the parameter that selects between procedures and the workload's own SQL. It is empty if the database offers
	// no choice.
	Form string
}

// NamesOf returns the names of the parameters of the database called name.
func NamesOf(name string) Names {
	e, _ := lookup(name)
	return e.names
}

// Connections returns the number of connections of a region's clients. Each connection runs one transaction at a time.
func Connections(p protocol.Params) int { return int(p.Int(sqltarget.ConnectionsParameter)) }

// WantsSQL reports whether p selects the workload's own SQL for the database called name.
func WantsSQL(name string, p protocol.Params) bool {
	form := NamesOf(name).Form
	return form != "" && p.Word(form) == sqltarget.FormSQL
}

// Lookup returns the database called name.
func (Targets) Lookup(name string) (*protocol.Engine, bool) {
	e, ok := lookup(name)
	return e.engine, ok
}

func lookup(name string) (entry, bool) {
	i := slices.IndexFunc(all, func(e entry) bool { return e.engine.Name == name })
	if i < 0 {
		return entry{}, false
	}
	return all[i], true
}

// Environment returns the names of the environment variables for user and password of the database called name.
func (Targets) Environment(name string) (user, password string) {
	e, _ := lookup(name)
	return e.user, e.password
}

// Open opens the database called name for the run called session, like sqltarget.Open. The parameters must have been
// checked.
func (Targets) Open(ctx context.Context, name string, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string) (sqltarget.Database, error) {
	e, ok := lookup(name)
	if !ok {
		return nil, unknown(name)
	}
	return e.open(ctx, t, s, p, session)
}

// Join connects the clients of a region to the database called name, as sqltarget.Join does. Another process must
// already have opened the database for the run called session. The clients use the given number of connections.
func (Targets) Join(ctx context.Context, name string, t *geo.Topology, s sqltarget.Server, p protocol.Params, session string, region geo.Region, connections int) (target.Target, time.Duration, error) {
	e, ok := lookup(name)
	if !ok {
		return nil, 0, unknown(name)
	}
	return e.join(ctx, t, s, p, session, region, connections)
}

func unknown(name string) error {
	return fmt.Errorf("engine: %q is not one of %v", name, Targets{}.Names())
}
