package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/internal/admin"
)

// The snapshots of a run, as keys of one ConfigMap, each a snapshot as gzipped JSON. Each is taken once and kept, so that
// an operator that is killed loses nothing.
const (
	// snapshotBefore is taken before the workers are told when to start: from then on no process may change.
	snapshotBefore = "before.json.gz"
	// snapshotEnd is taken when the last measured window closes, for the round trips under load.
	snapshotEnd = "end.json.gz"
	// snapshotAfter is taken once every transaction has ended.
	snapshotAfter = "after.json.gz"
)

// snapshot is what every node said at about the same time.
type snapshot struct {
	TakenAt time.Time `json:"takenAt"`
	// Nodes are in the order of geo.NodeID.
	Nodes []admin.Status `json:"nodes"`
}

// takeSnapshot records the nodes' counters under key unless that was done before. Every node must have answered in this
// reconciliation: the error names one that has not.
func (s *runScope) takeSnapshot(ctx context.Context, key string) (*snapshot, error) {
	if was, err := s.readSnapshot(ctx, key); was != nil || err != nil {
		return was, err
	}
	snap := &snapshot{TakenAt: s.Clock.Now().UTC()}
	gone := s.taken()
	for i := range s.nodes {
		n := &s.nodes[i]
		if slices.Contains(gone, n.id) {
			snap.Nodes = append(snap.Nodes, admin.Status{Node: s.current.database.Topology.NodeName(n.id), ID: int(n.id), Reason: "a fault has taken it"})
			continue
		}
		if n.status == nil {
			return nil, fmt.Errorf("node %s: %s", n.podName, n.problem)
		}
		snap.Nodes = append(snap.Nodes, *n.status)
	}
	b, err := gzipJSON(snap)
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: snapshotName(s.run), Namespace: s.run.Namespace, Labels: runLabels(s.run, RoleSnapshot)}}
	if err := ensureCreated(ctx, s.Client, s.Live, s.run, cm.DeepCopy()); err != nil {
		return nil, err
	}
	patch, err := json.Marshal(map[string]any{"binaryData": map[string][]byte{key: b}})
	if err != nil {
		return nil, err
	}
	return snap, s.Client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, patch))
}

// readSnapshot returns a snapshot, or nil when it was not taken yet.
func (s *runScope) readSnapshot(ctx context.Context, key string) (*snapshot, error) {
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: snapshotName(s.run)}, cm); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	b := cm.BinaryData[key]
	if b == nil {
		return nil, nil
	}
	snap := &snapshot{}
	if err := gunzipJSON(b, snap); err != nil {
		return nil, fmt.Errorf("config map %s: %s: %w", cm.Name, key, err)
	}
	if nodes := s.current.database.Topology.Nodes(); len(snap.Nodes) != nodes {
		return nil, fmt.Errorf("config map %s: %s: %d nodes, not %d", cm.Name, key, len(snap.Nodes), nodes)
	}
	return snap, nil
}
