package sqltarget

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/bench/target"
)

const (
	// ConnectWithin is the timeout for opening a connection. Silence is the timeout for the answer to a request that does
	// more work than a client's transaction.
	ConnectWithin = 10 * time.Second
	Silence       = 15 * time.Second
	// CloseBound is the timeout for closing a connection.
	CloseBound = 5 * time.Second
	// probes is the number of round trips measured per endpoint.
	probes = 11
)

// Server is the location of a database, with the credentials of its user.
type Server struct {
	// Endpoints are the addresses to which the clients of each region connect, by geo.Region. All lead to the same
	// database.
	Endpoints []Endpoint
	// Database is the name of the database. The dialect defines the meaning of an empty name.
	Database string
	// User and Password are the credentials. If they are empty, the environment variables of the database's own clients
	// apply.
	User, Password string
	// CAFile is a file with the CA certificates that verify the server's certificate. If it is empty, the system's roots
	// apply.
	CAFile string
}

// Endpoint is a region and the address of the server for its clients. The address is host:port or, in some dialects,
// the folder of a Unix socket and the port.
type Endpoint struct {
	Region, Address string
}

// Field returns the path of an endpoint's address in the manifest.
func (s *Server) Field(e Endpoint) string {
	return fmt.Sprintf("spec.external.endpoints[%d].address", slices.Index(s.Endpoints, e))
}

// Fields of a GeoDatabase other than the endpoints.
const (
	DatabaseField = "spec.external.database"
	SecretField   = "spec.external.secretRef"
)

// ParameterField returns the path of an engine parameter in the manifest.
func ParameterField(name string) string { return "spec.engine.parameters." + name }

// Wrong returns a *target.FieldError with a formatted message.
func Wrong(field, value, format string, args ...any) error {
	return &target.FieldError{Field: field, Value: value, Message: fmt.Sprintf(format, args...)}
}

// Unreachable returns the error for an endpoint where no server of this kind answers. kind is the server's name in the
// message. listens is the name of the listen address in the server's configuration.
func (s *Server) Unreachable(e Endpoint, kind, listens string, err error) error {
	var network *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return Wrong(s.Field(e), e.Address, "there is no host of this name (%v): name one that this machine can look up, or its IP address", lookup)
	case errors.As(err, &network):
		return Wrong(s.Field(e), e.Address, "nothing answers there as %s (%v): see that the server runs, listens on this address (%s) and is let through by firewalls", kind, network, listens)
	}
	return Wrong(s.Field(e), e.Address, "no connection to %s could be opened within %v: %v; see that it is %[1]s that listens there", kind, ConnectWithin, err)
}

// Untrusted returns the error for a server whose certificate fails verification.
func (o *Options) Untrusted(e Endpoint, err error) error {
	return Wrong(ParameterField(TLSParameter), o.TLS,
		"the certificate of %s is not to be trusted (%v): put the certificate authority's ca.crt into the Secret, or use %s, which does not ask who the server is", e.Address, err, TLSRequire)
}

// TLSConfig returns the TLS configuration of connections to host for a mode of the parameter tls. It returns nil for
// TLSDisable.
func TLSConfig(s *Server, host, mode string) (*tls.Config, error) {
	if mode == TLSDisable {
		return nil, nil
	}
	c := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		text, err := os.ReadFile(s.CAFile)
		if err != nil {
			return nil, Wrong(SecretField, "", "ca.crt cannot be read: %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, Wrong(SecretField, "", "ca.crt holds no certificate in PEM")
		}
	}
	switch mode {
	case TLSRequire:
		// require encrypts without verifying who the server is.
		c.InsecureSkipVerify = true
	case TLSVerifyCA: // verify the chain, but not the host name
		roots := c.RootCAs
		// InsecureSkipVerify turns off the verification by crypto/tls, which includes the host name. VerifyConnection
		// verifies the chain instead.
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(state tls.ConnectionState) error {
			options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, intermediate := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(intermediate)
			}
			if _, err := state.PeerCertificates[0].Verify(options); err != nil {
				return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
			}
			return nil
		}
	}
	return c, nil
}

// roundTrip returns the median of 11 round trips to the server.
func roundTrip(ctx context.Context, c Conn) (time.Duration, error) {
	var took []time.Duration
	for range probes {
		begin := time.Now()
		if err := c.Ping(ctx); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
