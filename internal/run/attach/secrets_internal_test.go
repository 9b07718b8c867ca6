package attach

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/geobench/geobench/internal/bench/target/sqltarget"
)

// Operators of databases write Secrets with the key username or the key user. If both exist, username takes precedence.
func TestKeysOfSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		keys         map[string]string
		user, failed string
	}{
		"username":          {map[string]string{"username": "bench\n", "password": "p"}, "bench", ""},
		"user":              {map[string]string{"user": "bench", "password": "p", "host": "h", "uri": "postgresql://bench:p@h"}, "bench", ""},
		"both":              {map[string]string{"username": "bench", "user": "other", "password": "p"}, "bench", ""},
		"neither":           {map[string]string{"password": "p"}, "", "username"},
		"without password":  {map[string]string{"user": "bench"}, "", "password"},
		"with a CA's file":  {map[string]string{"user": "bench", "password": "p", "ca.crt": "..."}, "bench", ""},
		"an empty username": {map[string]string{"username": "", "user": "bench", "password": "p"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for key, value := range c.keys {
				if err := os.WriteFile(filepath.Join(folder, key), []byte(value), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var s sqltarget.Server
			err := readKeys(&s, folder, func(key string, _ error) error { return fmt.Errorf("missing %s", key) })
			switch {
			case c.failed != "":
				if err == nil || err.Error() != "missing "+c.failed {
					t.Errorf("%v, want a missing %s", err, c.failed)
				}
			case err != nil || s.User != c.user:
				t.Errorf("user %q (%v), want %q", s.User, err, c.user)
			case (c.keys["ca.crt"] != "") != (s.CAFile != ""):
				t.Errorf("CA's file %q", s.CAFile)
			}
		})
	}
}
