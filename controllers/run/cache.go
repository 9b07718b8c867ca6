package run

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/database"
	"github.com/geobench/geobench/controllers/kube"
)

// remembered caches data that a run need not read from the API server again while it is measured, so that faults are
// injected on time. The data is read again before the verdict is determined.
type remembered struct {
	of types.UID
	// topologies lists the names and versions of the ConfigMaps from which incarnation was read.
	topologies  string
	incarnation *database.Incarnation
	before      *snapshot
	mesh        *meshNote
}

// remember returns the cached data of the run. It returns nil, and drops the cache, in stages that must read everything
// from the API server.
func (s *scope) remember() *remembered {
	name := client.ObjectKeyFromObject(s.run)
	// No fault can be late before Warmup, and Evaluate needs current data.
	if !s.atLeast(v1alpha1.StageWarmup) || s.atLeast(v1alpha1.StageEvaluate) || s.run.DeletionTimestamp != nil {
		s.memory.Delete(name)
		return nil
	}
	// A run with the same name may have been deleted and created again.
	if m, ok := s.memory.Load(name); ok && m.(*remembered).of == s.run.UID {
		return m.(*remembered)
	}
	m := &remembered{of: s.run.UID}
	s.memory.Store(name, m)
	return m
}

// incarnation returns the database's current incarnation. While the run is measured, incarnation reads the ConfigMaps
// of the incarnation again only if the cache shows other versions of them.
func (s *scope) incarnation(ctx context.Context) (*database.Incarnation, error) {
	m := s.remember()
	if m == nil {
		current, _, err := database.FindIncarnations(ctx, s.Live, s.Credentials, s.db)
		return current, err
	}
	list := &corev1.ConfigMapList{}
	if err := s.Client.List(ctx, list, client.InNamespace(s.db.Namespace), client.MatchingLabels{
		kube.LabelDatabase: s.db.Name, kube.LabelRole: kube.RoleTopology, kube.LabelManagedBy: kube.ManagedBy,
	}); err != nil {
		return nil, err
	}
	var versions []string
	for i := range list.Items {
		versions = append(versions, list.Items[i].Name+"@"+list.Items[i].ResourceVersion)
	}
	slices.Sort(versions)
	if topologies := strings.Join(versions, " "); m.incarnation == nil || m.topologies != topologies {
		current, _, err := database.FindIncarnations(ctx, s.Live, s.Credentials, s.db)
		if err != nil {
			return nil, err
		}
		m.topologies, m.incarnation = topologies, current
	}
	return m.incarnation, nil
}

// beganWith returns the snapshot from before the start of the run's load, or nil if no start time has been chosen yet.
func (s *scope) beganWith(ctx context.Context) (*snapshot, error) {
	m := s.remember()
	if m == nil {
		return s.startSnapshot(ctx)
	}
	if m.before == nil {
		var err error
		if m.before, err = s.startSnapshot(ctx); err != nil {
			return nil, err
		}
	}
	return m.before, nil
}
