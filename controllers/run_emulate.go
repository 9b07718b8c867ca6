package controllers

import (
	"context"
	"fmt"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/emulation"
)

// emulate waits until the network between the regions is the declared one. It measures afresh: the database's
// status may be half a minute old. The run is tied to the incarnation that was measured.
func (s *runScope) emulate(ctx context.Context) error {
	s.again = pollFast
	current, _, err := findIncarnations(ctx, s.Live, s.Credentials, s.db)
	if err != nil {
		return err
	}
	if current == nil || current.foreign {
		s.condition(v1alpha1.ConditionNetworkVerified, false, "NodesNotReady", "the database is being made anew")
		return nil
	}
	if err := s.checkIncarnation(ctx, current); err != nil {
		return err
	}
	nodes, err := observeNodes(ctx, s.Client, s.Pods, s.db, &current.database)
	if err != nil {
		return err
	}
	for i := range nodes {
		if n := &nodes[i]; !n.ready {
			s.condition(v1alpha1.ConditionNetworkVerified, false, "NodesNotReady", fmt.Sprintf("node %s: %s", n.podName, n.problem))
			return nil
		}
	}
	links, err := measure(&current.database.Topology, nodes)
	if err != nil {
		return err
	}
	network, err := findNetwork(ctx, s.Client, s.db, current)
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
	v := verifyNetwork(links, current.emulation())
	s.condition(v1alpha1.ConditionNetworkVerified, v.Verified, v.Reason, v.Message)
	if !v.Verified {
		return nil
	}
	s.run.Status.DatabaseIncarnation = current.id()
	s.enter(v1alpha1.StageLoad)
	return nil
}

// backend is that of the database's present incarnation.
func (s *runScope) backend() emulation.Backend {
	return emulated(s.Client, s.Live, s.Pods, s.Clock, s.db, s.Image, s.current.emulation(), s.current.why)
}
