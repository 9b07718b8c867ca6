//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/fault"
)

// TestLostNodesAreReplaced deletes pods of databases without journals, one after the other, under load: new incarnations take their
// places with what the others have of 100,000 customers, nothing that clients were told is lost, every copy is complete and strictly
// serializable, and the next run finds the same database.
func TestLostNodesAreReplaced(t *testing.T) {
	for engine, parameters := range map[string]string{"calvin": `, parameters: {ordering: consensus, batchCopies: "2"}`, "coco": "", "geogauss": "", "minerva": "", "sdur": "", "spanner": ", parameters: {clockBound: 100ms}"} {
		t.Run(engine, func(t *testing.T) {
			c := newCluster(t)
			db := strings.NewReplacer(
				"engine: {name: "+engine+"}", "engine: {name: "+engine+parameters+"}",
				"{name: us-west-2}, {name: ap-northeast-1}", "{name: us-east-1}, {name: us-west-2}, {name: eu-west-1}",
				"partitionsPerRegion: 2", "partitionsPerRegion: 1", "smallbank-two-regions", "aws").Replace(database(engine))
			verified := strings.NewReplacer("verify: [Invariants]", "verify: [Invariants, Convergence, Isolation]", "customers: 10000", "customers: 100000", "multiPartitionPercent: 25", "multiPartitionPercent: 0")
			c.apply(t, db+separator+verified.Replace(runOn(engine, "kills", 10, "2s", "40s"))+`  faults:
  - {name: first, at: 5s, tolerance: 5s, podKill: {target: {regions: [us-west-2]}}}
  - {name: second, at: 22s, tolerance: 8s, podKill: {target: {regions: [eu-west-1]}}}
`)
			c.awaitFault(t, "kills", "first", fault.Done, 4*time.Minute)
			r := c.awaitEnd(t, "kills", 3*time.Minute)
			c.mustPass(t, r)
			d := c.document(t, r)
			for i, node := range []string{"us-west-2/0/0", "eu-west-1/0/0"} {
				f := d.Faults[i]
				if f.Problem != "" || f.Injector != string(v1alpha1.InjectorKubernetes) || f.Lasting || !slices.Equal(f.Replaced, []string{node}) || f.ToMicroseconds == nil || f.Availability == nil {
					t.Fatalf("%+v", f)
				}
				t.Logf("%s: killed at %d ms, another process %d ms after, all copies complete %d ms after; %d/s before, %d/s meanwhile", f.Name, *f.FromMicroseconds/1000,
					(*f.RecoveringMicroseconds-*f.FromMicroseconds)/1000, (*f.ToMicroseconds-*f.FromMicroseconds)/1000, f.Availability.NormalPerSecond, f.Availability.FaultPerSecond)
			}
			for _, check := range d.Checks {
				if t.Logf("%s: %s", check.Name, check.Message); strings.Contains(check.Message, "left out") {
					t.Errorf("%s: %s", check.Name, check.Message)
				}
			}
			c.apply(t, verified.Replace(runOn(engine, "after", 10, "1s", "3s")))
			after := c.awaitEnd(t, "after", 4*time.Minute)
			c.mustPass(t, after)
			if after.Status.DatabaseIncarnation != r.Status.DatabaseIncarnation {
				t.Errorf("the database was made anew: %s after %s", after.Status.DatabaseIncarnation, r.Status.DatabaseIncarnation)
			}
		})
	}
}
