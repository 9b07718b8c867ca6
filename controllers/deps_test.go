package controllers_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDeps checks that the operator only evaluates the measurements that pods have made: its dependencies include no
// simulator, no load generator and no plotting.
func TestDeps(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "full", "./...")
	list.Env = append(list.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	imported := strings.Fields(string(out))
	const module = "github.com/geobench/geobench/"
	wanted := []string{module + "controllers", module + "internal/run/experiment"}
	for name := range mayUse {
		if name != "controllers" {
			wanted = append(wanted, module+"controllers/"+name)
		}
	}
	for _, want := range wanted {
		if !slices.Contains(imported, want) {
			t.Errorf("go list names %d packages, and not %s: the list is not what this test takes it for", len(imported), want)
		}
	}
	for _, path := range imported {
		for _, unwanted := range []string{
			module + "internal/engine/sim", module + "internal/run/inprocess", module + "internal/run/node",
			module + "internal/run/experiment/play", module + "internal/run/experiment/plot", "github.com/geobench/geobench/internal/base/chart",
		} {
			if path == unwanted || strings.HasPrefix(path, unwanted+"/") {
				t.Errorf("controllers depend on %s", path)
			}
		}
	}
}
