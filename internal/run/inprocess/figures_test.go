package inprocess

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
)

// figuresFile contains a digest of the simulated results of each engine.
const figuresFile = "testdata/figures.txt"

// TestSimulatedFiguresStay compares the simulated results of every engine with committed digests, because published
// figures must be reproducible.
//
// The test detects changes of the simulator, a protocol or a workload that alter figures. It also detects results that
// depend on the order of a map, on the clock or on the number of threads. If a change is intended,
// GEOBENCH_NEW_FIGURES=1 rewrites the file. The changelog must then state which figures have changed, and why.
func TestSimulatedFiguresStay(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("on %s a multiplication and an addition may be rounded once, on amd64 they are twice", runtime.GOARCH)
	}
	var now strings.Builder
	fmt.Fprintln(&now, "# SHA-256 of simulated results: TestSimulatedFiguresStay tells how to make them anew, and when.")
	add := func(name, text string) {
		h := sha256.New()
		if err := simulate(t, text).Write(h); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&now, "%s %x\n", name, h.Sum(nil))
	}
	for _, engine := range engines.Names() {
		add(engine, manifestOf("sdur", []string{"us-east", "us-west", "eu"}, "{name: "+engine+"}", "{clientsPerRegion: 20, warmup: 500ms, duration: 1500ms}", 7))
	}
	quickstart, err := os.ReadFile("../../../experiments/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// This digest equals the output of geobench simulate -f experiments/quickstart.yaml -o json | sha256sum.
	add("quickstart", string(quickstart))
	if os.Getenv("GEOBENCH_NEW_FIGURES") != "" {
		if err := os.WriteFile(figuresFile, []byte(now.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(figuresFile)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(committed), "\n"), strings.Split(now.String(), "\n")
	for i := range max(len(was), len(is)) {
		if i >= len(was) || i >= len(is) || was[i] != is[i] {
			t.Fatalf("simulated figures have changed: line %d of %s\nis now\n%s\nWhere that is meant, GEOBENCH_NEW_FIGURES=1 go test -run TestSimulatedFiguresStay ./internal/run/inprocess writes it anew.", i+1, figuresFile, now.String())
		}
	}
}
