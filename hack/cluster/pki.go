package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"text/template"
	"time"
)

// validity is the validity of every certificate. It is much longer than the life of a local cluster.
const validity = 365 * 24 * time.Hour

// identity is a client certificate, which the API server maps to a user and groups.
type identity struct {
	name   string // name of the files, without extension
	user   string
	groups []string
}

// identities lists the clients of the API server. kubelet-client is the identity of the API server when it connects to
// the kubelet.
var identities = []identity{
	{"admin", "admin", []string{"system:masters"}},
	{"kube-controller-manager", "system:kube-controller-manager", nil},
	{"kube-scheduler", "system:kube-scheduler", nil},
	{"kube-proxy", "system:kube-proxy", nil},
	{"kubelet", "system:node:" + nodeName, []string{"system:nodes"}},
	{"kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}},
}

// authority is a certificate authority.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

// writePKI writes the keys and certificates of the cluster to dir, each as NAME.crt and NAME.key:
//
//   - ca: the certificate authority;
//   - node: the serving certificate of the node;
//   - service-accounts: the key pair for service account tokens;
//   - a client certificate for each identity.
//
// If dir exists, writePKI keeps it. Otherwise it writes all files or none.
func writePKI(dir string, subnets Subnets, now time.Time) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tmp := dir + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(now)
	if err != nil {
		return err
	}
	if err := writePair(tmp, "ca", ca.pem, ca.key); err != nil {
		return err
	}
	if err := writeServiceAccountKey(tmp); err != nil {
		return err
	}
	serving := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "node"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{
			"localhost", nodeName, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc." + clusterDomain,
		},
		IPAddresses: []net.IP{
			net.IPv4(127, 0, 0, 1), subnets.Node().AsSlice(), subnets.APIService().AsSlice(),
		},
	}
	if err := ca.issue(tmp, "node", serving, now); err != nil {
		return err
	}
	for _, id := range identities {
		client := &x509.Certificate{
			Subject:     pkix.Name{CommonName: id.user, Organization: id.groups},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		if err := ca.issue(tmp, id.name, client, now); err != nil {
			return err
		}
	}
	return os.Rename(tmp, dir)
}

// newAuthority returns a certificate authority with a new key and a self-signed certificate.
func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "geobench local cluster"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(validity),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, pem: encodePEM("CERTIFICATE", der), key: key}, nil
}

// issue completes a certificate, signs it, and writes it together with a new key.
func (a *authority) issue(dir, name string, cert *x509.Certificate, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	// Start an hour earlier, in case a clock is set back.
	cert.NotBefore, cert.NotAfter = now.Add(-time.Hour), now.Add(validity)
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	return writePair(dir, name, encodePEM("CERTIFICATE", der), key)
}

// writeServiceAccountKey writes a key pair. It needs no certificate, because only the API server signs and verifies
// tokens.
func writeServiceAccountKey(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePair(dir, "service-accounts", encodePEM("PUBLIC KEY", public), key)
}

func writePair(dir, name string, public []byte, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), public, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), encodePEM("PRIVATE KEY", der), 0o600)
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

var kubeconfigTemplate = template.Must(template.New("kubeconfig").Parse(`apiVersion: v1
kind: Config
clusters:
- name: {{.Cluster}}
  cluster:
    server: {{.Server}}
    certificate-authority-data: {{.CA}}
users:
- name: {{.User}}
  user:
    client-certificate-data: {{.Cert}}
    client-key-data: {{.Key}}
contexts:
- name: {{.Cluster}}
  context:
    cluster: {{.Cluster}}
    user: {{.User}}
current-context: {{.Cluster}}
`))

// renderKubeconfig returns a kubeconfig that contains its certificates and key, so that the file can be copied
// anywhere.
func renderKubeconfig(pkiDir, identity, server string) ([]byte, error) {
	data := map[string]string{"Cluster": nodeName, "User": identity, "Server": server}
	for field, file := range map[string]string{"CA": "ca.crt", "Cert": identity + ".crt", "Key": identity + ".key"} {
		b, err := os.ReadFile(filepath.Join(pkiDir, file))
		if err != nil {
			return nil, fmt.Errorf("kubeconfig of %s: %w", identity, err)
		}
		data[field] = base64.StdEncoding.EncodeToString(b)
	}
	var out bytes.Buffer
	err := kubeconfigTemplate.Execute(&out, data)
	return out.Bytes(), err
}
