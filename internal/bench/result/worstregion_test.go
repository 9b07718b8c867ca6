package result

import "testing"

// regional returns a document with one fault and its effect on each region.
func regional(of map[string]*Availability) *Document {
	d := &Document{Faults: []Fault{{Name: "f"}}}
	for _, name := range []string{"north", "south"} {
		d.Regions = append(d.Regions, Region{Name: name, Faults: []FaultEffect{{"f", of[name]}}})
	}
	return d
}

// TestWorstRegionIsNotTheOneThatGotFaster checks that a region whose throughput more than doubled, so that R is
// negative, is not the region hit hardest.
func TestWorstRegionIsNotTheOneThatGotFaster(t *testing.T) {
	d := regional(map[string]*Availability{
		"north": {NormalPerSecond: 12, FaultPerSecond: 25, RPPM: -20_000},
		"south": {NormalPerSecond: 12, FaultPerSecond: 0, RPPM: 0, OutageMicroseconds: 10_000_000},
	})
	if all := d.WorstRegions(0); len(all) == 0 || all[len(all)-1].Region != "south" {
		t.Errorf("the worst region is %+v, want south", all)
	}
}
