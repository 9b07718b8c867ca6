package experiment

import (
	"slices"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/catalog"
	"github.com/geobench/geobench/internal/engine/engines"
)

// aborts returns an error if neither the point's engine nor its workload can abort an attempt for this reason.
// Otherwise a misspelled reason would yield a share of 0. For databases that are not Geobench engines it accepts any
// reason, because the reasons come from their servers and drivers.
func (p *Point) aborts(reason string) error {
	if p.manifests == nil || p.manifests.Database == nil || p.manifests.Run == nil {
		return nil
	}
	e, ok := engines.Lookup(p.manifests.Database.Spec.Engine.Name)
	if !ok {
		return nil
	}
	known := slices.Concat(e.Aborts, catalog.Aborts(&p.manifests.Run.Spec.Workload),
		[]string{txn.ReasonProcedure, txn.ReasonUndeclared})
	if slices.Contains(known, reason) {
		return nil
	}
	slices.Sort(known)
	return lookupf("%s: engine %s and its workload abort no attempt for '%s'%s", p.Label, e.Name, reason,
		nearest(reason, known))
}
