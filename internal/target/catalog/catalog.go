// Package catalog is the table of the databases of others that geobench can be a client of. To add one, write its package below
// internal/target and list it here; package external opens it.
package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/target/mysql"
	"github.com/geobench/geobench/internal/target/postgres"
	"github.com/geobench/geobench/internal/target/sqltarget"
)

// Targets are the databases, by what a manifest may say of them. They are deployed by nobody, and have no replicas.
type Targets struct{}

// entry is a database: what a manifest may say of it, how it is opened, and what in the environment names user and password where there is
// no Secret.
type entry struct {
	engine         *protocol.Engine
	user, password string
	open           func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params) (sqltarget.Database, error)
}

// all are the databases, sorted by name.
var all = []entry{
	{mysql.Engine, mysql.UserVariable, mysql.PasswordVariable,
		func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params) (sqltarget.Database, error) {
			return mysql.Open(ctx, t, s, mysql.OptionsOf(p))
		}},
	{postgres.Engine, postgres.UserVariable, postgres.PasswordVariable,
		func(ctx context.Context, t *geo.Topology, s sqltarget.Server, p protocol.Params) (sqltarget.Database, error) {
			return postgres.Open(ctx, t, s, postgres.OptionsOf(p))
		}},
}

// Names returns the databases' names, sorted.
func (Targets) Names() []string {
	var names []string
	for _, e := range all {
		names = append(names, e.engine.Name)
	}
	return names
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

// Environment returns the variables that name user and password for the database called name.
func (Targets) Environment(name string) (user, password string) {
	e, _ := lookup(name)
	return e.user, e.password
}

// Open opens the database called name with parameters that have been checked: sqltarget.Open.
func (Targets) Open(ctx context.Context, name string, t *geo.Topology, s sqltarget.Server, p protocol.Params) (sqltarget.Database, error) {
	e, ok := lookup(name)
	if !ok {
		return nil, fmt.Errorf("engine: %q is not one of %v", name, Targets{}.Names())
	}
	return e.open(ctx, t, s, p)
}
