package controllers

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
	"github.com/geobench/geobench/internal/identity"
)

// giveCredentials keeps the Secret that the pods of the database mount. It is looked at now and then: certificates are renewed long
// before they end, and pods find the new ones where the old ones were.
func (s *databaseScope) giveCredentials(ctx context.Context) error {
	now := s.Clock.Now()
	if looked, ok := s.credentialsLooked.Load(s.db.UID); ok && now.Sub(looked.(time.Time)) < authorityFresh && s.isTrue(v1alpha1.ConditionNodesReady) {
		return nil
	}
	a, err := s.Credentials.Authority(ctx)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: credentialsName(s.db), Namespace: s.db.Namespace, Labels: databaseLabels(s.db, RoleCredentials)}}
	err = s.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	missing := apierrors.IsNotFound(err)
	if !missing && !metav1.IsControlledBy(secret, s.db) {
		return &nameTakenError{"Secret", secret.Name}
	}
	base := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[identity.FilePeer] = a.Key(keyPeer, string(s.db.UID))
	secret.Data[identity.FileClients] = a.Key(keyClients, string(s.db.UID))
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
		err = ensureCreated(ctx, s.Client, s.Live, s.db, secret)
	case !maps.EqualFunc(base.Data, secret.Data, bytes.Equal):
		err = s.Client.Patch(ctx, secret, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil {
		s.credentialsLooked.Store(s.db.UID, now)
	}
	return err
}

// serverFiles are what an administration server needs.
var serverFiles = []string{identity.FileCert, identity.FileKey, identity.FileSigners}

// credentialsVolume holds files of the database's Secret, and of other Secrets.
func credentialsVolume(db *v1alpha1.GeoDatabase, files []string, more ...corev1.VolumeProjection) corev1.Volume {
	own := corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: credentialsName(db)}, Items: keysToPaths(files...)}}
	return corev1.Volume{Name: "credentials", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		// Only Geobench's own containers mount it, and not all of them run as the same user.
		DefaultMode: ptr.To[int32](0o444), Sources: append([]corev1.VolumeProjection{own}, more...),
	}}}
}

func keysToPaths(files ...string) (out []corev1.KeyToPath) {
	for _, file := range files {
		out = append(out, corev1.KeyToPath{Key: file, Path: file})
	}
	return out
}
