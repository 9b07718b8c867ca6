package run

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/podclient"
	"github.com/geobench/geobench/internal/base/ports"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// Keys of the workers' clock measurements in the run's snapshot ConfigMap. The first was taken before the start, the
// second at the end of the last window.
const (
	clocksBefore = "clocks-before.json.gz"
	clocksEnd    = "clocks-end.json.gz"
)

// noteClocks measures the clocks of all workers and stores them under key, unless key is already stored. The start is a
// time on the operator's clock, but each worker waits for it on its own clock. Therefore the run stops if a worker's
// clock differs too much from the operator's clock. If a worker does not answer, the error names it.
func (s *scope) noteClocks(ctx context.Context, key string) error {
	var clocks []result.Clock
	// Each key is measured only once: a restarted operator must not replace an earlier reading with a later one.
	if found, err := s.noted(ctx, key, &clocks); found || err != nil {
		return err
	}
	clocks = make([]result.Clock, len(s.workers))
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range s.workers {
		w := &s.workers[i]
		group.Go(func() error {
			addr, _, err := s.workerAddress(asking, w)
			if err != nil {
				return err
			}
			c, err := s.Pods.Nodes(s.db.UID).Clock(asking, addr)
			if err != nil {
				return fmt.Errorf("the clock of %s: %w", w.name(), err)
			}
			clocks[i] = result.Clock{Region: w.region, Index: w.index, AheadMicroseconds: c.Ahead.Microseconds(), WithinMicroseconds: c.Within.Microseconds()}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if reasons := result.ClocksApart(clocks); len(reasons) > 0 {
		return troubled(reasons[0].Reason, "%s", reasons[0].Message)
	}
	return s.note(ctx, key, clocks)
}

// Keys of the nodes' clock measurements in the run's snapshot ConfigMap. Each document maps node names to clocks: see
// noteNodeClocks.
const (
	nodeClocksBefore = "clocks-nodes-before.json.gz"
	nodeClocksEnd    = "clocks-nodes-end.json.gz"
)

// noteNodeClocks measures the clocks of all nodes that no fault affects and stores them under key, unless key is
// already stored. If a node does not answer, the error names it.
func (s *scope) noteNodeClocks(ctx context.Context, key string) error {
	var clocks map[string]result.NodeClock
	if found, err := s.noted(ctx, key, &clocks); found || err != nil {
		return err
	}
	t := &s.current.Database.Topology
	measured := make([]result.NodeClock, len(s.nodes))
	asked := make([]bool, len(s.nodes))
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(podclient.AtOnce)
	for i := range s.nodes {
		n := &s.nodes[i]
		// A clock that a fault skews on purpose says nothing about the machine's clock.
		if n.Status == nil || s.actedOn(n.ID) {
			continue
		}
		asked[i] = true
		group.Go(func() error {
			c, err := s.Pods.Nodes(s.db.UID).Clock(asking, n.Address)
			if err != nil {
				return fmt.Errorf("the clock of node %s: %w", n.PodName, err)
			}
			measured[i] = result.NodeClock{AheadMicroseconds: c.Ahead.Microseconds(), WithinMicroseconds: c.Within.Microseconds()}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	clocks = map[string]result.NodeClock{}
	for i := range s.nodes {
		if asked[i] {
			clocks[t.NodeName(s.nodes[i].ID)] = measured[i]
		}
	}
	return s.note(ctx, key, clocks)
}

// clocksOfNodes returns the stored measurements of the nodes' clocks, by node name.
func (s *scope) clocksOfNodes(ctx context.Context) (map[string][]result.NodeClock, error) {
	out := map[string][]result.NodeClock{}
	for _, key := range []string{nodeClocksBefore, nodeClocksEnd} {
		var clocks map[string]result.NodeClock
		if _, err := s.noted(ctx, key, &clocks); err != nil {
			return nil, err
		}
		for name, c := range clocks {
			out[name] = append(out[name], c)
		}
	}
	return out, nil
}

// workerAddress returns the address of a worker and the Kubernetes node on which it runs. It returns a *podEndedError
// if the pod no longer runs.
func (s *scope) workerAddress(ctx context.Context, w *workerState) (addr, machine string, err error) {
	pod := &corev1.Pod{}
	err = s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: w.report.Data[deploy.KeyPod]}, pod)
	if client.IgnoreNotFound(err) != nil {
		return "", "", err
	}
	// The name of the pod is from the worker's ConfigMap, which a user can change, so the labels of the pod are checked.
	if err != nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" ||
		pod.Labels[kube.LabelRun] != s.run.Name || pod.Labels[kube.LabelAttempt] != kube.Attempt(s.run) {
		return "", "", &podEndedError{w.name()}
	}
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(ports.Admin)), pod.Spec.NodeName, nil
}

// podEndedError means that a worker's pod no longer exists or no longer runs.
type podEndedError struct{ worker string }

func (e *podEndedError) Error() string { return fmt.Sprintf("the pod of %s has ended", e.worker) }

// workerClocks returns both stored measurements of the workers' clocks: first the clocks before the start, then the
// clocks at the end of the last window.
func (s *scope) workerClocks(ctx context.Context) (all []result.Clock, err error) {
	for _, key := range []string{clocksBefore, clocksEnd} {
		var clocks []result.Clock
		if _, err := s.noted(ctx, key, &clocks); err != nil {
			return nil, err
		}
		all = append(all, clocks...)
	}
	return all, nil
}

// awaitClocks measures the clocks of workers and nodes before a start is chosen. It returns false while a clock cannot
// be read.
func (s *scope) awaitClocks(ctx context.Context) (bool, error) {
	err := s.noteClocks(ctx, clocksBefore)
	if err == nil {
		err = s.noteNodeClocks(ctx, nodeClocksBefore)
	}
	// Waiting does not make the clocks converge, so the run stops if they differ too much. Any other error is retried.
	if err == nil || isTrouble(err) {
		return err == nil, err
	}
	s.condition(v1alpha1.ConditionMeasured, false, "WaitingForClocks", err.Error())
	return false, nil
}
