package operatorca

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/ops/identity"
)

// SecretName is the name of the Secret in the operator's namespace from which all credentials derive. If it is deleted,
// a running operator that has read it restores it. An operator that starts later creates a new Secret, and all
// databases are recreated.
const SecretName = "geobench-authority"

// Fresh is the time for which the operator uses its credentials before it reads the Secret again, in case another
// operator has renewed them.
const Fresh = 10 * time.Minute

// AnnotationSeal, on a ConfigMap, is the seal of its contents. A user who may write ConfigMaps cannot forge the seal.
const (
	annotationPrefix = "geobench.dev/"
	AnnotationSeal   = annotationPrefix + "seal"
)

// Purposes of derived keys, each of which also depends on one object: see identity.Authority.Key.
const (
	KeyTopology = "topology" // seals the topology ConfigMaps of a database
	KeyNotes    = "notes"    // seals the notes of an attempt of a run
	KeyResult   = "result"   // seals the result of an attempt of a run
	KeyReport   = "report"   // seals the report of one worker of an attempt
	KeyPeer     = "peer"     // authenticates the nodes of a database to each other
	KeyClients  = "clients"  // derives the keys of the database's clients, one per attempt of a run
)

// Keeper reads, creates and renews the operator's authority.
type Keeper struct {
	// Client writes the Secret.
	Client client.Client
	// Live reads from the API server, because Secrets are not cached.
	Live client.Reader
	// Namespace is the namespace of the operator.
	Namespace string
	// Clock determines when certificates must be renewed.
	Clock clock.PassiveClock

	mu        sync.Mutex
	authority *identity.Authority
	looked    time.Time
	// operator is the certificate with which this process authenticates to pods. It is stored only in memory.
	operator *identity.Certificate
}

// Authority returns the authority that issues the operator's credentials. It reads the Secret again periodically,
// because another operator may have renewed the authority.
func (c *Keeper) Authority(ctx context.Context) (*identity.Authority, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fresh(ctx, c.Clock.Now())
}

// TLS returns the client configuration for connections to the administration servers in the pods of a database.
func (c *Keeper) TLS(ctx context.Context, database types.UID) (*tls.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	a, err := c.fresh(ctx, now)
	if err != nil {
		return nil, err
	}
	if c.operator == nil || !identity.Current(c.operator.Cert, a.Signers(), identity.OperatorName, now) {
		if c.operator, err = a.Issue(identity.OperatorName, true, now); err != nil {
			return nil, err
		}
	}
	pair, err := c.operator.Pair()
	if err != nil {
		return nil, err
	}
	return a.Client(pair, identity.ServerName(string(database))), nil
}

func (c *Keeper) fresh(ctx context.Context, now time.Time) (*identity.Authority, error) {
	if c.authority != nil && now.Sub(c.looked) < Fresh {
		return c.authority, nil
	}
	a, err := c.look(ctx, now)
	if err != nil {
		return nil, fmt.Errorf("secret %s/%s: %w", c.Namespace, SecretName, err)
	}
	c.authority, c.looked = a, now
	return a, nil
}

// SealedParts returns the parts of a ConfigMap that its seal covers: its name, Geobench's other annotations, and its
// text.
func SealedParts(cm *corev1.ConfigMap) [][]byte {
	parts := [][]byte{[]byte(cm.Name)}
	for _, key := range slices.Sorted(maps.Keys(cm.Annotations)) {
		if strings.HasPrefix(key, annotationPrefix) && key != AnnotationSeal {
			parts = append(parts, []byte(key), []byte(cm.Annotations[key]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		parts = append(parts, []byte(key), []byte(cm.Data[key]))
	}
	return parts
}

// IsSealed reports whether a ConfigMap has a valid seal that was made with key.
func IsSealed(key []byte, cm *corev1.ConfigMap) bool {
	return identity.Sealed(cm.Annotations[AnnotationSeal], key, SealedParts(cm)...)
}

// look reads the authority, creates it if it does not exist, and renews it when necessary.
func (c *Keeper) look(ctx context.Context, now time.Time) (*identity.Authority, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: c.Namespace, Labels: map[string]string{kube.LabelManagedBy: kube.ManagedBy}}}
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		a := c.authority // the Secret was deleted while this operator was running
		if a == nil {
			if a, err = identity.NewAuthority(now); err != nil {
				return nil, err
			}
		}
		if secret.Data, err = a.Data(); err != nil {
			return nil, err
		}
		// If another operator has created the Secret first, its contents apply.
		if err = c.Client.Create(ctx, secret); !apierrors.IsAlreadyExists(err) {
			return a, err
		}
		err = c.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, err
	}
	a, err := identity.ParseAuthority(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("%w; delete it to have another one made", err)
	}
	changed, err := a.Renew(now)
	if err != nil || !changed {
		return a, err
	}
	base := secret.DeepCopy()
	if secret.Data, err = a.Data(); err != nil {
		return nil, err
	}
	// The lock lets only one of several operators renew the authority. The other operators read the result later.
	return a, c.Client.Patch(ctx, secret, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}
