package database

import (
	"bytes"
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/controllers/operatorca"
	"github.com/geobench/geobench/internal/ops/identity"
)

// giveAccount creates the ServiceAccount of the database's pods. It checks the account again while nodes are not ready,
// because no pod can be created without it.
func (s *scope) giveAccount(ctx context.Context) error {
	if _, seen := s.accounts.Load(s.db.UID); s.db.Spec.External != nil || seen && s.isTrue(v1alpha1.ConditionNodesReady) {
		return nil
	}
	meta := metav1.ObjectMeta{Name: kube.NodesAccountName(s.db), Namespace: s.db.Namespace, Labels: kube.DatabaseLabels(s.db, kube.RoleNode)}
	if err := kube.EnsureAccount(ctx, s.Client, s.Live, s.db, meta); err != nil {
		return err
	}
	s.accounts.Store(s.db.UID, true)
	return nil
}

// giveCredentials maintains the Secret that the pods of the database mount. It checks the Secret periodically.
// Certificates are renewed long before they expire, and pods find the new certificates in the same files.
func (s *scope) giveCredentials(ctx context.Context) error {
	now := s.Clock.Now()
	if looked, ok := s.credentialsLooked.Load(s.db.UID); ok && now.Sub(looked.(time.Time)) < operatorca.Fresh && s.isTrue(v1alpha1.ConditionNodesReady) {
		return nil
	}
	a, err := s.Credentials.Authority(ctx)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: kube.CredentialsName(s.db), Namespace: s.db.Namespace, Labels: kube.DatabaseLabels(s.db, kube.RoleCredentials)}}
	err = s.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := apierrors.IsNotFound(err)
	// Do not use a Secret that another user created, because that user would know the keys.
	if !missing && !metav1.IsControlledBy(secret, s.db) {
		return kube.NameTaken(secret)
	}
	base := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[identity.FilePeer] = a.Key(operatorca.KeyPeer, string(s.db.UID))
	secret.Data[identity.FileClients] = a.Key(operatorca.KeyClients, string(s.db.UID))
	secret.Data[identity.FileSigners] = a.Signers()
	name := identity.ServerName(string(s.db.UID))
	if !identity.Current(secret.Data[identity.FileCert], a.Signers(), name, now) {
		c, err := a.Issue(name, false, now)
		if err != nil {
			return err
		}
		secret.Data[identity.FileCert], secret.Data[identity.FileKey] = c.Cert, c.Key
	}
	switch {
	case missing:
		err = kube.EnsureCreated(ctx, s.Client, s.Live, s.db, secret)
	case !maps.EqualFunc(base.Data, secret.Data, bytes.Equal):
		err = s.Client.Patch(ctx, secret, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil {
		s.credentialsLooked.Store(s.db.UID, now)
	}
	return err
}

// ServerFiles lists the credential files that an administration server needs.
var ServerFiles = []string{identity.FileCert, identity.FileKey, identity.FileSigners}

// CredentialsVolume returns a volume with the given files of the database's Secret, and with further projections.
func CredentialsVolume(db *v1alpha1.GeoDatabase, files []string, more ...corev1.VolumeProjection) corev1.Volume {
	own := corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: kube.CredentialsName(db)}, Items: KeysToPaths(files...)}}
	return corev1.Volume{Name: "credentials", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		// Only Geobench's own containers mount the files, but not all of them run as the same user.
		DefaultMode: ptr.To[int32](0o444), Sources: append([]corev1.VolumeProjection{own}, more...),
	}}}
}

// KeysToPaths returns items for a projected Secret in which each file has the name of its key.
func KeysToPaths(files ...string) (out []corev1.KeyToPath) {
	for _, file := range files {
		out = append(out, corev1.KeyToPath{Key: file, Path: file})
	}
	return out
}
