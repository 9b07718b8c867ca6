package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newAuthority(t *testing.T, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a *Authority, name string, now time.Time) *Certificate {
	t.Helper()
	c, err := a.Issue(name, false, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAuthorityOutlivesItsProcess(t *testing.T) {
	a := newAuthority(t, epoch)
	data, err := a.Data()
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Key("peer", "d"), b.Key("peer", "d")) || !bytes.Equal(a.Signers(), b.Signers()) {
		t.Error("what was read is another authority")
	}
	if c := issue(t, b, "x", epoch); !Current(c.Cert, a.Signers(), "x", epoch) {
		t.Error("what the one signs is nothing to the other")
	}
	for name, spoil := range map[string]func(map[string][]byte){
		"secret: it has 3 bytes": func(d map[string][]byte) { d[secretKey] = []byte("abc") },
		"signers.crt: there is no certificate": func(d map[string][]byte) {
			d[signerCerts], d[signerKeys] = nil, nil
		},
		"not as many certificates as keys": func(d map[string][]byte) { d[signerKeys] = nil },
		"signers.crt: tls: private key does not match": func(d map[string][]byte) {
			other, _ := newAuthority(t, epoch).Data()
			d[signerKeys] = other[signerKeys]
		},
	} {
		spoilt, err := a.Data()
		if err != nil {
			t.Fatal(err)
		}
		spoil(spoilt)
		if _, err := ParseAuthority(spoilt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not say %q", err, name)
		}
	}
}

// A key has a single purpose and object. Different objects never share a key, even if the concatenations of their names
// are equal.
func TestKeysDiffer(t *testing.T) {
	a := newAuthority(t, epoch)
	seen := map[string]string{}
	for name, key := range map[string][]byte{
		"peer d": a.Key("peer", "d"), "peer e": a.Key("peer", "e"), "client d": a.Key("client", "d"), "peer": a.Key("peer"),
		"peer d e": a.Key("peer", "d", "e"), "peer de": a.Key("peer", "de"), "peerd": a.Key("peerd"),
		"derived": Derive(a.Key("peer", "d"), "peer", "d"), "another": newAuthority(t, epoch).Key("peer", "d"),
	} {
		if was, ok := seen[string(key)]; ok || len(key) != keySize {
			t.Errorf("%s has the key of %q, %d bytes", name, was, len(key))
		}
		seen[string(key)] = name
	}
}

func TestSeals(t *testing.T) {
	key := []byte("key")
	seal := Seal(key, []byte("ab"), []byte("c"))
	for name, ok := range map[string]bool{
		"the same":         Sealed(seal, key, []byte("ab"), []byte("c")),
		"cut elsewhere":    !Sealed(seal, key, []byte("a"), []byte("bc")),
		"in one":           !Sealed(seal, key, []byte("abc")),
		"another key":      !Sealed(seal, []byte("kez"), []byte("ab"), []byte("c")),
		"no seal":          !Sealed("", key, []byte("ab"), []byte("c")),
		"no digits":        !Sealed("zz", key, []byte("ab"), []byte("c")),
		"part of the seal": !Sealed(seal[:32], key, []byte("ab"), []byte("c")),
	} {
		if !ok {
			t.Error(name)
		}
	}
}

func TestCurrent(t *testing.T) {
	a := newAuthority(t, epoch)
	c := issue(t, a, "x", epoch)
	for name, tc := range map[string]struct {
		cert, signers []byte
		server        string
		at            time.Time
		want          bool
	}{
		"new":               {c.Cert, a.Signers(), "x", epoch, true},
		"a month old":       {c.Cert, a.Signers(), "x", epoch.AddDate(0, 1, 0), true},
		"two months old":    {c.Cert, a.Signers(), "x", epoch.AddDate(0, 2, 3), false},
		"of another":        {c.Cert, a.Signers(), "y", epoch, false},
		"signed by another": {c.Cert, newAuthority(t, epoch).Signers(), "x", epoch, false},
		"no certificate":    {nil, a.Signers(), "x", epoch, false},
		"no signer":         {c.Cert, nil, "x", epoch, false},
	} {
		if got := Current(tc.cert, tc.signers, tc.server, tc.at); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestSignersAreReplaced simulates ten years in steps of one day. There is always a signer. Every process trusts a new
// signer before that signer issues its first certificate, and certificates are accepted for their whole validity.
func TestSignersAreReplaced(t *testing.T) {
	a := newAuthority(t, epoch)
	pair := issue(t, a, "x", epoch)
	yesterday, renewals, signers := a.Signers(), 0, map[string]bool{}
	for day := range 3650 {
		now := epoch.AddDate(0, 0, day)
		if _, err := a.Renew(now); err != nil {
			t.Fatal(err)
		}
		fresh := issue(t, a, "x", now)
		if day > 0 && !Current(fresh.Cert, yesterday, "x", now) {
			t.Fatalf("day %d: who has not looked since yesterday does not know the signer", day)
		}
		block, _ := pem.Decode(fresh.Cert)
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		signers[string(leaf.AuthorityKeyId)] = true
		if !Current(pair.Cert, a.Signers(), "x", now) {
			pair, renewals = fresh, renewals+1
		}
		yesterday = a.Signers()
	}
	if len(signers) < 4 || len(a.signers) > 2 || renewals < 50 || renewals > 80 {
		t.Errorf("%d signers have signed, %d are left, %d renewals", len(signers), len(a.signers), renewals)
	}
}
