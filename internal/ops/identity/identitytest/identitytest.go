// Package identitytest creates credentials for tests.
package identitytest

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/ops/identity"
)

// Database creates an authority. It returns the credentials of a database's pods, and the operator's TLS configuration
// for connections to these pods.
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

// Stranger returns a TLS configuration with a certificate of a different authority. It accepts any server.
func Stranger(t testing.TB) *tls.Config {
	t.Helper()
	_, c := Database(t)
	c.InsecureSkipVerify = true
	return c
}

// Serve serves h until the end of the test, as a pod with the credentials in folder would. It returns the server's
// address.
func Serve(t testing.TB, folder identity.Folder, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(folder.Listener(l, func(net.Addr, error) {})) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
