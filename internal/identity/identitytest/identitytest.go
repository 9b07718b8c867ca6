// Package identitytest makes credentials for tests.
package identitytest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/identity"
)

// Database is what the pods of a database find, and what the operator proves itself to them with, all of an authority of its own.
func Database(t testing.TB) (identity.Folder, *tls.Config) {
	t.Helper()
	a, err := identity.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, client bool) *identity.Certificate {
		c, err := a.Issue(name, client, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	server, folder := issue(identity.ServerName("uid"), false), t.TempDir()
	for file, b := range map[string][]byte{
		identity.FilePeer: []byte("the peers' key"), identity.FileClients: []byte("the clients' key"),
		identity.FileCert: server.Cert, identity.FileKey: server.Key, identity.FileSigners: a.Signers(),
	} {
		if err := os.WriteFile(filepath.Join(folder, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	operator, err := issue(identity.OperatorName, true).Pair()
	if err != nil {
		t.Fatal(err)
	}
	return identity.Folder(folder), a.Client(operator, identity.ServerName("uid"))
}

// Stranger has proofs, but of another authority, and believes whoever answers.
func Stranger(t testing.TB) *tls.Config {
	t.Helper()
	_, c := Database(t)
	c.InsecureSkipVerify = true
	return c
}
