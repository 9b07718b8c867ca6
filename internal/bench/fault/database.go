package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Database describes a database with one of Geobench's engines, for decisions about faults that stop processes.
type Database struct {
	Engine   *protocol.Engine
	Params   protocol.Params
	Topology *geo.Topology
	// Journals is set if nodes have spec.durability: Journal.
	Journals bool
}

// Replaces reports whether new incarnations without state replace all targets of the fault, wherever they are.
func (d *Database) Replaces(f *Fault) bool {
	return f.Followed() && !f.ForGood() && !d.Journals && d.Engine.ReplacesAll(d.Topology, d.Params)
}

// Restarts reports whether the targets of a fault that stops processes continue from their journals on the same nodes.
func (d *Database) Restarts(f *Fault) bool {
	return d.Journals && (f.Kind == NodeShutdown || f.Kind == ContainerKill)
}

// CanLose returns nil if the database can lose all targets of the fault together and accept empty processes in their
// place. Otherwise it returns the reason. It also stores the reason in l.Problem.
func (d *Database) CanLose(l *Life) error {
	if !l.Replaced {
		return nil
	}
	err := d.Engine.CanLose(d.Topology, d.Params, l.Targets.From)
	if err != nil {
		l.Problem = err.Error()
	}
	return err
}

// LogSimulated reports whether the targets of a fault restart from their logs in a simulation. A killed pod loses its
// state, and engines store data nowhere else. A node that is shut down, or whose disk fails, has a disk. With journals,
// a killed container has a disk as well.
func (d *Database) LogSimulated(f *Fault) bool {
	return f.Kind == NodeShutdown || f.Kind == IOError || d.Restarts(f)
}

// LogsSimulated reports whether the nodes of a simulation need logs for the faults of a plan. Either all nodes have
// logs, or none.
func (d *Database) LogsSimulated(p *Plan) bool { return slices.ContainsFunc(p.Faults, d.LogSimulated) }
