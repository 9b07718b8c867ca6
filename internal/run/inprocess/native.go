package inprocess

import (
	"context"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/bench/load"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/run/node"
)

// native implements target.Database on the nodes of this process.
type native struct {
	p     *plan.Plan
	nodes *node.Local
}

// Load implements target.Database.
func (n native) Load(ctx context.Context, d target.Dataset) error {
	_, err := n.nodes.Load(ctx, &admin.LoadRequest{Dataset: d.Name, Workload: d.Spec, Seed: d.Seed, Traced: d.Traced})
	return err
}

// Clients implements target.Database.
func (n native) Clients(region geo.Region) target.Target {
	return target.NewNative(n.nodes.Database(), region, load.Coordinators(&n.p.Run.Spec.Load))
}

// Activity implements target.Database.
func (n native) Activity(ctx context.Context) (a target.Activity, err error) {
	statuses, err := n.nodes.Status(ctx)
	for _, s := range statuses {
		a.Pending += s.Pending
		a.PendingByNode = append(a.PendingByNode, s.Pending)
		a.Operations += s.Operations
	}
	return a, err
}

// Layout implements target.Database.
func (n native) Layout() geo.Layout { return n.p.Engine.Layout(&n.p.Topology, n.p.Params) }

// Audit implements target.Database.
func (n native) Audit(ctx context.Context, leftOut func(geo.NodeID) bool) ([][]store.ShardSums, error) {
	return n.nodes.Audit(ctx, leftOut)
}

// Status implements target.Database.
func (n native) Status(ctx context.Context) ([]admin.Status, error) {
	return deref(n.nodes.Status(ctx))
}
