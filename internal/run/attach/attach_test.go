package attach_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/geobench/geobench/internal/base/exit"
	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/plan"
	"github.com/geobench/geobench/internal/bench/target"
	"github.com/geobench/geobench/internal/bench/target/targettest"
)

// The example database satisfies the contract for targets.
func TestSerial(t *testing.T) {
	targettest.Conform(t, "serial", isolation.StrictSerializable, func(t *testing.T, p *plan.Plan) target.Database {
		db, closeDatabase, err := program.Open(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := closeDatabase(); err != nil {
				t.Error(err)
			}
		})
		return db
	})
}

// Every error in a manifest or flag is reported before the first run, with a correction and the right exit code.
func TestProgramRefuses(t *testing.T) {
	from := func(old, replacement string) string { return strings.Replace(smallbank, old, replacement, 1) }
	for name, tc := range map[string]struct {
		manifest string
		args     []string
		want     string
	}{
		"no file":     {args: []string{}, want: "name one with -f"},
		"an argument": {args: []string{"x.yaml"}, want: `"x.yaml" is no flag`},
		"an output":   {args: []string{"-f", "-", "-o", "xml"}, want: `--output: "xml" is not one of table`},
		"no run":      {manifest: " ", want: "there is no BenchmarkRun"},
		"a sweep": {
			manifest: "apiVersion: geobench.dev/v1alpha1\nkind: Experiment\nmetadata: {name: sweep}\nspec:\n  databases: [{name: none, template: {spec: {engine: {name: calvin}, regions: [{name: east}, {name: west}], " +
				"network: {profile: {links: [{from: east, to: west, rtt: 1ms}]}}}}}]\n  run: {spec: {workload: {smallbank: {customers: 200}}, load: {clientsPerRegion: 1}}}\n",
			want: "Experiments are not played on targets; write their runs as BenchmarkRuns",
		},
		"a wrong field": {manifest: from("customers: 200", "customers: none"), want: "spec.workload.smallbank.customers"},
		"a fault": {
			manifest: smallbank + "  faults: [{name: kill, at: 100ms, podKill: {target: {regions: [east], count: 1}}}]\n",
			want:     "spec.faults[0].podKill: fault kill is a podKill, which is not supported by a target",
		},
		"a baseline": {manifest: smallbank + "  baselineRef: {name: before}\n", want: "spec.baselineRef.name: before: baselines are not compared here"},
		"a database": {
			manifest: smallbank + "---\napiVersion: geobench.dev/v1alpha1\nkind: GeoDatabase\nmetadata: {name: none}\n" +
				"spec: {engine: {name: calvin}, regions: [{name: east}], network: {profile: {links: [{from: east, to: west, rtt: 1ms}]}}}\n",
			want: "spec.databaseRef.name: GeoDatabase none is in the manifests, but this program deploys none and runs on serial",
		},
		"a workload": {manifest: from("{customers: 200}", "{customers: 200, sunflower: [{region: north, at: 0s}]}"), want: "sunflower"},
	} {
		t.Run(name, func(t *testing.T) {
			args := tc.args
			if args == nil {
				args = []string{"-f", "-"}
			}
			var stderr strings.Builder
			code := program.Run(t.Context(), args, strings.NewReader(tc.manifest), io.Discard, &stderr)
			if code != exit.Usage || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d: %s\nshould say %q", code, stderr.String(), tc.want)
			}
		})
	}
}

// A target can define its own flags, and may return a nil closeDatabase.
func TestProgramHasFlagsOfItsOwn(t *testing.T) {
	own, address := program, ""
	own.Flags = func(f *pflag.FlagSet) { f.StringVar(&address, "address", "", "where the database is") }
	own.Open = func(ctx context.Context, p *plan.Plan) (target.Database, func() error, error) {
		db, _, err := program.Open(ctx, p)
		return db, nil, err
	}
	var stderr strings.Builder
	if code := own.Run(t.Context(), []string{"-f", "-", "-q", "--address", "here"}, strings.NewReader(smallbank), io.Discard, &stderr); code != 0 || address != "here" {
		t.Errorf("exit code %d, address %q: %s", code, address, stderr.String())
	}
}

// If a run is interrupted, its exit code reports an interrupt rather than a failure.
func TestProgramIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupting := program
	interrupting.Open = func(ctx context.Context, p *plan.Plan) (target.Database, func() error, error) {
		cancel()
		return program.Open(ctx, p)
	}
	var stderr strings.Builder
	code := interrupting.Run(ctx, []string{"-f", "-", "-q"}, strings.NewReader(smallbank), io.Discard, &stderr)
	if code != exit.Interrupted || !strings.Contains(stderr.String(), "BenchmarkRun serial-smallbank: context canceled") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
