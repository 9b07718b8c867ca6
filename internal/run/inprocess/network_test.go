package inprocess

import (
	"fmt"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/bench/result"
)

// asymmetric returns a run over four regions. Each link has a different delay in each direction, a jitter of 10 ms and
// 1% loss.
func asymmetric(seed int) string {
	var links, regions []string
	names := []string{"a", "b", "c", "d"}
	for i, from := range names {
		regions = append(regions, "{name: "+from+"}")
		for j, to := range names {
			if i != j {
				links = append(links, fmt.Sprintf("    - {from: %s, to: %s, rtt: %dms, jitter: 10ms, lossPPM: 10000}\n", from, to, 20+13*i+29*j))
			}
		}
	}
	return fmt.Sprintf(`apiVersion: geobench.dev/v1alpha1
kind: NetworkProfile
metadata: {name: asymmetric}
spec:
  intraRegion: {rtt: 400us}
  links:
%s---
apiVersion: geobench.dev/v1alpha1
kind: GeoDatabase
metadata: {name: db}
spec:
  engine: {name: calvin}
  regions: [%s]
  network: {profileRef: {name: asymmetric}, emulation: BuiltIn}
---
apiVersion: geobench.dev/v1alpha1
kind: BenchmarkRun
metadata: {name: test}
spec:
  databaseRef: {name: db}
  seed: %d
  workload: {smallbank: {customers: 100}}
  load: {clientsPerRegion: 1, warmup: 1s, duration: 5s}
`, strings.Join(links, ""), strings.Join(regions, ", "), seed)
}

// Of 100 runs on a network that matches its declaration, none is rejected because of random variation in the median
// round trips.
func TestChanceRefusesNoNetwork(t *testing.T) {
	for seed := range 100 {
		d := simulate(t, asymmetric(seed))
		for _, r := range d.Reasons {
			if r.Reason == result.ReasonNetworkNotVerified {
				t.Errorf("seed %d: %s", seed, r.Message)
			}
		}
	}
}
