package database

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/controllers/faultstatus"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/ops/admin"
)

// join notifies each waiting process that it is the first process of its node. A process that replaces one stopped by a
// planned fault is notified by the run instead. If the operator has missed the replacement of a process, the
// notification is wrong. The peers of the new process detect this, because they know its predecessor. They report that
// the database has lost state.
func (s *scope) join(ctx context.Context) error {
	var waiting []*Node
	for i := range s.nodes {
		if n := &s.nodes[i]; n.Status != nil && n.Status.Waiting && n.Lost == "" {
			waiting = append(waiting, n)
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	s.again = kube.PollFast
	if s.db.Status.ActiveRun != "" { // a fault may have started since the run was read
		if err := s.findFaults(ctx); err != nil {
			return err
		}
	}
	down := faultstatus.Down(s.faults)
	group := errgroup.Group{}
	group.SetLimit(podclient.AtOnce)
	for _, n := range waiting {
		// The run notifies a process that replaces one stopped by a fault.
		if slices.Contains(down, n.ID) {
			continue
		}
		group.Go(func() error {
			if err := s.Pods.Nodes(s.db.UID).Join(ctx, n.Address, &admin.Join{Process: n.Status.Process}); err != nil {
				n.Problem = "it cannot be told that it is the first process in its place: " + err.Error()
			}
			return nil
		})
	}
	return group.Wait()
}
