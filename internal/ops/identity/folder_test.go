package identity

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// write writes the credentials of a server into a folder.
func (a *Authority) write(t *testing.T, folder, name string, now time.Time) {
	t.Helper()
	c := issue(t, a, name, now)
	for file, b := range map[string][]byte{FileCert: c.Cert, FileKey: c.Key, FileSigners: a.Signers()} {
		if err := os.WriteFile(filepath.Join(folder, file), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (a *Authority) clientOf(t *testing.T, name string, client bool, server string) *tls.Config {
	t.Helper()
	c, err := a.Issue(name, client, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := c.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return a.Client(pair, server)
}

// A server accepts only the operator, and the operator accepts only the server to which it wants to connect.
func TestServer(t *testing.T) {
	a, other, folder := newAuthority(t, time.Now()), newAuthority(t, time.Now()), t.TempDir()
	a.write(t, folder, ServerName("uid"), time.Now())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") }))
	s.TLS = Folder(folder).server()
	s.StartTLS()
	defer s.Close()
	get := func(c *tls.Config) (string, error) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}, Timeout: 20 * time.Second}
		resp, err := client.Get(s.URL)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	operator := a.clientOf(t, OperatorName, true, ServerName("uid"))
	if got, err := get(operator); got != "secret" || err != nil {
		t.Fatalf("the operator gets %q, %v", got, err)
	}
	nobody := operator.Clone()
	nobody.Certificates = nil
	stranger := other.clientOf(t, OperatorName, true, ServerName("uid"))
	stranger.RootCAs = operator.RootCAs
	old := operator.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	for name, tc := range map[string]struct {
		config *tls.Config
		says   string
	}{
		"nobody":                           {nobody, "certificate required"},
		"who is merely known":              {a.clientOf(t, "node.geobench.dev", true, ServerName("uid")), "remote error"},
		"a server":                         {a.clientOf(t, OperatorName, false, ServerName("uid")), "remote error"},
		"another authority's operator":     {stranger, "remote error"},
		"the operator, to another server":  {a.clientOf(t, OperatorName, true, ServerName("other")), "not other.database"},
		"the operator of another's server": {other.clientOf(t, OperatorName, true, ServerName("uid")), "unknown authority"},
		"an old protocol":                  {old, "protocol version"},
	} {
		if got, err := get(tc.config); got != "" || err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s gets %q, %v", name, got, err)
		}
	}
	if resp, err := http.Get("http://" + strings.TrimPrefix(s.URL, "https://")); err == nil && resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %s", resp.Status)
	}
	// Credentials can be renewed while the server runs.
	other.write(t, folder, ServerName("uid"), time.Now())
	if got, err := get(other.clientOf(t, OperatorName, true, ServerName("uid"))); got != "secret" || err != nil {
		t.Errorf("after a change the operator gets %q, %v", got, err)
	}
	if _, err := get(operator); err == nil {
		t.Error("the old credentials still count")
	}
}

func TestFolder(t *testing.T) {
	f := Folder(t.TempDir())
	if _, err := f.Read(FilePeer); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(filepath.Join(string(f), FilePeer), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(FilePeer); err == nil || !strings.Contains(err.Error(), "peer.key is empty") {
		t.Errorf("an empty key: %v", err)
	}
}
