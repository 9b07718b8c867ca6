package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
)

func TestParse(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}
	for spec, want := range map[string]string{
		`{"smallbank": {"customers": 100, "mix": {"balance": 100}}}`:                                                                       "",
		`{"rmw": {"records": 100, "recordsPerTransaction": 1, "valueBytes": 8}}`:                                                           "",
		`{"ycsb": {"preset": "E", "records": 100, "fieldCount": 1, "fieldBytes": 8, "operationsPerTransaction": 1, "maxScanRecords": 10}}`: "",
		`{}`:                           "spec.workload: no workload is set",
		`{"smallbank": {}, "rmw": {}}`: "spec.workload: smallbank and rmw are set; keep exactly one",
		`{"tpce": {}}`:                 "spec.workload: json: unknown field",
		`{"rmw": {}, "tpcc": {}}`:      "spec.workload: rmw and tpcc are set",
		`{"tpcc": {"warehousesPerPartition": 2, "districts": "Any", "mix": {"newOrder": 50, "payment": 50}, "remote": {"newOrderPercent": 20}}}`: "",
		`{"smallbank": {"customers": 1}}`: "spec.workload.smallbank.mix: the shares sum to 0",
	} {
		w, err := Parse(json.RawMessage(spec), 1, top)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", spec, err)
		case want == "" && len(w.Types()) == 0:
			t.Errorf("%s: no types", spec)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", spec, err, want)
		}
	}
}

// TestNumbers pins the numbers of the procedures: they travel between versions.
func TestNumbers(t *testing.T) {
	r := Procedures()
	for id, name := range map[txn.ProcID]string{1: "lookup", 2: "balance", 3: "writeCheck", 4: "depositChecking",
		5: "transactSavings", 6: "amalgamate", 16: "rmw", 48: "ycsb", 49: "ycsbOrdered",
		32: "newOrder", 33: "payment", 34: "orderStatus", 35: "delivery", 36: "stockLevel"} {
		if p := r.Lookup(id); p == nil || p.Name != name {
			t.Errorf("procedure %d is %v, not %s", id, p, name)
		}
	}
}
