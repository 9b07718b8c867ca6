package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/background"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// loadRequest returns the request that makes the nodes load the data set of a run.
func loadRequest(run *v1alpha1.BenchmarkRun) (*admin.LoadRequest, error) {
	workload, err := json.Marshal(run.Spec.Workload)
	if err != nil {
		return nil, err
	}
	return &admin.LoadRequest{Dataset: datasetName(run, workload), Workload: workload, Seed: uint64(run.Spec.Seed), Run: kube.Attempt(run), Traced: recorded(run)}, nil
}

// datasetName returns the name of the data set of one execution of a run. A node that already has the data set need not
// load it again. The name depends on the execution, because transactions of an earlier execution have changed the rows.
func datasetName(run *v1alpha1.BenchmarkRun, workload []byte) string {
	return fmt.Sprintf("%s-%s", run.UID, deploy.ShortHash(kube.Attempt(run), string(workload), fmt.Sprint(run.Spec.Seed)))
}

// load loads the data set into every node. A node that already has it answers immediately, so a new operator can simply
// send the request to all nodes again.
func (s *scope) load(ctx context.Context) error {
	loading := s.job("load")
	loaded, state, err := background.Outcome[*admin.LoadResponse](s.Jobs, loading)
	var refused *admin.BadRequest
	switch {
	// Data that a node has refused would be refused again, so a retry is useless.
	case errors.As(err, &refused):
		s.condition(v1alpha1.ConditionDataLoaded, false, "DataRefused", err.Error())
		s.fail("DataRefused", "%s", err)
		return nil
	case err != nil:
		// A node that is still busy with the last transactions of another run refuses temporarily, so retry until the
		// stage's deadline.
		s.condition(v1alpha1.ConditionDataLoaded, false, "LoadFailed", err.Error())
		s.again = kube.PollFast
		return nil
	case state == background.Done:
		if s.stewarded() {
			if err := s.note(ctx, noteTarget, loaded.Target); err != nil {
				return err
			}
			s.condition(v1alpha1.ConditionDataLoaded, true, "Loaded", fmt.Sprintf("%d rows in the database", loaded.Rows))
			s.enter(v1alpha1.StageWarmup)
			return nil
		}
		s.condition(v1alpha1.ConditionDataLoaded, true, "Loaded",
			fmt.Sprintf("%d rows, %d bytes in %d nodes", loaded.Rows, loaded.Bytes, s.current.Database.Topology.Nodes()))
		s.enter(v1alpha1.StageWarmup)
		return nil
	case state == background.None:
		nodes, err := s.loaders(ctx)
		if err != nil {
			return err
		}
		for i := range nodes {
			if n := &nodes[i]; !n.Ready {
				s.condition(v1alpha1.ConditionDataLoaded, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
				s.again = kube.PollFast
				return nil
			}
		}
		req, err := loadRequest(s.run)
		if err != nil {
			return err
		}
		clients := s.Pods.Nodes(s.db.UID)
		background.Go(s.Jobs, loading, s.Loads, 1, func(ctx context.Context) (*admin.LoadResponse, error) { return loadNodes(ctx, clients, nodes, req) })
	}
	loads := fmt.Sprintf("%d nodes load their data", s.current.Database.Topology.Nodes())
	if s.stewarded() {
		loads = "the steward loads the data into the database"
	}
	s.underway(state, v1alpha1.ConditionDataLoaded, metav1.ConditionFalse, "Loading", loads)
	return nil
}

// loaders returns the nodes that must load the data: all nodes, or the steward of a database that is not Geobench's
// own.
func (s *scope) loaders(ctx context.Context) ([]database.Node, error) {
	if !s.stewarded() {
		return database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &s.current.Database)
	}
	if err := s.createSteward(ctx); err != nil {
		return nil, err
	}
	n, err := s.steward(ctx)
	if err != nil {
		return nil, err
	}
	return []database.Node{*n}, nil
}

// loadNodes makes all nodes load a data set, and returns the total number of rows and bytes. If a steward loads the
// database, nodes contains only the steward, and the result includes its description of the database.
func loadNodes(ctx context.Context, clients podclient.Nodes, nodes []database.Node, req *admin.LoadRequest) (*admin.LoadResponse, error) {
	var rows, bytes atomic.Int64
	targets := make([]json.RawMessage, len(nodes))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range nodes {
		n := &nodes[i]
		group.Go(func() error {
			resp, err := clients.Load(ctx, n.Address, req)
			if err != nil {
				return fmt.Errorf("node %s: %w", n.PodName, err)
			}
			rows.Add(resp.Rows)
			bytes.Add(resp.Bytes)
			targets[i] = resp.Target
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &admin.LoadResponse{Rows: rows.Load(), Bytes: bytes.Load(), Target: targets[0]}, nil
}
