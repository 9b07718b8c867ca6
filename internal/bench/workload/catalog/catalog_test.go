package catalog

import (
	"encoding/json"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

func TestParse(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}
	for spec, want := range map[string]string{
		`{"smallbank": {"customers": 100, "mix": {"balance": 100}}}`:                                                                                                             "",
		`{"rmw": {"records": 100, "recordsPerTransaction": 1, "valueBytes": 8}}`:                                                                                                 "",
		`{"ycsb": {"preset": "E", "records": 100, "fieldCount": 1, "fieldBytes": 8, "operationsPerTransaction": 1, "maxScanRecords": 10}}`:                                       "",
		`{"micro": {"itemsPerPartition": 100}}`:                                                                                                                                  "",
		`{"social": {"usersPerPartition": 100, "mix": {"postPermille": 1000}, "producersPerUser": 1, "listLimit": 1, "postBytes": 1, "postsPerUser": 1, "postsPerTimeline": 1}}`: "",
		`{}`:                           "spec.workload: no workload is set",
		`{"smallbank": {}, "rmw": {}}`: "spec.workload: smallbank and rmw are set; keep exactly one",
		`{"tpce": {}}`:                 "spec.workload: json: unknown field",
		`{"rmw": {}, "tpcc": {}}`:      "spec.workload: rmw and tpcc are set",
		`{"tpcc": {"warehousesPerPartition": 2, "districts": "Any", "warehouses": "Own", "rowsPercent": 100, "mix": {"newOrder": 50, "payment": 50}, "remote": {"newOrderPercent": 20}}}`: "",
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

// TestTable checks that each field of the API has a separate entry, and that the CEL rule that requires exactly one
// workload lists the field.
func TestTable(t *testing.T) {
	fields := reflect.TypeFor[v1alpha1.Workload]()
	var all, has []string
	for i := range fields.NumField() {
		var spec v1alpha1.Workload
		field := fields.Field(i)
		reflect.ValueOf(&spec).Elem().Field(i).Set(reflect.New(field.Type.Elem()))
		name := spec.Name()
		all, has = append(all, name), append(has, "has(self."+name+")")
		e := find(&spec)
		if e == nil || e.name != name {
			t.Errorf("spec.workload.%s has no entry in table: %v", name, e)
			continue
		}
		if types := TypesOf(spec); len(types) == 0 {
			t.Errorf("%s has no types", name)
		} else if why := Never(spec, "no such type"); why != "" {
			t.Errorf("%s: a type that it does not have never runs: %s", name, why)
		}
		if w, err := New(spec, 1, &geo.Topology{Regions: []string{"a"}, Partitions: 1, Replicas: 1}); err == nil {
			t.Errorf("%s: a spec that is zero makes a workload: %v", name, w)
		} else if !strings.HasPrefix(err.Error(), "spec.workload."+name) {
			t.Errorf("%s: the error names another field: %v", name, err)
		}
	}
	if !slices.Equal(names(), all) {
		t.Errorf("the table has %v, v1alpha1.Workload has %v", names(), all)
	}
	list := strings.Join(all, ", ")
	rule := `// +kubebuilder:validation:XValidation:rule="[` + strings.Join(has, ", ") + `].exists_one(x, x)",messageExpression="` +
		strings.Join(has, " || ") + " ? 'more than one of " + list + " is set: keep exactly one workload' : " +
		"'no workload is set: set exactly one of " + list + "'\"\ntype Workload struct {\n"
	source, err := os.ReadFile("../../../../api/v1alpha1/workload_types.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), rule) {
		t.Errorf("the rule of v1alpha1.Workload does not list its fields; make it\n%s", rule)
	}
}

func TestNever(t *testing.T) {
	smallbank := v1alpha1.Workload{SmallBank: &v1alpha1.SmallBank{Mix: v1alpha1.SmallBankMix{Balance: 100}}}
	tpcc := v1alpha1.Workload{TPCC: &v1alpha1.TPCC{Mix: v1alpha1.TPCCMix{NewOrder: 50, StockLevel: 50}}}
	one := v1alpha1.Workload{YCSB: &v1alpha1.YCSB{Preset: "F", OperationsPerTransaction: 1}}
	several := v1alpha1.Workload{YCSB: &v1alpha1.YCSB{Preset: "C", OperationsPerTransaction: 10}}
	writes := v1alpha1.Workload{YCSB: &v1alpha1.YCSB{Mix: &v1alpha1.YCSBMix{Update: 90, Insert: 10}, OperationsPerTransaction: 2}}
	for name, c := range map[string]struct {
		spec  v1alpha1.Workload
		never string
		why   string
	}{
		"smallbank":        {smallbank, "writeCheck depositChecking transactSavings amalgamate", "its share in spec.workload.smallbank.mix is 0"},
		"rmw":              {v1alpha1.Workload{RMW: &v1alpha1.RMW{}}, "", ""},
		"tpcc":             {tpcc, "payment orderStatus delivery", "its share in spec.workload.tpcc.mix is 0"},
		"micro":            {v1alpha1.Workload{Micro: &v1alpha1.Micro{}}, "global", "spec.workload.micro.globalPercent is 0"},
		"social":           {v1alpha1.Workload{Social: &v1alpha1.Social{Mix: v1alpha1.SocialMix{PostPermille: 1000}}}, "timeline localFollow globalFollow", "its share in spec.workload.social.mix is 0"},
		"ycsb":             {one, "update insert scan", "the preset or the mix of spec.workload.ycsb leaves it out"},
		"ycsb that reads":  {several, "readWrite", "the preset or the mix of spec.workload.ycsb leaves it out"},
		"ycsb that writes": {writes, "readOnly", "the preset or the mix of spec.workload.ycsb leaves it out"},
	} {
		var never []string
		for _, transaction := range TypesOf(c.spec) {
			if why := Never(c.spec, transaction); why != "" {
				never = append(never, transaction)
				if why != c.why {
					t.Errorf("%s: %s never runs: %s", name, transaction, why)
				}
			}
		}
		if got := strings.Join(never, " "); got != c.never {
			t.Errorf("%s: %q never run, want %q", name, got, c.never)
		}
	}
}

// TestTpmCType checks that TPC-C names one of its types as the type whose commits are tpmC, and that other workloads
// have no tpmC.
func TestTpmCType(t *testing.T) {
	spec := v1alpha1.Workload{TPCC: &v1alpha1.TPCC{}}
	if typ := TpmCType(spec); !slices.Contains(TypesOf(spec), typ) {
		t.Errorf("tpmC counts %q, which is none of %v", typ, TypesOf(spec))
	}
	for _, spec := range []v1alpha1.Workload{{SmallBank: &v1alpha1.SmallBank{}}, {RMW: &v1alpha1.RMW{}}, {YCSB: &v1alpha1.YCSB{}}, {Micro: &v1alpha1.Micro{}}, {Social: &v1alpha1.Social{}}} {
		if typ := TpmCType(spec); typ != "" {
			t.Errorf("workload %s has tpmC, of type %q", spec.Name(), typ)
		}
	}
}

// TestNumbers pins the procedure numbers, because processes of different versions exchange them.
func TestNumbers(t *testing.T) {
	r := Procedures()
	pinned := map[txn.ProcID]string{1: "lookup", 2: "balance", 3: "writeCheck", 4: "depositChecking",
		5: "transactSavings", 6: "amalgamate", 7: "balanceByName", 8: "writeCheckByName", 9: "depositCheckingByName", 10: "transactSavingsByName",
		11: "amalgamateByName", 16: "rmw", 17: "dependent", 48: "ycsb", 49: "ycsbOrdered",
		32: "newOrder", 33: "payment", 34: "orderStatus", 35: "delivery", 36: "stockLevel", 37: "updateStock", 38: "updateBalance", 39: "selectBalance",
		64: "microUpdate", 80: "timeline", 81: "post", 82: "follow"}
	for id, name := range pinned {
		if p := r.Lookup(id); p == nil || p.Name != name {
			t.Errorf("procedure %d is %v, not %s", id, p, name)
		}
	}
	for _, e := range table {
		for _, p := range e.procedures() {
			if pinned[p.ID] == "" {
				t.Errorf("%s: the number %d of procedure %s is not pinned here", e.name, p.ID, p.Name)
			}
		}
	}
}

// TestDataSizes checks that each workload estimates the size of its data, and that a node needs no less memory than
// estimated. A data set that is refused by the estimate would therefore not have fit.
func TestDataSizes(t *testing.T) {
	top := &geo.Topology{Regions: []string{"a", "b", "c"}, Partitions: 2, Replicas: 1}
	for name, spec := range map[string]string{
		"smallbank":    `{"smallbank": {"customers": 40000, "mix": {"balance": 100}}}`,
		"rmw":          `{"rmw": {"records": 100000, "recordsPerTransaction": 1, "valueBytes": 8}}`,
		"large rmw":    `{"rmw": {"records": 10000, "recordsPerTransaction": 1, "valueBytes": 1000}}`,
		"ycsb":         `{"ycsb": {"preset": "A", "records": 20000, "fieldCount": 10, "fieldBytes": 100, "operationsPerTransaction": 1}}`,
		"scanned ycsb": `{"ycsb": {"preset": "E", "records": 100000, "fieldCount": 1, "fieldBytes": 8, "operationsPerTransaction": 1, "maxScanRecords": 10}}`,
		"micro":        `{"micro": {"itemsPerPartition": 20000}}`,
		"social":       `{"social": {"usersPerPartition": 5000, "mix": {"postPermille": 1000}, "producersPerUser": 10, "listLimit": 1000, "postBytes": 140, "postsPerUser": 1, "postsPerTimeline": 1}}`,
		"tpcc":         `{"tpcc": {"warehousesPerPartition": 2, "districts": "Any", "warehouses": "Own", "rowsPercent": 10, "mix": {"newOrder": 50, "payment": 50}, "remote": {"newOrderPercent": 20}}}`,
		"uneven tpcc":  `{"tpcc": {"warehousesPerPartition": 1, "districts": "Any", "warehouses": "Own", "rowsPercent": 17, "mix": {"newOrder": 50, "payment": 50}, "remote": {"multiHomePercent": 100, "newOrderPercent": 20}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			w, err := Parse(json.RawMessage(spec), 1, top)
			if err != nil {
				t.Fatal(err)
			}
			sized, ok := w.(workload.Sized)
			if !ok {
				t.Fatalf("%s does not know its size", w.Name())
			}
			var got workload.Size
			s := store.NewHash()
			before := heap()
			for cell := range top.Placement().Cells() {
				w.Rows(geo.Cell{Home: geo.Region(cell / top.Partitions), Partition: cell % top.Partitions}, func(k txn.Key, v []byte) {
					got.Rows, got.Bytes = got.Rows+1, got.Bytes+int64(len(k)+len(v))
					s.Load(k, v)
				})
			}
			w.Everywhere(func(k txn.Key, v []byte) {
				got.EverywhereRows, got.EverywhereBytes = got.EverywhereRows+1, got.EverywhereBytes+int64(len(k)+len(v))
				s.Load(k, v)
			})
			took, size := heap()-before, sized.Size()
			runtime.KeepAlive(s)
			for _, x := range []struct{ is, says int64 }{{got.Rows, size.Rows}, {got.Bytes, size.Bytes}, {got.EverywhereRows, size.EverywhereRows}, {got.EverywhereBytes, size.EverywhereBytes}} {
				if x.says > x.is || x.says < x.is*2/3 {
					t.Errorf("it says %+v, and loads %+v", size, got)
					break
				}
			}
			if least := size.Memory(6, 6); least > took {
				t.Errorf("it takes %d bytes, and says that it takes at least %d", took, least)
			}
			if half, all := size.Memory(3, 6), size.Memory(6, 6); half >= all || half < all/2 {
				t.Errorf("%d bytes of half of the cells, %d of all", half, all)
			}
		})
	}
}

// heap returns the size of the reachable heap, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
