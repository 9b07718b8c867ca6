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

// Files of a Folder. Their names are also the keys of its Secret.
const (
	// FileCert and FileKey are the certificate and key of the pod's administration servers. FileSigners contains the
	// certificates of the valid signers. All are in PEM format.
	FileCert    = "tls.crt"
	FileKey     = "tls.key"
	FileSigners = "ca.crt"
	// FilePeer is the key that the nodes of a database share. FileClients is the key from which the client keys of the
	// database's runs are derived: see ClientKey. Nodes have both files.
	FilePeer    = "peer.key"
	FileClients = "clients.key"
	// FileClient is the client key of a run. Only the run's workers have this file.
	FileClient = "client.key"
)

// DefaultFolder is the folder that contains a pod's credentials.
const DefaultFolder = "/etc/geobench-credentials"

// OperatorName is the name in the operator's certificate. Administration servers accept no other client.
const OperatorName = "operator.geobench.dev"

// ServerName returns the name in the certificates of the administration servers of a database's pods, and of the pods
// of runs on the database.
func ServerName(databaseUID string) string { return databaseUID + ".database.geobench.dev" }

// ClientKey derives the client key of a run from the content of FileClients.
func ClientKey(clients []byte, run string) []byte { return Derive(clients, "client", run) }

// Folder is the path of a pod's credentials, which are a mounted Secret. Files are read at each use, because
// credentials are renewed.
type Folder string

// Read returns the content of a file. It returns an error if the file is empty.
func (f Folder) Read(file string) ([]byte, error) {
	b, err := os.ReadFile(filepath.Join(string(f), file))
	if err == nil && len(b) == 0 {
		err = fmt.Errorf("%s is empty", filepath.Join(string(f), file))
	}
	return b, err
}

// server returns the configuration of a server that accepts only the operator, with mutual TLS.
func (f Folder) server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		// Read the files for each connection, so that renewed certificates take effect without a restart.
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
				// Disable session tickets: a ticket would outlive the certificates for which it was issued.
				SessionTicketsDisabled: true,
			}, nil
		},
	}
}

// Listener returns a listener whose connections authenticate the operator before they return any data. It calls turned
// for each peer that cannot authenticate.
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

// connection performs the handshake at its first read. Accept does not wait for the handshake, so a slow peer does not
// delay other peers.
type connection struct {
	*tls.Conn
	proof  sync.Once
	turned func(net.Addr, error)
}

func (c *connection) Read(b []byte) (int, error) {
	c.proof.Do(func() {
		// Ignore the error here: the Read below returns it to the server, which closes the connection.
		if err := c.Handshake(); err != nil {
			c.turned(c.RemoteAddr(), err)
		}
	})
	return c.Conn.Read(b)
}

// isOperator returns an error for a peer whose certificate is valid but not the operator's.
func isOperator(s tls.ConnectionState) error {
	if leaf := s.PeerCertificates[0]; !slices.Contains(leaf.DNSNames, OperatorName) {
		return fmt.Errorf("the client is %v, not %s", leaf.DNSNames, OperatorName)
	}
	return nil
}

// Client returns the TLS configuration for the operator's connections to servers with the given name.
func (a *Authority) Client(operator *tls.Certificate, server string) *tls.Config {
	roots := x509.NewCertPool()
	for _, s := range a.signers {
		roots.AddCert(s.cert)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: server, Certificates: []tls.Certificate{*operator}, NextProtos: []string{"http/1.1"}}
}

// Pair returns the certificate in the form required by package tls.
func (c *Certificate) Pair() (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	return &pair, err
}
