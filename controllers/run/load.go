package run

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/admin"
)

// datasetName names the data set of a run's attempt: a node that has it need not load it again.
func datasetName(run *v1alpha1.BenchmarkRun, workload []byte) string {
	return fmt.Sprintf("%s-%s", run.UID, kube.ShortHash(run.Status.RunID, string(workload), fmt.Sprint(run.Spec.Seed)))
}

// load puts the data set into every node. Nodes that have it already answer at once, so an operator that was killed in
// the middle asks them all again.
func (s *scope) load(ctx context.Context) error {
	s.again = kube.PollFast
	workload, err := json.Marshal(s.run.Spec.Workload)
	if err != nil {
		return err
	}
	nodes, err := database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database)
	if err != nil {
		return err
	}
	req := &admin.LoadRequest{Dataset: datasetName(s.run, workload), Workload: workload, Seed: uint64(s.run.Spec.Seed), Run: kube.Attempt(s.run), Traced: recorded(s.run)}
	var rows, bytes atomic.Int64
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range nodes {
		n := &nodes[i]
		if !n.Ready {
			s.condition(v1alpha1.ConditionDataLoaded, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
			return nil
		}
		group.Go(func() error {
			resp, err := s.Pods.Nodes(s.db.UID).Load(gctx, n.Address, req)
			if err != nil {
				return fmt.Errorf("node %s: %w", n.PodName, err)
			}
			rows.Add(resp.Rows)
			bytes.Add(resp.Bytes)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		// A node that is busy with the last transactions of another run refuses for a moment; the stage has a deadline.
		s.condition(v1alpha1.ConditionDataLoaded, false, "LoadFailed", err.Error())
		return nil
	}
	s.condition(v1alpha1.ConditionDataLoaded, true, "Loaded",
		fmt.Sprintf("%d rows, %d bytes in %d nodes", rows.Load(), bytes.Load(), len(nodes)))
	s.enter(v1alpha1.StageWarmup)
	return nil
}
