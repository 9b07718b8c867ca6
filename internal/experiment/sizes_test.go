package experiment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/experiment"
	"github.com/geobench/geobench/internal/manifest"
	"github.com/geobench/geobench/internal/manifest/check"
)

// TestLargeSweeps: what the manifests of all points come to is known before any is made.
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
		"a long value":             {sweep, long, "spec.sweep[0].values[0]", "may have 1024"},
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

// TestExpansionEnds: who waits no more for an expansion, as when the experiment was deleted, ends it.
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
