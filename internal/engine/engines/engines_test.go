package engines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Engines that refuse a topology name its fields as a manifest does.
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

// Every parameter of every engine accepts the values within its bounds. It rejects all other values with an error that
// contains its name, the value and the valid values.
func TestBadParameters(t *testing.T) {
	for _, e := range All() {
		for _, p := range e.Parameters {
			// bad maps invalid values to the expected error text.
			bad := map[string]string{}
			var good []string
			switch {
			case len(p.OneOf) > 0:
				good = p.OneOf
				for _, value := range []string{"", " ", "1ms", strings.ToUpper(p.OneOf[0]) + "X", p.OneOf[0] + " ", strings.Join(p.OneOf, ",")} {
					bad[value] = "is not one of " + strings.Join(p.OneOf, ", ")
				}
			case p.Integer:
				good = []string{fmt.Sprint(p.MinInt), fmt.Sprint(p.MaxInt)}
				for _, value := range []string{"", "many", "1.5", "1e3", "0x10", "5ms", " 1", "99999999999999999999", fmt.Sprint(p.MinInt - 1), fmt.Sprint(p.MaxInt + 1)} {
					bad[value] = fmt.Sprintf("is not a whole number from %d to %d", p.MinInt, p.MaxInt)
				}
			default:
				good = []string{p.Min.String(), p.Max.String()}
				for _, value := range []string{"", "fast", "5", "5 ms", "1e3s", "NaN", "99999999h", (p.Min - 1).String(), (p.Max + 1).String()} {
					bad[value] = fmt.Sprintf("is not a duration from %s to %s", p.Min, p.Max)
				}
			}
			for _, value := range good {
				if err := p.Check(value); err != nil {
					t.Errorf("%s: %s: %v, which lies within its bounds", e.Name, p.Name, err)
				}
			}
			for value, want := range bad {
				_, errs := e.Resolve(map[string]string{p.Name: value})
				if len(errs) != 1 || errs[0].Name != p.Name || errs[0].Message != fmt.Sprintf("%q %s", value, want) {
					t.Errorf("%s: %s: %q is answered with %v, want %q and %s", e.Name, p.Name, value, errs, value, want)
				}
			}
			for _, other := range []string{p.Name + "s", strings.ToUpper(p.Name)} {
				if _, errs := e.Resolve(map[string]string{other: p.Default}); len(errs) != 1 || errs[0].Name != other || !strings.Contains(errs[0].Message, "it has "+e.Parameters[0].Name) {
					t.Errorf("%s: %s, which it has not, is answered with %v", e.Name, other, errs)
				}
			}
		}
	}
}

// Every engine is complete, and its defaults pass its checks.
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
