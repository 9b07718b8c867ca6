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

// TopologyKey is the key in a topology ConfigMap, and also the name of the file that nodes read. The value is a
// deploy.Database as JSON.
const TopologyKey = "database.json"

// Annotations of a topology ConfigMap that describe its incarnation.
const (
	annotationHash     = "geobench.dev/topology-hash"
	annotationSequence = "geobench.dev/sequence"
	// annotationLosses is the number of consecutive incarnations that lost their state soon after their creation.
	annotationLosses = "geobench.dev/losses"
	// annotationCause is the reason why the previous incarnation was replaced.
	annotationCause = "geobench.dev/cause"
	// annotationEmulation and annotationEmulationReason are the backend and the reason for its choice.
	annotationEmulation       = "geobench.dev/emulation"
	annotationEmulationReason = "geobench.dev/emulation-reason"
)

// Incarnation is a set of nodes that read the same topology ConfigMap. The ConfigMap is immutable, and its name
// contains the names of the database and of the incarnation. So a pod can never read the topology of another
// incarnation.
type Incarnation struct {
	// sequence counts the incarnations of the database from 1. The incarnation with the highest sequence is the current
	// one. highest is the highest sequence of all ConfigMaps, including forged ones.
	sequence, highest int
	// Hash is the hash of the plan.
	Hash   string
	losses int
	// Cause is the reason why the previous incarnation was replaced.
	Cause string
	born  time.Time
	// backend is the backend that emulates the network. Why is the reason for its choice.
	backend v1alpha1.Emulation
	Why     string
	// Database is the description of the database for its nodes.
	Database deploy.Database
	// Foreign is set if the ConfigMap has no valid seal. Then the operator did not create it, or the operator's version
	// did not seal ConfigMaps yet. Its contents say nothing about the running nodes.
	Foreign bool
}

// ID returns the name of the incarnation. It contains a hash of the database's UID. So nodes of a deleted database with
// the same name are never mistaken for nodes of this database.
func (i *Incarnation) ID() string { return i.Database.Incarnation }

// Emulation returns the backend that emulates this incarnation's network.
func (i *Incarnation) Emulation() v1alpha1.Emulation {
	if i.backend != "" {
		return i.backend
	}
	// Incarnations of earlier operator versions have no annotation for the backend.
	if i.Database.Emulate {
		return v1alpha1.EmulationBuiltIn
	}
	return v1alpha1.EmulationNone
}

func incarnationID(db *v1alpha1.GeoDatabase, sequence int) string {
	return fmt.Sprintf("%s-%d", deploy.ShortHash(string(db.UID))[:5], sequence)
}

// FindIncarnations returns the current incarnation of db, or nil, and the ConfigMaps of earlier incarnations. reader
// must read from the API server: a stale answer would bring back an old incarnation. A foreign incarnation is the
// current one only if no ConfigMap has a valid seal.
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
		// A forged ConfigMap may be unreadable. That must not block the database.
		if err != nil && !foreign {
			return nil, nil, err
		}
		if err == nil {
			// A forged ConfigMap occupies its name, so the next incarnation must have a higher number.
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

// nextIncarnation returns the successor of previous, which may be nil. Its name is derived from the sequence, so a
// second operator cannot create it again.
func nextIncarnation(db *v1alpha1.GeoDatabase, previous *Incarnation, p *Plan, now time.Time, losses int, cause string) *Incarnation {
	i := &Incarnation{sequence: 1, Hash: p.Hash, losses: losses, Cause: cause, born: now, Database: p.Database, backend: p.Emulation, Why: p.Why}
	if previous != nil {
		i.sequence = previous.highest + 1
	}
	i.Database.Incarnation = incarnationID(db, i.sequence)
	i.Database.Epoch = now.UTC().Truncate(time.Second)
	return i
}

// lossDelay returns the minimum age at which an incarnation that has lost its state may be replaced.
func (i *Incarnation) lossDelay() time.Duration {
	d := lossBackoff << min(i.losses, 10)
	return min(d, lossBackoffMax)
}

// lossesAt returns the number of consecutive losses to record in the successor of this incarnation. The successor
// replaces this incarnation at time now because of a loss of state.
func (i *Incarnation) lossesAt(now time.Time) int {
	if now.Sub(i.born) > lossForgiven {
		return 0
	}
	return i.losses + 1
}

// buildTopology returns the ConfigMap of an incarnation, sealed with key.
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
	// lossBackoff is the minimum age at which an incarnation that has lost its state is replaced. It doubles with each
	// consecutive incarnation that loses its state before the age lossForgiven, up to lossBackoffMax.
	lossBackoff    = 5 * time.Second
	lossBackoffMax = 5 * time.Minute
	lossForgiven   = 10 * time.Minute
)

// TellsPods reports whether the backend configures the links of each pod, so that link faults can be merged into the
// network.
func (i *Incarnation) TellsPods() bool {
	return i.Emulation() == v1alpha1.EmulationSidecar || i.Emulation() == v1alpha1.EmulationChaosMesh
}
