package fault

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Database is a database of one of Geobench's own engines, as far as faults that end processes are concerned.
type Database struct {
	Engine   *protocol.Engine
	Params   protocol.Params
	Topology *geo.Topology
	// Journals says that nodes have spec.durability: Journal.
	Journals bool
}

// Replaces tells whether new incarnations take the places of a fault's targets, which have lost what they knew, wherever those are.
func (d *Database) Replaces(f *Fault) bool {
	return f.Followed() && !f.ForGood() && !d.Journals && d.Engine.ReplacesAll(d.Topology, d.Params)
}

// Restarts tells whether the targets of a fault that ends processes go on, in the same place, from their journals.
func (d *Database) Restarts(f *Fault) bool {
	return d.Journals && (f.Kind == NodeShutdown || f.Kind == ContainerKill)
}

// CanLose notes, and returns, why the database cannot take in empty processes in all places of a fault's targets at once; nil when it can.
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

// LogSimulated is true for faults whose targets, in a simulation, start again from their logs. A pod that is killed has lost its memory,
// and there is nothing else where engines keep their data; a node that is shut down, or whose disk fails, has a disk. With journals a
// container that is killed has one, too.
func (d *Database) LogSimulated(f *Fault) bool {
	return f.Kind == NodeShutdown || f.Kind == IOError || d.Restarts(f)
}

// LogsSimulated tells whether the nodes of a simulation need logs for a plan's faults: they have them for all or for none.
func (d *Database) LogsSimulated(p *Plan) bool { return slices.ContainsFunc(p.Faults, d.LogSimulated) }
