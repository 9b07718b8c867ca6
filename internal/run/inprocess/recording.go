package inprocess

import (
	"sync"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
)

// traced reports whether the verifications of a plan need a history.
func traced(p *plan.Plan) bool { return history.Needed(p.Run.Spec.Verify) }

// recording collects the history of a run. The load generators of all regions write to it concurrently.
type recording struct {
	topology   *geo.Topology
	procedures *txn.Registry

	mu      sync.Mutex
	history history.History
}

// newRecording returns the recording of a plan's history, or nil if no verification needs one.
func newRecording(p *plan.Plan, procedures *txn.Registry) *recording {
	if !traced(p) {
		return nil
	}
	return &recording{topology: &p.Topology, procedures: procedures}
}

// of returns the trace for the load generators of a region; nil if r is nil.
func (r *recording) of(region geo.Region) *load.Trace {
	if r == nil {
		return nil
	}
	n := r.history.Region(r.topology.Regions[region])
	return &load.Trace{Procedures: r.procedures, Record: func(t *history.Txn) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.history.Add(n, t)
	}}
}

// whole returns the history; nil if r is nil. Call it only after all clients have finished.
func (r *recording) whole() *history.History {
	if r == nil {
		return nil
	}
	return &r.history
}
