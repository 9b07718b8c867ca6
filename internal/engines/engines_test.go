package engines

import (
	"slices"
	"testing"

	"github.com/geobench/geobench/internal/geo"
)

// Every engine is complete, and its defaults pass its own checks.
func TestEngines(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) || len(names) != len(All()) {
		t.Errorf("the names %v are not sorted or not unique", names)
	}
	topology := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1, Links: [][]geo.Link{{{}}}}
	for _, name := range names {
		e, ok := Lookup(name)
		if !ok || e.Name != name || e.Paper == "" || e.Doc == "" || e.New == nil || e.Decode == nil || e.Law == nil {
			t.Errorf("%s: incomplete or not found", name)
			continue
		}
		for _, p := range e.Parameters {
			if p.Doc == "" {
				t.Errorf("%s: parameter %s has no explanation", name, p.Name)
			}
			if err := p.Check(p.Default); err != nil {
				t.Errorf("%s: parameter %s: default %v", name, p.Name, err)
			}
		}
		p, errs := e.Resolve(nil)
		if len(errs) > 0 {
			t.Errorf("%s: %v", name, errs[0])
			continue
		}
		if e.Law(topology, p, 0, []geo.Region{0}) < 0 {
			t.Errorf("%s: the law is negative", name)
		}
		if _, err := e.Decode(255, nil, nil); err == nil {
			t.Errorf("%s: takes an unknown message", name)
		}
	}
	if _, ok := Lookup("oracle"); ok {
		t.Error("found what is not there")
	}
}
