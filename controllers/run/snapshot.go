package run

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

	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/admin"
	"github.com/geobench/geobench/internal/ops/identity"
)

// Keys of a run's snapshots in its snapshot ConfigMap. Each snapshot is gzipped JSON with a seal, so that only data
// written by the operator is accepted. Each snapshot is taken once and stored, so that nothing is lost when the
// operator is killed.
const (
	// snapshotBefore is taken before the workers receive the start time. From then on, no process may change.
	snapshotBefore = "before.json.gz"
	// snapshotEnd is taken when the last measured window closes, for the round trips under load.
	snapshotEnd = "end.json.gz"
	// snapshotAfter is taken once every transaction has finished.
	snapshotAfter = "after.json.gz"
	// sealSuffix is appended to a snapshot's key to form the key of its seal.
	sealSuffix = ".seal"
)

// snapshot contains the status of every node at about the same time.
type snapshot struct {
	TakenAt time.Time `json:"takenAt"`
	// Nodes are in the order of geo.NodeID.
	Nodes []admin.Status `json:"nodes"`
	// Pods are the nodes' pods, by name.
	Pods map[string]podNote `json:"pods,omitempty"`
	// Ways are the objects that determine where connections of pods lead: see scope.ways. They are set only in
	// snapshotBefore.
	Ways map[string]string `json:"ways,omitempty"`
	// Mesh and Emulator are the byte counts of proxies and sidecars at TakenAt, if a service mesh carries the messages
	// between nodes.
	Mesh     *meters `json:"mesh,omitempty"`
	Emulator *meters `json:"emulator,omitempty"`
}

// podNote is the recorded state of a node's pod.
type podNote struct {
	Restarts int32          `json:"restarts,omitempty"`
	Shape    database.Shape `json:"shape,omitempty"`
}

// process returns the name of the process of a node, and the incarnation of the node. The name is empty if the node is
// not in the snapshot.
func (s *snapshot) process(id geo.NodeID) (name string, incarnation uint32) {
	if i := slices.IndexFunc(s.Nodes, func(n admin.Status) bool { return n.ID == int(id) }); i >= 0 {
		return s.Nodes[i].Process, s.Nodes[i].NodeIncarnation
	}
	return "", 0
}

// follows returns the process of the node in the snapshot. other is true if the process has changed but the incarnation
// of the node is not higher. Only planned faults lead to a higher incarnation.
func (s *snapshot) follows(n *database.Node) (was string, other bool) {
	was, incarnation := s.process(n.ID)
	return was, was != n.Status.Process && n.Status.NodeIncarnation <= incarnation
}

// takeSnapshot stores the status of all nodes under key, unless key is already stored. Each node that no fault has
// removed must have answered in this reconciliation. If a node has not answered, the error names it.
func (s *scope) takeSnapshot(ctx context.Context, key string) (*snapshot, error) {
	if was, err := s.readSnapshot(ctx, key); was != nil || err != nil {
		return was, err
	}
	snap := &snapshot{TakenAt: s.Clock.Now().UTC(), Pods: map[string]podNote{}}
	gone := s.taken()
	for i := range s.nodes {
		n := &s.nodes[i]
		if slices.Contains(gone, n.ID) {
			snap.Nodes = append(snap.Nodes, admin.Status{Node: s.current.Database.Topology.NodeName(n.ID), ID: int(n.ID), Reason: "a fault has taken it"})
			continue
		}
		if n.Status == nil {
			return nil, fmt.Errorf("node %s: %s", n.PodName, n.Problem)
		}
		snap.Nodes = append(snap.Nodes, *n.Status)
		snap.Pods[n.PodName] = podNote{n.Restarts, n.Shape}
	}
	if key == snapshotBefore {
		var err error
		if snap.Ways, _, err = s.ways(ctx); err != nil {
			return nil, err
		}
	}
	if key != snapshotEnd { // snapshotEnd is only for round trips
		snap.Mesh, snap.Emulator = s.readMeters(ctx, gone)
	}
	packed, err := compress.JSON(snap)
	if err != nil {
		return nil, err
	}
	// A ConfigMap holds at most 1 MiB, so the round trips of a large database are merged.
	if len(packed) > result.SnapshotRoom {
		result.MergeRoundTrips(snap.Nodes, &s.current.Database.Topology)
	}
	return snap, s.note(ctx, key, snap)
}

// note stores a sealed document under a key of the run's snapshot ConfigMap.
func (s *scope) note(ctx context.Context, key string, document any) error {
	b, err := compress.JSON(document)
	if err != nil {
		return err
	}
	seal, err := s.noteKey(ctx)
	if err != nil {
		return err
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: kube.SnapshotName(s.run), Namespace: s.run.Namespace, Labels: kube.RunLabels(s.run, kube.RoleSnapshot)}}
	if err := kube.EnsureCreated(ctx, s.Client, s.Live, s.run, cm.DeepCopy()); err != nil {
		return err
	}
	// The patch contains only this key, because other keys may have been written since the ConfigMap was read.
	patch, err := json.Marshal(map[string]any{
		"binaryData": map[string][]byte{key: b}, "data": map[string]string{key + sealSuffix: identity.Seal(seal, []byte(key), b)},
	})
	if err != nil {
		return err
	}
	return s.Client.Patch(ctx, cm, client.RawPatch(types.MergePatchType, patch))
}

// noted reads a document that note stored. It returns false if there is none. If the seal is wrong, the error ends the
// run.
func (s *scope) noted(ctx context.Context, key string, into any) (bool, error) {
	cm := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, types.NamespacedName{Namespace: s.run.Namespace, Name: kube.SnapshotName(s.run)}, cm); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	b := cm.BinaryData[key]
	if b == nil {
		return false, nil
	}
	seal, err := s.noteKey(ctx)
	if err != nil {
		return false, err
	}
	// The seal includes the key, so a document cannot be copied from one key to another.
	if !identity.Sealed(cm.Data[key+sealSuffix], seal, []byte(key), b) {
		return false, troubled(result.ReasonSnapshotForged, "%s of ConfigMap %s is not what the operator has written", key, cm.Name)
	}
	if err := compress.UnpackJSON(b, into); err != nil {
		return false, fmt.Errorf("config map %s: %s: %w", cm.Name, key, err)
	}
	return true, nil
}

// noteKey returns the key that seals the documents in this attempt's snapshot ConfigMap.
func (s *scope) noteKey(ctx context.Context) ([]byte, error) {
	a, err := s.Credentials.Authority(ctx)
	if err != nil {
		return nil, err
	}
	return a.Key(operatorca.KeyNotes, string(s.run.UID), kube.Attempt(s.run)), nil
}

// startSnapshot returns the snapshot from before the start, or nil if no start has been chosen yet.
func (s *scope) startSnapshot(ctx context.Context) (*snapshot, error) {
	if s.run.Status.WarmupStartTime == nil {
		return nil, nil
	}
	return s.takenSnapshot(ctx, snapshotBefore)
}

// takenSnapshot returns a snapshot that must exist. If it is gone, the error ends the run.
func (s *scope) takenSnapshot(ctx context.Context, key string) (*snapshot, error) {
	snap, err := s.readSnapshot(ctx, key)
	if err == nil && snap == nil {
		err = troubled(result.ReasonSnapshotForged, "%s of ConfigMap %s, which the operator has written, is gone", key, kube.SnapshotName(s.run))
	}
	return snap, err
}

// readSnapshot returns a snapshot, or nil if it was not taken yet.
func (s *scope) readSnapshot(ctx context.Context, key string) (*snapshot, error) {
	snap := &snapshot{}
	if found, err := s.noted(ctx, key, snap); !found {
		return nil, err
	}
	if nodes := s.current.Database.NodeCount() - len(s.current.Database.Topology.Absent); len(snap.Nodes) != nodes {
		return nil, fmt.Errorf("config map %s: %s: %d nodes, not %d", kube.SnapshotName(s.run), key, len(snap.Nodes), nodes)
	}
	return snap, nil
}
