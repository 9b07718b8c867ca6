// Package internal_test checks the direction of imports between the floors of this folder: the groups of packages that
// build on each other.
package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/geobench/geobench/"

// floors are ordered from bottom to top. A package may import packages of its own floor and of lower floors.
var floors = []string{"base", "engine", "ops", "net", "bench", "run", "top"}

// maxPackages is the maximum number of packages in a folder. A longer list is hard to survey.
const maxPackages = 20

// floorOf returns the floor of a package. The API types and the generated CRDs contain only data and belong to the
// bottom floor.
func floorOf(pkg string) string {
	rest, inside := strings.CutPrefix(pkg, "internal/")
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case inside && slices.Contains(floors, first):
		return first
	case strings.HasPrefix(pkg, "api/"), pkg == "config/crd":
		return "base"
	}
	return "top"
}

// isTestSupport reports whether a package is used only by tests. Such a package is next to its users and may import
// every floor.
func isTestSupport(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// upward describes the imports that point from a floor to a higher floor, and the imports of test support by product
// code.
func upward(imports map[string][]string) (out []string) {
	for _, from := range slices.Sorted(maps.Keys(imports)) {
		if isTestSupport(from) {
			continue
		}
		for _, to := range imports[from] {
			if low, high := floorOf(from), floorOf(to); slices.Index(floors, low) < slices.Index(floors, high) {
				out = append(out, fmt.Sprintf("%s (%s) imports %s (%s)", from, low, to, high))
			} else if isTestSupport(to) {
				out = append(out, fmt.Sprintf("%s imports %s, which is for tests", from, to))
			}
		}
	}
	return out
}

// TestFloors checks the imports of all packages, and logs the graph of the floors.
func TestFloors(t *testing.T) {
	imports := list(t)
	for _, wrong := range upward(imports) {
		t.Error(wrong)
	}
	packages, arrows := map[string]int{}, map[string]int{}
	folders := map[string]int{}
	for pkg, all := range imports {
		packages[floorOf(pkg)]++
		folders[path.Dir(pkg)]++
		for _, to := range all {
			arrows[floorOf(pkg)+" -> "+floorOf(to)]++
		}
	}
	for _, floor := range slices.Backward(floors) {
		t.Logf("%-7s %3d packages", floor, packages[floor])
	}
	for _, arrow := range slices.Sorted(maps.Keys(arrows)) {
		t.Logf("%-17s %3d imports", arrow, arrows[arrow])
	}
	for folder, n := range folders {
		if n > maxPackages && strings.HasPrefix(folder, "internal") {
			t.Errorf("%s holds %d packages, more than %d: group them", folder, n, maxPackages)
		}
	}
}

func TestUpwardImportsAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to string
		wrong    bool
	}{
		"down":                        {"internal/run/inprocess", "internal/base/txn", false},
		"within a floor":              {"internal/engine/protocol/coco", "internal/engine/sim", false},
		"the API":                     {"internal/ops/deploy", "api/v1alpha1", false},
		"a command":                   {"cmd/geobench", "controllers", false},
		"test support may look up":    {"internal/engine/protocol/protocoltest", "internal/bench/history", false},
		"an engine imports a checker": {"internal/engine/protocol/coco", "internal/bench/history", true},
		"a network imports a run":     {"internal/net/wire", "internal/run/node", true},
		"a run imports the operator":  {"internal/run/inprocess", "controllers/kube", true},
		"the API imports a floor":     {"api/v1alpha1", "internal/ops/deploy", true},
		"product code for tests":      {"internal/run/inprocess", "internal/bench/workload/workloadtest", true},
	} {
		if got := upward(map[string][]string{tc.from: {tc.to}}); (len(got) > 0) != tc.wrong {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// maxLines is the maximum number of lines of a file that is not generated.
const maxLines = 700

// TestFilesAreShort fails if a Go file that is not generated has more than maxLines lines.
func TestFilesAreShort(t *testing.T) {
	for _, top := range []string{"../api", "../cmd", "../config", "../controllers", "../gitops", "../hack", "."} {
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if lines := bytes.Count(text, []byte("\n")); lines > maxLines && !bytes.Contains(text[:min(len(text), 1000)], []byte("DO NOT EDIT")) {
				t.Errorf("%s has %d lines, more than %d: split it by subject", name, lines, maxLines)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// watch reads all folders of the module. This makes the test cache repeat the test when a file changes. The cache
// tracks the folders that a test reads, but not the files that go list reads.
func watch(t *testing.T) {
	t.Helper()
	for _, top := range []string{"../api", "../cmd", "../config", "../controllers", "../hack", "."} {
		if err := filepath.WalkDir(top, func(string, fs.DirEntry, error) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns, for each package of the module, the packages of the module that it imports. Imports of tests are
// omitted.
func list(t *testing.T) map[string][]string {
	t.Helper()
	watch(t)
	cmd := exec.CommandContext(t.Context(), "go", "list", "-tags", "full,e2e", "-json=ImportPath,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	cmd.Env = append(cmd.Environ(), "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath       string
			GoFiles, Imports []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return imports
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) == 0 {
			continue
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		imports[from] = []string{}
		for _, to := range p.Imports {
			if to, ours := strings.CutPrefix(to, module); ours {
				imports[from] = append(imports[from], to)
			}
		}
	}
}
