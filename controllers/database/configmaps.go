package database

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/ops/identity"
)

// Mounted is a user's ConfigMap that the pods of a database mount, for example with the configuration of their program.
type Mounted struct {
	Name string `json:"name"`
	// Digest is a digest of the keys and their contents, or "" if the ConfigMap does not exist.
	Digest string `json:"digest,omitempty"`
	// Version changes with each write to the ConfigMap.
	Version string `json:"version,omitempty"`
}

// FindMounted reads the ConfigMaps that pods mount, sorted by name. It reads from the API server, because the cache
// contains only objects that the operator creates.
func FindMounted(ctx context.Context, live client.Reader, db *v1alpha1.GeoDatabase) ([]Mounted, error) {
	var out []Mounted
	for _, name := range mountedNames(&db.Spec) {
		cm, m := &corev1.ConfigMap{}, Mounted{Name: name}
		err := live.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: name}, cm)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if !apierrors.IsNotFound(err) {
			text, err := json.Marshal([]any{cm.Data, cm.BinaryData})
			if err != nil {
				return nil, err
			}
			m.Digest, m.Version = identity.Digest(text), string(cm.UID)+"/"+cm.ResourceVersion
		}
		out = append(out, m)
	}
	return out, nil
}

// mountedNames returns the names of the ConfigMaps that pods mount, sorted and without duplicates.
func mountedNames(db *v1alpha1.GeoDatabaseSpec) (names []string) {
	add := func(p *v1alpha1.Program) {
		for i := range p.Volumes {
			if ref := p.Volumes[i].ConfigMapRef; ref != nil {
				names = append(names, ref.Name)
			}
		}
	}
	if db.Pods != nil {
		add(&db.Pods.Program)
	}
	for i := range db.Roles {
		add(&db.Roles[i].Program)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// DigestsOf returns the digests of the ConfigMaps by name, or nil if there are none.
func DigestsOf(mounted []Mounted) map[string]string {
	if len(mounted) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, m := range mounted {
		out[m.Name] = m.Digest
	}
	return out
}
