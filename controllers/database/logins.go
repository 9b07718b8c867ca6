package database

import (
	"context"
	"crypto/rand"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/geobench/geobench/controllers/kube"
	"github.com/geobench/geobench/internal/bench/servers"
)

// giveLogins creates the Secrets for the servers of a rendered database, each with a random password. It does not
// change existing Secrets, because the servers already use their passwords. The Secrets are deleted with the database.
func (s *scope) giveLogins(ctx context.Context) error {
	for name, user := range s.logins {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.db.Namespace, Labels: kube.DatabaseLabels(s.db, kube.RoleCredentials)}}
		err := s.Live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		switch {
		case apierrors.IsNotFound(err):
			secret.Data = map[string][]byte{servers.KeyUsername: []byte(user), servers.KeyPassword: []byte(rand.Text())}
			err = kube.EnsureCreated(ctx, s.Client, s.Live, s.db, secret)
		case err == nil && !metav1.IsControlledBy(secret, s.db):
			err = kube.NameTaken(secret)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
