package identity

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// The files of a Folder, and the keys of the Secret that it is.
const (
	// FileCert and FileKey are the certificate of the pod's administration servers, and its key; FileSigners are the
	// certificates of those whose signature counts. All in PEM.
	FileCert    = "tls.crt"
	FileKey     = "tls.key"
	FileSigners = "ca.crt"
	// FilePeer is the key that the nodes of a database share; FileClients the one that those of the clients of its runs
	// are derived from: see ClientKey. Nodes have both.
	FilePeer    = "peer.key"
	FileClients = "clients.key"
	// FileClient is the key of the clients of a run: its workers have it.
	FileClient = "client.key"
)

// DefaultFolder is where pods find their credentials.
const DefaultFolder = "/etc/geobench-credentials"

// OperatorName is the name that servers take requests from.
const OperatorName = "operator.geobench.dev"

// ServerName is the name of the administration servers in the pods of a database, and of the runs on it.
func ServerName(databaseUID string) string { return databaseUID + ".database.geobench.dev" }

// ClientKey is the key of the clients of a run, from what is in FileClients.
func ClientKey(clients []byte, run string) []byte { return Derive(clients, "client", run) }

// Folder is the credentials of a pod: a Secret that is mounted. Files are read when they are used, for they are
// renewed.
type Folder string

// Read returns one of the files.
func (f Folder) Read(file string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(string(f), file))
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s is empty", filepath.Join(string(f), file))
	}
	return b, err
}

// server is the configuration of a server that answers the operator alone: mutual TLS.
func (f Folder) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			cert, err := tls.LoadX509KeyPair(filepath.Join(string(f), FileCert), filepath.Join(string(f), FileKey))
			if err != nil {
				return nil, err
			}
			signers, err := f.Read(FileSigners)
			if err != nil {
				return nil, err
			}
			roots, err := pool(signers)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", FileSigners, err)
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"},
				ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, VerifyConnection: isOperator,
				// A ticket would outlive the certificates that it was given for.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// Listener makes those who connect prove that they are the operator before anything that they send is read; turned
// hears of those who cannot.
func (f Folder) Listener(l net.Listener, turned func(from net.Addr, reason error)) net.Listener {
	return &listener{l, f.server(), turned}
}

type listener struct {
	net.Listener
	config *tls.Config
	turned func(net.Addr, error)
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: tls.Server(c, l.config), turned: l.turned}, nil
}

// connection is one whose first read, not its acceptance, waits for the proof: whoever takes his time holds up nobody
// else.
type connection struct {
	*tls.Conn
	proof  sync.Once
	turned func(net.Addr, error)
}

func (c *connection) Read(b []byte) (int, error) {
	c.proof.Do(func() {
		if err := c.Handshake(); err != nil {
			c.turned(c.RemoteAddr(), err)
		}
	})
	return c.Conn.Read(b)
}

// isOperator lets nobody in who is merely known.
func isOperator(s tls.ConnectionState) error {
	if leaf := s.PeerCertificates[0]; !slices.Contains(leaf.DNSNames, OperatorName) {
		return fmt.Errorf("the client is %v, not %s", leaf.DNSNames, OperatorName)
	}
	return nil
}

// Client is the configuration of the operator's connections to the servers of a name.
func (a *Authority) Client(operator *tls.Certificate, server string) *tls.Config {
	roots := x509.NewCertPool()
	for _, s := range a.signers {
		roots.AddCert(s.cert)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: server, Certificates: []tls.Certificate{*operator}, NextProtos: []string{"http/1.1"}}
}

// Pair is the certificate as package tls wants it.
func (c *Certificate) Pair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	return &pair, err
}
