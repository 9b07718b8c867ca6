package experiment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/run/experiment"
)

// TestLargeSweeps: the total size of the manifests is checked before any point is created.
func TestLargeSweeps(t *testing.T) {
	values := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprint(i + 1)
		}
		return strings.Join(list, ", ")
	}
	pads := make([]string, 30)
	for i := range pads {
		pads[i] = fmt.Sprintf("{name: f%d, at: %dms, duration: 10ms, networkPartition: {from: {regions: [a]}}}", i, 10*i)
	}
	faults := "      faults:\n        - " + strings.Join(pads, "\n        - ") + "\n"
	sweep := "- {path: spec.load.clientsPerRegion, values: [2, 4]}"
	many := fmt.Sprintf("- {path: spec.load.clientsPerRegion, values: [%s]}\n    - {path: spec.seed, values: [%s]}", values(50), values(100))
	long := `- {path: spec.workload.smallbank.customers, values: ["` + strings.Repeat("1", 2000) + `"]}`
	for name, tc := range map[string]struct{ old, new, field, told string }{
		"many points of long runs": {sweep, many, "spec.sweep", "bytes"},
		"a long value":             {sweep, long, "spec.sweep[0].values[0]", "the limit is 1024"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(small, tc.old, tc.new, 1)
			if name == "many points of long runs" {
				text = strings.Replace(text, "      verify: [Invariants]\n", "      verify: [Invariants]\n"+faults, 1)
			}
			_, err := read(text)
			ps, ok := check.As(err)
			if !ok || len(ps) != 1 || ps[0].Field != tc.field || !strings.Contains(ps[0].Message, tc.told) {
				t.Errorf("%v, want one problem of %s with %q", err, tc.field, tc.told)
			}
		})
	}
}

// TestExpansionEnds: an expansion stops when its context is done, for example because the Experiment was deleted.
func TestExpansionEnds(t *testing.T) {
	b, err := manifest.Load(strings.NewReader(small), check.Default(nil), "-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := experiment.New(ctx, b, b.Experiments[0], check.Default(nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestLargestDatabases: for every engine, expanding an experiment on the largest databases that the API accepts takes
// no longer than planning them.
func TestLargestDatabases(t *testing.T) {
	var regions, links []string
	for i := range 32 {
		regions = append(regions, fmt.Sprintf("{name: r%d}", i))
		for j := range i {
			links = append(links, fmt.Sprintf("{from: r%d, to: r%d, rtt: 20ms}", j, i))
		}
	}
	for _, engine := range []string{"calvin", "spanner", "sunstorm"} {
		text := `apiVersion: geobench.dev/v1alpha1
kind: Experiment
metadata: {name: large}
spec:
  databases:
    - name: d
      template:
        spec:
          engine: {name: ` + engine + `}
          partitionsPerRegion: 64
          replicasPerPartition: 8
          regions: [` + strings.Join(regions, ", ") + `]
          network: {profile: {intraRegion: {rtt: 400us}, links: [` + strings.Join(links, ", ") + `]}}
  run:
    spec:
      workload: {smallbank: {customers: 10000000}}
      load: {clientsPerRegion: 2, warmup: 200ms, duration: 1s}
  claims: [{id: c-1, says: it survives something, expression: "survives('d') != '' && ['d', 'd', 'd', 'd'].all(s, isolation(s) != '')"}]
`
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		e, err := read(text)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatalf("%s: %v", engine, err)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 512<<20 {
			t.Errorf("%s: %d MB were allocated", engine, allocated>>20)
		}
		if _, err := json.Marshal(experiment.NewReport(t.Context(), []*experiment.Experiment{e}, experiment.NewResults(""))); err != nil {
			t.Error(err)
		}
	}
}
