package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

var testSubnets = subnetsIn(netip.MustParsePrefix("10.231.0.0/16"))

// testPKI creates a PKI at a fixed time, and returns its folder and the time.
func testPKI(t *testing.T) (dir string, now time.Time) {
	t.Helper()
	dir, now = filepath.Join(t.TempDir(), "pki"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := writePKI(dir, testSubnets, now); err != nil {
		t.Fatal(err)
	}
	return dir, now
}

func roots(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("ca.crt holds no certificate")
	}
	return pool
}

func leaf(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestNodeCertificateIsValidForEveryNameOfTheAPIServer(t *testing.T) {
	dir, now := testPKI(t)
	cert := leaf(t, dir, "node")
	for _, name := range []string{
		testSubnets.Node().String(), testSubnets.APIService().String(), "127.0.0.1", "localhost",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(t, dir), DNSName: name, CurrentTime: now}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots(t, dir), DNSName: "example.org", CurrentTime: now}); err == nil {
		t.Error("valid for example.org")
	}
}

func TestClientCertificatesNameUserAndGroups(t *testing.T) {
	dir, now := testPKI(t)
	for _, id := range identities {
		t.Run(id.name, func(t *testing.T) {
			cert := leaf(t, dir, id.name)
			_, err := cert.Verify(x509.VerifyOptions{
				Roots: roots(t, dir), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			})
			if err != nil {
				t.Error(err)
			}
			if cert.Subject.CommonName != id.user || len(cert.Subject.Organization) != len(id.groups) {
				t.Errorf("subject %v, want user %s and groups %v", cert.Subject, id.user, id.groups)
			}
		})
	}
}

func TestPKIIsKept(t *testing.T) {
	dir, now := testPKI(t)
	before := leaf(t, dir, "admin").SerialNumber
	if err := writePKI(dir, testSubnets, now); err != nil {
		t.Fatal(err)
	}
	if after := leaf(t, dir, "admin").SerialNumber; after.Cmp(before) != 0 {
		t.Error("a second call replaced the keys")
	}
}

func TestKeysAreReadableByTheirOwnerOnly(t *testing.T) {
	dir, _ := testPKI(t)
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != len(identities)+3 {
		t.Fatalf("%d keys (%v), want one per identity, ca, node and service-accounts", len(keys), err)
	}
	for _, key := range keys {
		info, err := os.Stat(key)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", key, info.Mode())
		}
	}
}

func TestKubeconfigCarriesItsCertificates(t *testing.T) {
	dir, _ := testPKI(t)
	got, err := renderKubeconfig(dir, "admin", "https://10.231.0.2:6443")
	if err != nil {
		t.Fatal(err)
	}
	for field, file := range map[string]string{
		"certificate-authority-data": "ca.crt", "client-certificate-data": "admin.crt", "client-key-data": "admin.key",
	} {
		m := regexp.MustCompile(`(?m)^\s+` + field + `: (\S+)$`).FindSubmatch(got)
		if m == nil {
			t.Fatalf("no %s in\n%s", field, got)
		}
		embedded, err := base64.StdEncoding.DecodeString(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := os.ReadFile(filepath.Join(dir, file)); string(embedded) != string(want) {
			t.Errorf("%s is not %s", field, file)
		}
	}
	if !regexp.MustCompile(`(?m)^    server: https://10\.231\.0\.2:6443$`).Match(got) {
		t.Errorf("no server in\n%s", got)
	}
}
