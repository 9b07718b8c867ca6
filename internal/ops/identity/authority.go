package identity

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"slices"
	"time"
)

// Keys in the Secret of an authority.
const (
	secretKey   = "secret"
	signerCerts = "signers.crt"
	signerKeys  = "signers.key"
)

const (
	// signerLife is the validity of a signer's certificate. The next signer is created when a third of this time remains.
	signerLife = 3 * 365 * 24 * time.Hour
	// introduction is the time for which a new signer is published before it signs its first certificate. Every process
	// that receives such a certificate then already trusts the signer.
	introduction = 24 * time.Hour
	// certificateLife is the validity of all other certificates. They are renewed when a third of this time remains.
	certificateLife = 90 * 24 * time.Hour
	// backdating is the time by which certificates are backdated, because the clocks of some machines are behind.
	backdating = time.Hour
	keySize    = 32
)

// Authority is the source of all credentials that an operator issues.
type Authority struct {
	secret  []byte
	signers []signer // oldest first
}

type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority returns an Authority with a new secret and its first signer.
func NewAuthority(now time.Time) (*Authority, error) {
	a := &Authority{secret: make([]byte, keySize)}
	if _, err := rand.Read(a.secret); err != nil {
		return nil, err
	}
	_, err := a.Renew(now)
	return a, err
}

// ParseAuthority reads an authority in the form returned by Data.
func ParseAuthority(data map[string][]byte) (*Authority, error) {
	a := &Authority{secret: data[secretKey]}
	if len(a.secret) != keySize {
		return nil, fmt.Errorf("%s: it has %d bytes, not %d", secretKey, len(a.secret), keySize)
	}
	keys := data[signerKeys]
	for certs := data[signerCerts]; ; {
		var cert, key *pem.Block
		cert, certs = pem.Decode(certs)
		key, keys = pem.Decode(keys)
		if cert == nil && key == nil {
			break
		}
		if cert == nil || key == nil {
			return nil, fmt.Errorf("%s and %s: there are not as many certificates as keys", signerCerts, signerKeys)
		}
		pair, err := tls.X509KeyPair(pem.EncodeToMemory(cert), pem.EncodeToMemory(key))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", signerCerts, err)
		}
		private, ok := pair.PrivateKey.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("%s: a %T cannot sign", signerKeys, pair.PrivateKey)
		}
		a.signers = append(a.signers, signer{pair.Leaf, private})
	}
	if len(a.signers) == 0 {
		return nil, fmt.Errorf("%s: there is no certificate", signerCerts)
	}
	return a, nil
}

// Data returns the authority as the data of a Secret.
func (a *Authority) Data() (map[string][]byte, error) {
	var keys []byte
	for _, s := range a.signers {
		b, err := x509.MarshalPKCS8PrivateKey(s.key)
		if err != nil {
			return nil, err
		}
		keys = append(keys, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: b})...)
	}
	return map[string][]byte{secretKey: a.secret, signerCerts: a.Signers(), signerKeys: keys}, nil
}

// Signers returns the certificates of all valid signers, in PEM format.
func (a *Authority) Signers() []byte {
	var b []byte
	for _, s := range a.signers {
		b = append(b, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})...)
	}
	return b
}

// Renew removes expired signers, and creates the next signer when the current one is about to expire. It reports
// whether the authority has changed and must be stored.
func (a *Authority) Renew(now time.Time) (changed bool, err error) {
	before := len(a.signers)
	a.signers = slices.DeleteFunc(a.signers, func(s signer) bool { return now.After(s.cert.NotAfter) })
	changed = len(a.signers) < before
	if n := len(a.signers); n > 0 && a.signers[n-1].cert.NotAfter.Sub(now) > signerLife/3 {
		return changed, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return changed, err
	}
	cert, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "geobench authority"}, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-backdating), NotAfter: now.Add(signerLife),
	}, nil, key, key)
	if err != nil {
		return changed, err
	}
	a.signers = append(a.signers, signer{cert, key})
	return true, nil
}

// signer returns the current signer: the newest one that has been published for long enough.
func (a *Authority) signer(now time.Time) signer {
	for _, s := range slices.Backward(a.signers) {
		if now.Sub(s.cert.NotBefore) >= introduction+backdating {
			return s
		}
	}
	// A new authority has a single signer, which must sign immediately. This is safe, because no process can have an older
	// list of signers.
	return a.signers[0]
}

// Key derives the authority's key for a purpose and for the object that the parts in of identify.
func (a *Authority) Key(purpose string, of ...string) []byte { return Derive(a.secret, purpose, of...) }

// Derive derives a key from another key, for a purpose and for the object that the parts in of identify.
func Derive(from []byte, purpose string, of ...string) []byte {
	var info []byte
	for _, part := range append([]string{purpose}, of...) {
		// Put the length of each part before the part, so that different lists of parts never give the same info.
		info = append(binary.AppendUvarint(info, uint64(len(part))), part...)
	}
	key, err := hkdf.Key(sha256.New, from, nil, string(info), keySize)
	if err != nil {
		panic("identity: HKDF gives 32 bytes from any key: " + err.Error())
	}
	return key
}

// MAC returns the HMAC-SHA256 of the parts, in order, under a key.
func MAC(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// Seal returns MAC in hexadecimal.
func Seal(key []byte, parts ...[]byte) string { return hex.EncodeToString(MAC(key, parts...)) }

// Sealed reports whether seal is the Seal of the parts.
func Sealed(seal string, key []byte, parts ...[]byte) bool {
	b, err := hex.DecodeString(seal)
	return err == nil && hmac.Equal(b, MAC(key, parts...))
}

// Digest returns the SHA-256 of a document, as "sha256:" followed by hexadecimal digits.
func Digest(b []byte) string {
	d := NewDigester()
	_, _ = d.Write(b) // a hash never returns an error
	return d.Digest()
}

// Digester computes the Digest of the data written to it.
type Digester struct{ hash.Hash }

// NewDigester returns a Digester to which no data has been written.
func NewDigester() Digester { return Digester{sha256.New()} }

// Digest returns the digest of all data written so far.
func (d Digester) Digest() string { return "sha256:" + hex.EncodeToString(d.Sum(nil)) }

// Certificate is a certificate with its private key, both in PEM.
type Certificate struct{ Cert, Key []byte }

// Issue creates a certificate with the given name, for a client if client is set and for a server otherwise.
func (a *Authority) Issue(name string, client bool, now time.Time) (*Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	usage := x509.ExtKeyUsageServerAuth
	if client {
		usage = x509.ExtKeyUsageClientAuth
	}
	s := a.signer(now)
	cert, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "geobench"}, DNSNames: []string{name}, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: now.Add(-backdating), NotAfter: now.Add(certificateLife),
	}, s.cert, key, s.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// sign creates a certificate for key, signed with the key by. Without a parent, the certificate is self-signed.
func sign(template, parent *x509.Certificate, key, by crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Current reports whether a certificate that Issue has created for the given name can still be used. The certificate
// must be valid for at least another third of its life, and be signed by a certificate in signers.
func Current(cert, signers []byte, name string, now time.Time) bool {
	block, _ := pem.Decode(cert)
	if block == nil {
		return false
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil || now.Before(c.NotBefore) || c.NotAfter.Sub(now) < certificateLife/3 || !slices.Equal(c.DNSNames, []string{name}) {
		return false
	}
	pool, err := pool(signers)
	if err != nil {
		return false
	}
	// Accept any key usage, because certificates of servers and of clients are checked alike.
	_, err = c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil
}

var errNoSigner = errors.New("there is no certificate in it")

func pool(signers []byte) (*x509.CertPool, error) {
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(bytes.TrimSpace(signers)) {
		return nil, errNoSigner
	}
	return p, nil
}
