package run

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/bench/fault"
	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/ops/admin"
)

// database returns the run's database for fault injection, or nil if its engine is not one of Geobench's own.
func (in *clusterInjector) database() *fault.Database {
	d := &in.current.Database
	e, params := engines.Of(d.Engine, d.Parameters)
	if e == nil {
		return nil
	}
	return &fault.Database{Engine: e, Params: params, Topology: &d.Topology, Journals: in.db.Spec.Durability == v1alpha1.DurabilityJournal}
}

// replace sends each waiting replacement process its incarnation: the incarnation of the killed process plus one. If
// the operator exits before it has recorded the notification, its successor sends the same incarnation again. A second
// replacement process would then receive the same number as the first. Its peers detect that, and report that the
// database has lost state.
func (in *clusterInjector) replace(ctx context.Context, l *fault.Life) error {
	loaded, err := loadRequest(in.run)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i, id := range l.Targets.From {
		n := in.node(id)
		// Only a process that waits has no incarnation yet. A process that already joined must not receive another number.
		if n.Status == nil || !n.Status.Waiting {
			continue
		}
		killed, err := incarnationOf(l.Marks[i])
		if err != nil {
			return fmt.Errorf("node %s: %w", n.PodName, err)
		}
		group.Go(func() error {
			err := in.Pods.Nodes(in.db.UID).Join(ctx, n.Address, &admin.Join{Process: n.Status.Process, NodeIncarnation: killed + 1, Loaded: loaded})
			if err != nil {
				return fmt.Errorf("node %s: %w", n.PodName, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// incarnationOf returns the incarnation in a mark: see mark.
func incarnationOf(mark string) (uint32, error) {
	n, err := strconv.ParseUint(mark[strings.LastIndexByte(mark, '/')+1:], 10, 32)
	return uint32(n), err
}

// mending describes a node that stores rows of which another copy is missing, or a node that does not answer. It
// returns "" if there is none.
func (in *clusterInjector) mending() string {
	for _, id := range in.reachable() {
		switch n := in.node(id); {
		case n.Status == nil:
			return fmt.Sprintf("node %s: %s", n.PodName, n.Problem)
		case n.Status.Recovering:
			return fmt.Sprintf("node %s has copies of something that lacks one", n.PodName)
		}
	}
	return ""
}
