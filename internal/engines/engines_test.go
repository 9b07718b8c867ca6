package engines

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
)

// What engines refuse of a topology they name as a manifest does.
func TestRefusedTopologies(t *testing.T) {
	for _, e := range All() {
		p, _ := e.Resolve(nil)
		for _, replicas := range []int{1, 3} {
			for regions := 1; regions <= 3; regions++ {
				topology := &geo.Topology{Regions: []string{"a", "b", "c"}[:regions], Partitions: 2, Replicas: replicas}
				for _, groups := range [][]geo.CellGroup{nil, {{Cell: geo.Cell{}, Replicas: []int{1, 0, 0}[:regions]}}} {
					topology.Groups = groups
					err := e.Accepts(topology, p)
					var refused *protocol.TopologyError
					if err != nil && (!errors.As(err, &refused) || !strings.HasPrefix(refused.Field, "spec.") || refused.Message == "") {
						t.Errorf("%s refuses %+v: %v", e.Name, topology, err)
					}
					if groups != nil && !e.TakesGroups && err == nil {
						t.Errorf("%s takes groups, of which it knows nothing", e.Name)
					}
				}
			}
		}
	}
}

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
