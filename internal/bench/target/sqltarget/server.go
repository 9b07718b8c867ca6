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
	// ConnectWithin bounds the opening of a connection. Silence bounds the time without an answer for a request larger
	// than a client's transaction.
	ConnectWithin = 10 * time.Second
	Silence       = 15 * time.Second
	// CloseBound bounds the closing of a connection.
	CloseBound = 5 * time.Second
	// probes is the number of round trips that are measured for each endpoint.
	probes = 11
)

// Server is the location of a database, with the user's credentials.
type Server struct {
	// Endpoints are the addresses to which the clients of each region connect, in the order of geo.Region. All lead to the
	// same database.
	Endpoints []Endpoint
	// Database is its name; the dialect defines the meaning of an empty name.
	Database string
	// User and Password; if empty, they are taken from the environment variables that such a database's clients use.
	User, Password string
	// CAFile names a file of the certificates that the server's is checked by; empty stands for the system's.
	CAFile string
}

// Endpoint is host:port, or the folder of a Unix socket and the port where the dialect says so.
type Endpoint struct {
	Region, Address string
}

// Field is the manifest field of an endpoint's address.
func (s *Server) Field(e Endpoint) string {
	return fmt.Sprintf("spec.external.endpoints[%d].address", slices.Index(s.Endpoints, e))
}

// Fields of a GeoDatabase other than the endpoints.
const (
	DatabaseField = "spec.external.database"
	SecretField   = "spec.external.secretRef"
)

// ParameterField is the manifest field of a parameter.
func ParameterField(name string) string { return "spec.engine.parameters." + name }

// Wrong is a *target.FieldError.
func Wrong(field, value, format string, args ...any) error {
	return &target.FieldError{Field: field, Value: value, Message: fmt.Sprintf(format, args...)}
}

// Unreachable returns an error with the manifest field of an endpoint at which no server of this kind answers. listens
// is the name of the listen address in the server's configuration.
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

// Untrusted says that a server's certificate is not to be trusted.
func (o *Options) Untrusted(e Endpoint, err error) error {
	return Wrong(ParameterField(TLSParameter), o.TLS,
		"the certificate of %s is not to be trusted (%v): put the certificate authority's ca.crt into the Secret, or use %s, which does not ask who the server is", e.Address, err, TLSRequire)
}

// TLSConfig is the TLS configuration of connections to a host for a mode of the parameter tls; nil for no encryption.
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
		c.InsecureSkipVerify = true
	case TLSVerifyCA: // the chain, and not the name
		roots := c.RootCAs
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

// roundTrip is the median of some round trips to the server.
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
