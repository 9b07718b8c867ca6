//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/bench/fault"
)

// replacers are the engines that replace lost nodes. The databases have one node in each region, except that the
// databases of primary and sunstorm have two.
var replacers = []struct {
	engine, parameters, replicas string
	// target selects one of a region's two nodes as the target of the kills.
	target string
	// always is set if the engine is tested in every test run. Other engines are tested only if killsVariable is set.
	always bool
}{
	{engine: "calvin", parameters: `ordering: consensus, batchCopies: "2"`, always: true},
	{engine: "coco", always: true},
	{engine: "detock", parameters: `homeLogs: Regions, batchCopies: "2"`},
	{engine: "geogauss"},
	{engine: "janus", always: true},
	{engine: "minerva", always: true},
	{engine: "oceanvista"},
	{engine: "primary", replicas: "replicasPerPartition: 2", target: ", count: 1"},
	{engine: "sdur", always: true},
	{engine: "slog", parameters: `homeLogs: Regions, batchCopies: "2"`},
	{engine: "spanner", parameters: "clockBound: 100ms"},
	{engine: "sunstorm", replicas: "replicasPerPartition: 2", target: ", role: writer"},
}

// killsVariable is the environment variable that enables the test for all engines.
const killsVariable = "GEOBENCH_E2E_KILLS"

// TestLostNodesAreReplaced deletes pods of databases without journals under load, one after another. New incarnations
// replace the lost nodes and obtain the data of 100,000 customers from the remaining nodes. No acknowledged transaction
// is lost, every copy is complete, and the history is strictly serializable. The next run uses the same database.
func TestLostNodesAreReplaced(t *testing.T) {
	for _, e := range replacers {
		t.Run(e.engine, func(t *testing.T) {
			if !e.always && os.Getenv(killsVariable) == "" {
				t.Skipf("set %s=1", killsVariable)
			}
			c := newCluster(t)
			db := strings.NewReplacer(
				"engine: {name: "+e.engine+"}", "engine: {name: "+e.engine+", parameters: {"+e.parameters+"}}",
				"{name: us-west-2}, {name: ap-northeast-1}", "{name: us-east-1}, {name: us-west-2}, {name: eu-west-1}",
				"partitionsPerRegion: 2", "partitionsPerRegion: 1\n  "+e.replicas, "smallbank-two-regions", "aws").Replace(database(e.engine))
			verified := strings.NewReplacer("verify: [Invariants]", "verify: [Invariants, Convergence, Isolation]", "customers: 10000", "customers: 100000", "multiPartitionPercent: 25", "multiPartitionPercent: 0")
			c.apply(t, db+separator+verified.Replace(runOn(e.engine, "kills", 10, "2s", "40s"))+`  objectives: [{metric: unknownPPM, max: 1000000}]
  faults:
  - {name: first, at: 5s, tolerance: 5s, podKill: {target: {regions: [us-west-2]`+e.target+`}}}
  - {name: second, at: 22s, tolerance: 8s, podKill: {target: {regions: [eu-west-1]`+e.target+`}}}
`)
			c.awaitFault(t, "kills", "first", fault.Done, 4*time.Minute)
			r := c.awaitEnd(t, "kills", 3*time.Minute)
			c.mustPass(t, r)
			d := c.document(t, r)
			for i, region := range []string{"us-west-2", "eu-west-1"} {
				f := d.Faults[i]
				if f.Problem != "" || f.Injector != string(v1alpha1.InjectorKubernetes) || f.Lasting || len(f.Replaced) != 1 || !strings.HasPrefix(f.Replaced[0], region+"/0/") || f.ToMicroseconds == nil || f.Availability == nil {
					t.Fatalf("%+v", f)
				}
				mending := "too short to tell"
				if m := f.Availability.MendingPerSecond; m != nil {
					mending = fmt.Sprintf("%d/s", *m)
				}
				t.Logf("%s: killed at %d ms, another process %d ms after, all copies complete %d ms after; %d/s before, %s until then", f.Name, *f.FromMicroseconds/1000,
					(*f.RecoveringMicroseconds-*f.FromMicroseconds)/1000, (*f.ToMicroseconds-*f.FromMicroseconds)/1000, f.Availability.NormalPerSecond, mending)
			}
			for _, check := range d.Checks {
				if t.Logf("%s: %s", check.Name, check.Message); strings.Contains(check.Message, "left out") {
					t.Errorf("%s: %s", check.Name, check.Message)
				}
			}
			c.apply(t, verified.Replace(runOn(e.engine, "after", 10, "1s", "3s")))
			after := c.awaitEnd(t, "after", 4*time.Minute)
			c.mustPass(t, after)
			if after.Status.DatabaseIncarnation != r.Status.DatabaseIncarnation {
				t.Errorf("the database was made anew: %s after %s", after.Status.DatabaseIncarnation, r.Status.DatabaseIncarnation)
			}
		})
	}
}
