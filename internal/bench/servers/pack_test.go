package servers

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// The first server of CockroachDB starts a cluster exactly once, when all servers report that they do not belong to a
// cluster. It never starts a second cluster next to an existing one.
func TestCockroachBegins(t *testing.T) {
	const (
		waiting = "waiting" // waits for a cluster
		serves  = "serves"
		unready = "unready" // is not ready, for an unknown reason
	)
	for name, tc := range map[string]struct {
		first, other string
		inits        int
	}{
		"all wait":                      {waiting, waiting, 1},
		"its files are gone":            {waiting, serves, 0},
		"its container has restarted":   {serves, serves, 0},
		"another is not ready at first": {waiting, unready, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			begun := filepath.Join(dir, "begun")
			var asked atomic.Int32
			// answer returns the HTTP handler of a server in the given state. A waiting server becomes ready once a cluster
			// exists. An unready server reports an unknown problem at its first request, and after that waits for a cluster.
			answer := func(state string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					if r.RequestURI != "/health?ready=1" {
						t.Errorf("asked for %s", r.RequestURI)
					}
					_, err := os.Stat(begun)
					switch {
					case state == serves || err == nil && state == waiting:
						w.Write([]byte("{}")) //nolint:errcheck // the requester does not need the answer
						return
					case state == unready && asked.Add(1) == 1:
						http.Error(w, `{"error": "node is not healthy"}`, http.StatusServiceUnavailable)
						return
					}
					http.Error(w, `{"error": "node is waiting for cluster initialization"}`, http.StatusServiceUnavailable)
				}
			}
			// serve starts a server in a state, and returns its host and port in the syntax of bash's /dev/tcp.
			serve := func(state string) string {
				s := httptest.NewServer(answer(state))
				t.Cleanup(s.Close)
				return strings.Replace(s.Listener.Addr().String(), ":", "/", 1)
			}
			first, other := serve(tc.first), serve(tc.other)
			program := "#!/bin/sh\necho \"$1\"\nif [ \"$1\" = init ]; then touch " + begun + "; fi\n"
			if err := os.WriteFile(filepath.Join(dir, "cockroach"), []byte(program), 0o755); err != nil {
				t.Fatal(err)
			}
			// every host resolves
			if err := os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			script := strings.NewReplacer("$1/8080", "$1", "sleep 1", "sleep 0.05", "/cockroach:", dir+":").Replace(cockroachScript)
			cmd := exec.CommandContext(t.Context(), "bash", "-c", script, "cockroachdb")
			cmd.Env = append(os.Environ(), "GEOBENCH_HOST="+first, "GEOBENCH_HOSTS="+first+","+other, "GEOBENCH_REGION=us")
			out, err := cmd.Output() // the output closes with its last writer, so no process can start a cluster afterwards
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(string(out))
			inits := 0
			for _, w := range words {
				if w == "init" {
					inits++
				}
			}
			if inits != tc.inits || len(words) != tc.inits+1 {
				t.Errorf("%q: want %d times init and the start", words, tc.inits)
			}
			if tc.other == unready && asked.Load() < 2 {
				t.Error("a cluster was begun while a server was not ready")
			}
		})
	}
}
