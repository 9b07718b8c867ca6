package check_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/compress"
	"github.com/geobench/geobench/internal/bench/manifest/check"
	"github.com/geobench/geobench/internal/bench/result"
	"github.com/geobench/geobench/internal/ops/deploy"
)

// TestLimitsAreDocumented checks that docs/limits.md has the figures of the code, and that each row names an existing
// test.
func TestLimitsAreDocumented(t *testing.T) {
	const root = "../../../.."
	b, err := os.ReadFile(root + "/docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	thousands := func(n int) string { return fmt.Sprintf("%d,%03d,%03d", n/1_000_000, n/1000%1000, n%1000) }
	operator := check.Default(nil)
	for _, row := range []string{
		"| measured time of a run on a cluster, all repetitions together | " + v1alpha1.DurationOf(operator.Timeline).String() + " |",
		fmt.Sprintf("| %d%% of the memory that the Go runtime may use. The runtime may use %d%% of `spec.resources.limits.memory` (%s by default)", deploy.FullPercent, deploy.RuntimeMemory(100), deploy.OwnMemory),
		fmt.Sprintf("| nodes on a machine, `geobench run` | %d for each CPU |", check.MostNodesPerCPU),
		fmt.Sprintf("| history of an open loop for `spec.verify` | %d MiB for each worker; half of", operator.History.FileBytes>>20),
		fmt.Sprintf("| history that a worker records, and history that the operator checks | %d MiB per worker; half of", deploy.MaxHistory>>20),
		"| report of a load generator | " + thousands(compress.MaxPacked) + " bytes, gzipped |",
		"as text, or " + thousands(compress.MaxPacked) + " gzipped |",
		fmt.Sprintf("| counters and round trips of nodes, three times a run | %d,%03d bytes each, gzipped |", result.SnapshotRoom/1000, result.SnapshotRoom%1000),
		fmt.Sprintf("| a text that is decompressed | %d MiB |", compress.MaxUnpacked>>20),
		fmt.Sprintf("histograms hold latencies up to %d h,", int64(result.HistogramHighest)/3_600_000_000),
	} {
		if !strings.Contains(page, row) {
			t.Errorf("docs/limits.md lacks %q", row)
		}
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test\\w+)`")
	rows := 0
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what |") {
			continue
		}
		rows++
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
		names := named.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(names) == 0 {
			t.Errorf("no test holds this limit: %s", line)
		}
		for _, name := range names {
			if !tests[name[1]] {
				t.Errorf("docs/limits.md names %s, which does not exist", name[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows", rows)
	}
}
