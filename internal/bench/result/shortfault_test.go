package result

import "testing"

// TestShortFaultWithALongOutage checks a fault of a tenth of a second that is followed by an outage of 50 s. The few
// commits during the fault are little evidence; the outage is significant.
func TestShortFaultWithALongOutage(t *testing.T) {
	never := int64(0)
	d := regional(map[string]*Availability{
		"north": {NormalPerSecond: 3968, FaultPerSecond: 3800, RPPM: 957_661, WithinChance: true},
		"south": {NormalPerSecond: 189, FaultPerSecond: 80, RPPM: 423_280, WithinChance: true, TPPM: &never, OutageMicroseconds: 49_900_000},
	})
	if all := d.WorstRegions(0); len(all) == 0 || all[len(all)-1].Region != "south" {
		t.Errorf("the worst region is %+v, want south, which is out for 49.9 s", all)
	}
}
