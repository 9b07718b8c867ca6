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

// remembered is data that a run need not read from the API server again while it measures, when its faults are due. It
// is read again before the run is judged.
type remembered struct {
	of types.UID
	// topologies are the versions of the ConfigMaps that incarnation was found in.
	topologies  string
	incarnation *database.Incarnation
	before      *snapshot
	mesh        *meshNote
}

// remember returns the remembered data of the run in its current stage; nil in the stages in which everything is read
// again.
func (s *scope) remember() *remembered {
	name := client.ObjectKeyFromObject(s.run)
	if !s.atLeast(v1alpha1.StageWarmup) || s.atLeast(v1alpha1.StageEvaluate) || s.run.DeletionTimestamp != nil {
		s.memory.Delete(name)
		return nil
	}
	if m, ok := s.memory.Load(name); ok && m.(*remembered).of == s.run.UID {
		return m.(*remembered)
	}
	m := &remembered{of: s.run.UID}
	s.memory.Store(name, m)
	return m
}

// incarnation finds the database's current incarnation. It is parsed again if the versions of its ConfigMaps in the
// cache have changed.
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

// beganWith returns the snapshot from before the start; nil while no start was chosen.
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
