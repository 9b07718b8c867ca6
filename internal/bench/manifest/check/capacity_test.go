package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/manifest"
	"github.com/geobench/geobench/internal/bench/manifest/check"
)

// capacity contains manifests with placeholders for the values that may be too large.
const capacity = `
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: {name: calvin}
  regions: [{name: a}, {name: b}, {name: c}]
  DATABASE
  network: {profile: {intraRegion: {rtt: 1ms}, links: [{from: a, to: b, rtt: 40ms}, {from: a, to: c, rtt: 40ms}, {from: b, to: c, rtt: 40ms}]}}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: run}
spec:
  databaseRef: {name: db}
  seed: 1
  workload: {WORKLOAD}
  load: {LOAD}
  verify: [VERIFY]
  objectives: [OBJECTIVE]
`

// TestCapacity checks that runs that cannot fit are refused before they start, with the figure and a remedy, and that
// all other runs are accepted.
func TestCapacity(t *testing.T) {
	const tpcc, small = "tpcc: {warehousesPerPartition: 100}", "smallbank: {customers: 1000}"
	cluster, operator := check.Default(nil), check.Default(nil)
	operator.History.MemoryBytes = 230 << 20
	machine := check.Process(nil)
	machine.Machine = check.Machine{CPUs: 2, MemoryBytes: 24 << 30}
	for name, c := range map[string]struct {
		on                                          check.Abilities
		database, workload, load, verify, objective string
		want                                        []string // nil if the manifests are valid
	}{
		"39 GB in nodes of 8 GiB": {on: cluster, workload: tpcc, want: []string{"spec.workload.tpcc.warehousesPerPartition: 100: node a/0/0 holds rows of at least ",
			"may fill 5.4 GiB (75% of what is left of its memory limit of 8Gi for the Go runtime): take at most 18, or give GeoDatabase db spec.resources.limits.memory of at least 44Gi"}},
		"in nodes of 44 GiB":                 {on: cluster, workload: tpcc, database: "resources: {limits: {memory: 44Gi}}"},
		"in nodes that ask for 44 GiB":       {on: cluster, workload: tpcc, database: "resources: {requests: {memory: 44Gi}}"},
		"spread over partitions":             {on: cluster, workload: "tpcc: {warehousesPerPartition: 10}", database: "partitionsPerRegion: 10"},
		"few warehouses":                     {on: cluster, workload: "tpcc: {warehousesPerPartition: 18}"},
		"small warehouses":                   {on: cluster, workload: "tpcc: {warehousesPerPartition: 100, rowsPercent: 10}"},
		"records in little memory":           {on: cluster, workload: "rmw: {records: 10000000}", database: "resources: {limits: {memory: 512Mi}}", want: []string{"spec.workload.rmw.records: 10000000: node a/0/0 holds rows of"}},
		"records of YCSB":                    {on: cluster, workload: "ycsb: {preset: A, records: 10000000}", want: []string{"spec.workload.ycsb.records: 10000000"}},
		"customers":                          {on: cluster, workload: "smallbank: {customers: 100000000}", want: []string{"spec.workload.smallbank.customers: 100000000"}},
		"items":                              {on: cluster, workload: "micro: {itemsPerPartition: 100000000}", want: []string{"spec.workload.micro.itemsPerPartition: 100000000"}},
		"users":                              {on: cluster, workload: "social: {usersPerPartition: 20000000}", want: []string{"spec.workload.social.usersPerPartition: 20000000"}},
		"a simulator has no limit":           {on: check.Simulator(nil), workload: tpcc},
		"three copies on a machine":          {on: machine, workload: tpcc, want: []string{"warehousesPerPartition: 100: the 3 nodes hold rows of at least ", "this machine has 24.0 GiB of memory: take at most 27, or use a cluster"}},
		"three small copies on a machine":    {on: machine, workload: "tpcc: {warehousesPerPartition: 20}"},
		"120 nodes on two CPUs":              {on: machine, workload: small, database: "partitionsPerRegion: 20\n  replicasPerPartition: 2", want: []string{"spec.partitionsPerRegion: 3 regions x 20 partitions x 2 replicas are 120 nodes, and this machine has 2 CPUs, which take at most 100 (50 each): lower"}},
		"96 nodes on two CPUs":               {on: machine, workload: small, database: "partitionsPerRegion: 16\n  replicasPerPartition: 2"},
		"120 simulated nodes":                {on: check.Simulator(nil), workload: small, database: "partitionsPerRegion: 20\n  replicasPerPartition: 2"},
		"120 nodes of a cluster":             {on: cluster, workload: small, database: "partitionsPerRegion: 20\n  replicasPerPartition: 2"},
		"a history beyond a worker's file":   {on: cluster, workload: small, load: "arrival: Poisson, ratePerSecond: 1000, duration: 6h", verify: "Isolation", want: []string{"spec.load.duration: 6h0m10s x 1 repetitions at spec.load.ratePerSecond 1000 are 21610000 transactions for each of 1 workers", "at most 2h19m48s, a lower rate"}},
		"one for many workers":               {on: cluster, workload: small, load: "arrival: Poisson, ratePerSecond: 1000, duration: 6h, workersPerRegion: 4", verify: "Isolation"},
		"a history beyond the memory":        {on: operator, workload: small, load: "arrival: Constant, ratePerSecond: 1000, duration: 1h", verify: "Isolation", want: []string{"spec.load.duration: 1h: checking the history of 10830000 transactions takes at least", "the operator has 230 MiB for it", "of at most 4m27s"}},
		"a long run without a history":       {on: operator, workload: small, load: "arrival: Constant, ratePerSecond: 1000, duration: 6h", verify: "Invariants"},
		"a closed loop, which nobody knows":  {on: operator, workload: small, load: "duration: 1h", verify: "Isolation"},
		"a curve, which nobody adds up":      {on: operator, workload: small, load: "arrival: Constant, ratePerSecond: 1000, duration: 1h, curve: {shape: Gaussian}", verify: "Isolation"},
		"a simulated history":                {on: check.Simulator(nil), workload: small, load: "arrival: Constant, ratePerSecond: 1000, duration: 6h", verify: "Isolation"},
		"a p99 of too few arrivals":          {on: check.Simulator(nil), workload: small, load: "arrival: Poisson, ratePerSecond: 1, warmup: 1s, duration: 10s", objective: "{metric: latencyP99, max: 1s}", want: []string{"spec.objectives[0].metric: latencyP99 needs 100 transactions, and about 30 are due in 10s x 1 repetitions at spec.load.ratePerSecond 1 in all 3 regions: take a longer duration"}},
		"a p99 of one region":                {on: check.Simulator(nil), workload: small, load: "arrival: Constant, ratePerSecond: 4, warmup: 1s, duration: 10s", objective: "{metric: latencyP99, region: a, max: 1s}", want: []string{"about 40 are due in 10s x 1 repetitions at spec.load.ratePerSecond 4 in region a"}},
		"a p99 of all regions":               {on: check.Simulator(nil), workload: small, load: "arrival: Constant, ratePerSecond: 4, warmup: 1s, duration: 10s", objective: "{metric: latencyP99, max: 1s}"},
		"a p50 of few arrivals":              {on: check.Simulator(nil), workload: small, load: "arrival: Poisson, ratePerSecond: 1, warmup: 1s, duration: 10s", objective: "{metric: latencyP50, max: 1s}"},
		"a p99 of a closed loop":             {on: check.Simulator(nil), workload: small, load: "warmup: 0s, duration: 1s", objective: "{metric: latencyP99, max: 1s}"},
		"a timeline longer than a ConfigMap": {on: cluster, workload: small, load: "duration: 7h", want: []string{"spec.load.duration: 7h x repetitions 1 is 7h; a result holds at most 6h of timeline"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("DATABASE", c.database, "{WORKLOAD}", "{"+c.workload+"}", "{LOAD}", "{"+c.load+"}", "[VERIFY]", "["+c.verify+"]", "[OBJECTIVE]", "["+c.objective+"]").Replace(capacity)
			said := ""
			if _, err := manifest.Load(strings.NewReader(text), c.on, "-"); err != nil {
				said = err.Error()
			}
			if c.want == nil && said != "" {
				t.Errorf("it is refused: %s", said)
			}
			for _, want := range c.want {
				if !strings.Contains(said, want) {
					t.Errorf("%q, without %q", said, want)
				}
			}
		})
	}
}

// TestMemoryOfThisMachine checks that the memory limit of a container counts if it is less than the machine's memory.
func TestMemoryOfThisMachine(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := file("MemFree: 12 kB\nMemTotal:        2048 kB\n")
	for name, c := range map[string]struct {
		meminfo, limit string
		want           int64
	}{
		"a machine":        {meminfo, "no such file", 2 << 20},
		"no limit":         {meminfo, file("max\n"), 2 << 20},
		"a container":      {meminfo, file("1048576\n"), 1 << 20},
		"a large limit":    {meminfo, file("9223372036854771712\n"), 2 << 20},
		"another system":   {"no such file", "no such file", 0},
		"a limit, no more": {"no such file", file("1048576\n"), 1 << 20},
	} {
		if got := check.MemoryOf(c.meminfo, c.limit); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
