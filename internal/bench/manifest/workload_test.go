package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/manifest"
)

// TestWorkloadsBeyondTheAPIAreRefused checks that a node applies the bounds of the API to each request to load a data
// set, regardless of the sender.
func TestWorkloadsBeyondTheAPIAreRefused(t *testing.T) {
	topology := &geo.Topology{Regions: []string{"eu", "us"}, Partitions: 1, Replicas: 1}
	for name, tc := range map[string]struct{ spec, says string }{
		"defaults are filled in": {spec: `{"smallbank":{}}`},
		"the most customers":     {spec: `{"smallbank":{"customers":100000000}}`},
		"too many customers":     {`{"smallbank":{"customers":100000001}}`, "spec.workload.smallbank.customers: 100000001: must be less than or equal to 100000000"},
		"too many records":       {`{"rmw":{"records":2000000000}}`, "spec.workload.rmw.records: 2000000000: must be less than or equal to 1000000000"},
		"records that are too long": {`{"rmw":{"records":100,"valueBytes":2000000000}}`,
			"spec.workload.rmw.valueBytes: 2000000000: must be less than or equal to 65536"},
		"more than a number":      {`{"rmw":{"records":99999999999999999999}}`, "spec.workload.rmw.records"},
		"too many warehouses":     {`{"tpcc":{"warehousesPerPartition":2000000}}`, "spec.workload.tpcc.warehousesPerPartition: 2000000: must be less than or equal to 10000"},
		"a rule over two fields":  {`{"ycsb":{"preset":"A","fieldCount":1000,"fieldBytes":1000}}`, "spec.workload.ycsb.fieldBytes: fieldCount x fieldBytes is 1000000: a record can have at most 65536 bytes"},
		"items of two partitions": {spec: `{"micro":{"itemsPerPartition":10,"globalPercent":100}}`},
		"a list that is too long": {`{"social":{"listLimit":2000}}`, "spec.workload.social.listLimit: 2000: must be less than or equal to 1000"},
		"what does not fit here":  {`{"smallbank":{"customers":1}}`, "spec.workload.smallbank.customers: 1 customers leave"},
		"unknown field":           {`{"smallbank":{"custmers":1}}`, "spec.workload.smallbank.custmers: unknown field; did you mean customers?"},
		"no workload":             {`{}`, "no workload is set"},
		"nothing":                 {`null`, "spec.workload: is required"},
		"no object":               {`[]`, "spec.workload: must be an object"},
		"no JSON":                 {`{`, "spec.workload: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := manifest.ParseWorkload(json.RawMessage(tc.spec), 1, topology)
			if tc.says == "" {
				if err != nil || w == nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "BenchmarkRun") {
				t.Errorf("%v; want %q", err, tc.says)
			}
		})
	}
}
