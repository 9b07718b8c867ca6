// Package catalog is the table of the databases of others that geobench can be a client of. To add one, write its package below
// internal/target and list it here; package external opens it.
package catalog

import (
	"slices"

	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/target/postgres"
)

// Targets are the databases, by what a manifest may say of them. They are deployed by nobody, and have no replicas.
type Targets struct{}

var all = []*protocol.Engine{
	postgres.Engine,
}

// Names returns the databases' names, sorted.
func (Targets) Names() []string {
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names
}

// Lookup returns the database called name.
func (Targets) Lookup(name string) (*protocol.Engine, bool) {
	i := slices.IndexFunc(all, func(e *protocol.Engine) bool { return e.Name == name })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}
