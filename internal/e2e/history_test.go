//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
)

// TestHistories checks histories that the workers' pods record and the operator collects.
func TestHistories(t *testing.T) {
	for _, engine := range []string{"calvin", "detock"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			name := engine + "-history"
			c.apply(t, database(engine)+separator+strings.Replace(runOn(engine, name, 5, "1s", "5s"),
				"verify: [Invariants]", "verify: [Invariants, Serializable, StrictSerializable]", 1))
			r := c.awaitEnd(t, name, 4*time.Minute)
			c.mustPass(t, r)
			passed := map[string]v1alpha1.CheckStatus{}
			for _, check := range r.Status.Checks {
				passed[check.Name] = check
			}
			for _, level := range []string{"serializable", "strict-serializable"} {
				check := passed[level]
				if !check.Passed || !strings.Contains(check.Message, "committed transactions with") || strings.HasPrefix(check.Message, "0 ") {
					t.Errorf("%s: %+v", level, check)
				}
				t.Logf("%s: %s", engine, check.Message)
			}
			// The workers' pods must stay until the operator has fetched their histories, and are then deleted.
			c.deleteRun(t, name)
		})
	}
}
