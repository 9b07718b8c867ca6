package inprocess

import (
	"testing"
	"time"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/isolation"
)

// Links to an existing database are not delayed artificially. So a topology may omit its links, but must not have
// delays.
func TestLinksOfATargetAreReal(t *testing.T) {
	run := &v1alpha1.BenchmarkRun{}
	run.Spec.Workload.RMW = &v1alpha1.RMW{Records: 100, RecordsPerTransaction: 1, WritesPerTransaction: 1, ValueBytes: 8}
	topology := geo.Topology{Regions: []string{"east", "west"}, Partitions: 1, Replicas: 1}
	p, err := PlanOn(run, "sqlite", isolation.Serializable, topology)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Topology.Validate(); err != nil {
		t.Error(err)
	}
	slow := geo.Link{Delay: 50 * time.Millisecond}
	topology.Links = [][]geo.Link{{{}, slow}, {slow, {}}}
	want := "links[east][west]: {Delay:50ms Jitter:0s LossPPM:0 BandwidthMbps:0 Congestion:} is declared, but the links to sqlite are real and nobody delays them: leave out links"
	if _, err := PlanOn(run, "sqlite", isolation.Serializable, topology); err == nil || err.Error() != want {
		t.Errorf("%v\nnot %s", err, want)
	}
}
