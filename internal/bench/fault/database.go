package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Database is a database of one of Geobench's own engines, for the decisions about faults that stop processes.
type Database struct {
	Engine   *protocol.Engine
	Params   protocol.Params
	Topology *geo.Topology
	// Journals says that nodes have spec.durability: Journal.
	Journals bool
}

// Replaces reports whether new incarnations replace a fault's targets, which have lost their state, wherever they are.
func (d *Database) Replaces(f *Fault) bool {
	return f.Followed() && !f.ForGood() && !d.Journals && d.Engine.ReplacesAll(d.Topology, d.Params)
}

// Restarts reports whether the targets of a fault that stops processes continue, in the same place, from their
// journals.
func (d *Database) Restarts(f *Fault) bool {
	return d.Journals && (f.Kind == NodeShutdown || f.Kind == ContainerKill)
}

// CanLose notes and returns the reason why the database cannot accept empty processes in place of all targets of a
// fault together; nil if it can.
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

// LogSimulated is true for faults whose targets, in a simulation, start again from their logs. A killed pod has lost
// its memory, and engines keep their data nowhere else. A node that is shut down, or whose disk fails, has a disk. With
// journals a killed container has a disk, too.
func (d *Database) LogSimulated(f *Fault) bool {
	return f.Kind == NodeShutdown || f.Kind == IOError || d.Restarts(f)
}

// LogsSimulated reports whether the nodes of a simulation need logs for a plan's faults: all nodes have logs, or none.
func (d *Database) LogsSimulated(p *Plan) bool { return slices.ContainsFunc(p.Faults, d.LogSimulated) }
