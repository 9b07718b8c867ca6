package run

import (
	"context"
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/net/emulation"
)

// emulate waits until the network between the regions matches the declared network. It measures the network again,
// because the database's status may be half a minute old. After this stage, the run accepts only the measured
// incarnation.
func (s *scope) emulate(ctx context.Context) error {
	s.again = kube.PollFast
	current, _, err := database.FindIncarnations(ctx, s.Live, s.Credentials, s.db)
	if err != nil {
		return err
	}
	if current == nil || current.Foreign {
		s.condition(v1alpha1.ConditionNetworkVerified, false, "NodesNotReady", "the database is being made anew")
		return nil
	}
	// Between Preflight and here the database may have been redeployed from edited manifests.
	if err := s.checkIncarnation(ctx, current); err != nil {
		return err
	}
	nodes, err := database.ObserveNodes(ctx, s.Client, s.Pods, s.db, &current.Database)
	if err != nil {
		return err
	}
	for i := range nodes {
		if n := &nodes[i]; !n.Ready {
			s.condition(v1alpha1.ConditionNetworkVerified, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.PodName, n.Problem))
			return nil
		}
	}
	links, err := database.Measure(&current.Database.Topology, nodes)
	if err != nil {
		return err
	}
	network, err := database.FindNetwork(ctx, s.Client, s.db, current)
	if err != nil {
		return err
	}
	s.current = current
	state, err := s.backend().Observe(ctx, network)
	if err != nil {
		return err
	}
	if !state.Injected {
		s.condition(v1alpha1.ConditionNetworkVerified, false, state.Reason, state.Message)
		return nil
	}
	v := database.VerifyNetwork(&current.Database, links, current.Emulation())
	s.condition(v1alpha1.ConditionNetworkVerified, v.Verified, v.Reason, v.Message)
	if !v.Verified {
		return nil
	}
	// The incarnation is written together with the stage: a later reconciliation must not load data into an incarnation
	// whose network was not verified.
	s.run.Status.DatabaseIncarnation = current.ID()
	s.enter(v1alpha1.StageLoad)
	return nil
}

// backend returns the backend of the database's current incarnation.
func (s *scope) backend() emulation.Backend {
	return database.NewBackend(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, s.current.Emulation(), s.current.Why)
}
