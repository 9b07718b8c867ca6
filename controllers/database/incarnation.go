package database

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/ops/deploy"
	"github.com/geobench/geobench/internal/ops/identity"
)

// TopologyKey is the key of a topology ConfigMap, and the file that nodes read: a deploy.Database as JSON.
const TopologyKey = "database.json"

// What a topology ConfigMap says of its incarnation, as annotations.
const (
	annotationHash     = "geobench.dev/topology-hash"
	annotationSequence = "geobench.dev/sequence"
	// annotationLosses counts the incarnations in a row that lost their state soon after they were made.
	annotationLosses = "geobench.dev/losses"
	// annotationCause says why the incarnation before this one was given up.
	annotationCause = "geobench.dev/cause"
	// annotationEmulation and annotationEmulationReason name the backend, and say why that one.
	annotationEmulation       = "geobench.dev/emulation"
	annotationEmulationReason = "geobench.dev/emulation-reason"
)

// Incarnation is one life of a database: the nodes that read the same topology ConfigMap. The ConfigMap is immutable
// and its name is the database's with the incarnation's, so a pod can never read another incarnation's topology.
type Incarnation struct {
	// sequence counts the database's incarnations from 1; the one with the highest is the present one. highest is that of
	// all ConfigMaps, whoever has made them.
	sequence, highest int
	// Hash is that of the plan.
	Hash   string
	losses int
	// Cause says why the one before it was given up.
	Cause string
	born  time.Time
	// backend is what emulates the network, Why says why that one.
	backend v1alpha1.Emulation
	Why     string
	// Database is what its nodes are told.
	Database deploy.Database
	// Foreign: its ConfigMap is not what this operator has made, or one of before there were seals. It says nothing of the
	// nodes.
	Foreign bool
}

// ID is the incarnation's name. It holds a part of the database's UID, so that nodes of a deleted database of the same
// name are never taken for its nodes.
func (i *Incarnation) ID() string { return i.Database.Incarnation }

// Emulation is the backend of this incarnation's network.
func (i *Incarnation) Emulation() v1alpha1.Emulation {
	if i.backend != "" {
		return i.backend
	}
	if i.Database.Emulate {
		return v1alpha1.EmulationBuiltIn
	}
	return v1alpha1.EmulationNone
}

func incarnationID(db *v1alpha1.GeoDatabase, sequence int) string {
	return fmt.Sprintf("%s-%d", deploy.ShortHash(string(db.UID))[:5], sequence)
}

// FindIncarnations returns the present incarnation of db, or nil, and the ConfigMaps of earlier ones. It must ask the
// API server itself: an old answer would bring back an old incarnation. One that somebody else has made is the present
// one only where there is no other.
func FindIncarnations(ctx context.Context, reader client.Reader, credentials *operatorca.Keeper, db *v1alpha1.GeoDatabase) (*Incarnation, []corev1.ConfigMap, error) {
	key, err := topologyKey(ctx, credentials, db)
	if err != nil {
		return nil, nil, err
	}
	list := &corev1.ConfigMapList{}
	if err := reader.List(ctx, list, client.InNamespace(db.Namespace),
		client.MatchingLabels{kube.LabelDatabase: db.Name, kube.LabelRole: kube.RoleTopology, kube.LabelManagedBy: kube.ManagedBy}); err != nil {
		return nil, nil, err
	}
	var latest *Incarnation
	var latestCM *corev1.ConfigMap
	var old []corev1.ConfigMap
	highest := 0
	for i := range list.Items {
		cm := &list.Items[i]
		if !metav1.IsControlledBy(cm, db) || cm.DeletionTimestamp != nil {
			continue
		}
		inc, err := readIncarnation(cm)
		foreign := !operatorca.IsSealed(key, cm)
		if err != nil && !foreign {
			return nil, nil, err
		}
		if err == nil {
			highest = max(highest, inc.sequence)
			inc.Foreign = foreign
			if latest == nil || latest.Foreign && !foreign || latest.Foreign == foreign && inc.sequence > latest.sequence {
				latest, latestCM, cm = inc, cm, latestCM
			}
		}
		if cm != nil {
			old = append(old, *cm)
		}
	}
	if latest != nil {
		latest.highest = highest
	}
	return latest, old, nil
}

func topologyKey(ctx context.Context, credentials *operatorca.Keeper, db *v1alpha1.GeoDatabase) ([]byte, error) {
	a, err := credentials.Authority(ctx)
	if err != nil {
		return nil, err
	}
	return a.Key(operatorca.KeyTopology, string(db.UID)), nil
}

func readIncarnation(cm *corev1.ConfigMap) (*Incarnation, error) {
	i := &Incarnation{Hash: cm.Annotations[annotationHash], Cause: cm.Annotations[annotationCause], born: cm.CreationTimestamp.Time,
		backend: v1alpha1.Emulation(cm.Annotations[annotationEmulation]), Why: cm.Annotations[annotationEmulationReason]}
	var err error
	if i.sequence, err = strconv.Atoi(cm.Annotations[annotationSequence]); err != nil {
		return nil, fmt.Errorf("config map %s: annotation %s: %w", cm.Name, annotationSequence, err)
	}
	if s := cm.Annotations[annotationLosses]; s != "" {
		if i.losses, err = strconv.Atoi(s); err != nil {
			return nil, fmt.Errorf("config map %s: annotation %s: %w", cm.Name, annotationLosses, err)
		}
	}
	if err := json.Unmarshal([]byte(cm.Data[TopologyKey]), &i.Database); err != nil {
		return nil, fmt.Errorf("config map %s: %s: %w", cm.Name, TopologyKey, err)
	}
	return i, nil
}

// nextIncarnation is the one after previous, which may be nil. Its name follows from the sequence, so that making it
// twice fails the second time.
func nextIncarnation(db *v1alpha1.GeoDatabase, previous *Incarnation, p *Plan, now time.Time, losses int, cause string) *Incarnation {
	i := &Incarnation{sequence: 1, Hash: p.Hash, losses: losses, Cause: cause, born: now, Database: p.Database, backend: p.Emulation, Why: p.Why}
	if previous != nil {
		i.sequence = previous.highest + 1
	}
	i.Database.Incarnation = incarnationID(db, i.sequence)
	i.Database.Epoch = now.UTC().Truncate(time.Second)
	return i
}

// lossDelay is how long after its birth an incarnation that lost its state may be replaced.
func (i *Incarnation) lossDelay() time.Duration {
	d := lossBackoff << min(i.losses, 10)
	return min(d, lossBackoffMax)
}

// lossesAt counts the losses in a row for an incarnation that is made at now because this one lost its state.
func (i *Incarnation) lossesAt(now time.Time) int {
	if now.Sub(i.born) > lossForgiven {
		return 0
	}
	return i.losses + 1
}

// buildTopology makes the ConfigMap of an incarnation, sealed with key.
func buildTopology(db *v1alpha1.GeoDatabase, i *Incarnation, key []byte) (*corev1.ConfigMap, error) {
	b, err := json.MarshalIndent(&i.Database, "", " ")
	if err != nil {
		return nil, err
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      kube.TopologyName(db, i.ID()),
			Namespace: db.Namespace,
			Labels:    kube.WithLabel(kube.DatabaseLabels(db, kube.RoleTopology), kube.LabelIncarnation, i.ID()),
			Annotations: map[string]string{
				annotationHash:     i.Hash,
				annotationSequence: strconv.Itoa(i.sequence),
				annotationLosses:   strconv.Itoa(i.losses),
				annotationCause:    i.Cause,

				annotationEmulation:       string(i.backend),
				annotationEmulationReason: i.Why,
			},
		},
		Immutable: ptr.To(true),
		Data:      map[string]string{TopologyKey: string(b)},
	}
	cm.Annotations[operatorca.AnnotationSeal] = identity.Seal(key, operatorca.SealedParts(cm)...)
	return cm, nil
}

const (
	// lossBackoff is how long an incarnation is left alone before a lost state makes the next one; it doubles, up to
	// lossBackoffMax, while incarnations keep dying younger than lossForgiven.
	lossBackoff    = 5 * time.Second
	lossBackoffMax = 5 * time.Minute
	lossForgiven   = 10 * time.Minute
)

// TellsPods says whether the backend tells pods what their links are, so that faults of links are another network.
func (i *Incarnation) TellsPods() bool {
	return i.Emulation() == v1alpha1.EmulationSidecar || i.Emulation() == v1alpha1.EmulationChaosMesh
}
