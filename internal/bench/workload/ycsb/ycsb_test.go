package ycsb

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/api/v1alpha1"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
	"github.com/geobench/geobench/internal/bench/workload/workloadtest"
)

func topology(regions, partitions int) *geo.Topology {
	return &geo.Topology{Regions: []string{"a", "b", "c", "d"}[:regions], Partitions: partitions, Replicas: 1}
}

// defaults returns the defaults of the API, except for the number and size of records.
func defaults(preset v1alpha1.YCSBPreset) v1alpha1.YCSB {
	return v1alpha1.YCSB{Preset: preset, Records: 10_000, FieldCount: 4, FieldBytes: 10, OperationsPerTransaction: 1, ThetaPercent: 99,
		HotRecordsPercent: 20, HotOperationsPercent: 80, MaxScanRecords: 100, Locality: v1alpha1.YCSBHome,
		HomesPerMultiHome: 2, PartitionsPerMultiPartition: 2}
}

func bind(t testing.TB, spec v1alpha1.YCSB, top *geo.Topology) *YCSB {
	t.Helper()
	w, err := New(spec, 5, top)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// merged returns the operation kinds of a transaction, with the pieces of each scan merged into one, and the lengths of
// the scans.
func merged(w *YCSB, a args) (kinds []kind, scans []int) {
	for i := 0; i < a.operations(); i++ {
		o := a.operation(i)
		kinds = append(kinds, o.kind)
		if o.kind != opScan {
			continue
		}
		length := o.read()
		for o.field == groupSize && i+1 < a.operations() {
			next := a.operation(i + 1)
			if next.kind != opScan || next.place != 0 || next.shard != o.shard+uint64(w.placement.Regions*w.placement.Partitions) ||
				length+next.read() > int(w.spec.MaxScanRecords) {
				break
			}
			o, i = next, i+1
			length += o.read()
		}
		scans = append(scans, length)
	}
	return kinds, scans
}

func TestGenerator(t *testing.T) {
	mix := func(m v1alpha1.YCSBMix) func(*v1alpha1.YCSB) {
		return func(s *v1alpha1.YCSB) { s.Preset, s.Mix = "", &m }
	}
	for name, c := range map[string]struct {
		preset              v1alpha1.YCSBPreset
		regions, partitions int
		change              func(*v1alpha1.YCSB)
		homes, parts        int
	}{
		"A":       {"A", 2, 2, nil, 1, 1},
		"B":       {"B", 2, 1, nil, 1, 1},
		"C":       {"C", 1, 1, nil, 1, 1},
		"D":       {"D", 2, 2, nil, 1, 1},
		"E":       {"E", 2, 2, nil, 1, 1},
		"F":       {"F", 2, 2, nil, 1, 1},
		"uniform": {"A", 2, 2, func(s *v1alpha1.YCSB) { s.Distribution = v1alpha1.YCSBUniform }, 1, 1},
		"hotspot": {"A", 2, 2, func(s *v1alpha1.YCSB) { s.Distribution = v1alpha1.YCSBHotspot }, 1, 1},
		"ten operations": {"A", 3, 2, func(s *v1alpha1.YCSB) {
			s.OperationsPerTransaction, s.MultiHomePercent, s.MultiPartitionPercent = 10, 30, 60
		}, 2, 2},
		"wide": {"F", 4, 4, func(s *v1alpha1.YCSB) {
			s.OperationsPerTransaction, s.MultiHomePercent, s.MultiPartitionPercent, s.HomesPerMultiHome, s.PartitionsPerMultiPartition = 10, 100, 100, 3, 4
		}, 3, 4},
		"blind updates": {"A", 2, 2, func(s *v1alpha1.YCSB) { s.OperationsPerTransaction, s.WriteAllFields, s.MultiHomePercent = 4, true, 20 }, 2, 1},
		"one field":     {"A", 2, 2, func(s *v1alpha1.YCSB) { s.FieldCount = 1 }, 1, 1},
		"scans of several groups and homes": {"E", 3, 2, func(s *v1alpha1.YCSB) {
			s.OperationsPerTransaction, s.MultiHomePercent, s.MultiPartitionPercent, s.MaxScanRecords = 4, 50, 50, 300
		}, 2, 2},
		"everything": {"", 2, 2, func(s *v1alpha1.YCSB) {
			mix(v1alpha1.YCSBMix{Read: 20, Update: 20, Insert: 20, Scan: 20, ReadModifyWrite: 20})(s)
			s.OperationsPerTransaction, s.ThetaPercent = 5, 130
		}, 1, 1},
		"everything blind": {"", 2, 2, func(s *v1alpha1.YCSB) {
			mix(v1alpha1.YCSBMix{Read: 20, Update: 20, Insert: 20, Scan: 20, ReadModifyWrite: 20})(s)
			s.OperationsPerTransaction, s.WriteAllFields, s.Distribution = 5, true, v1alpha1.YCSBLatest
		}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			spec := defaults(c.preset)
			if c.change != nil {
				c.change(&spec)
			}
			top := topology(c.regions, c.partitions)
			w := bind(t, spec, top)
			place := top.Placement()
			n := 0
			kinds := make([]int, numKinds)
			types := make([]int, len(w.Types()))
			lengths := make([]int, spec.MaxScanRecords+1)
			workloadtest.Shares(t, workloadtest.Bind(t, New, spec, top, Procedures()), 5000, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
				homes, parts := map[geo.Region]bool{}, map[int]bool{}
				for _, a := range tx.Accesses {
					homes[place.Home(a.Key)], parts[place.Partition(a.Key)] = true, true
				}
				if !homes[region] || r.Class.MultiHome() && len(homes) != c.homes || r.Class.MultiPartition() && len(parts) != c.parts || !tx.Exact {
					t.Fatalf("class %v with %d homes and %d partitions, want %d and %d", r.Class, len(homes), len(parts), c.homes, c.parts)
				}
				ks, scans := merged(w, args(tx.Args))
				for _, k := range ks {
					kinds[k]++
				}
				for _, l := range scans {
					lengths[l]++
				}
				types[r.Type]++
				n++
			})
			operations := n * int(spec.OperationsPerTransaction)
			for k, share := range shares(&w.mix) {
				workloadtest.NearShare(t, TypesOf(&v1alpha1.YCSB{OperationsPerTransaction: 1})[k], kinds[k], operations, float64(share)/100)
			}
			if spec.OperationsPerTransaction == 1 && !slices.Equal(types, kinds) {
				t.Errorf("types %v, operations %v", types, kinds)
			}
			if kinds[opScan] > 0 {
				for l, count := range lengths[1:] {
					workloadtest.NearShare(t, fmt.Sprintf("scans of %d", l+1), count, kinds[opScan], 1/float64(spec.MaxScanRecords))
				}
			}
		})
	}
}

func TestSuite(t *testing.T) {
	few := func(preset v1alpha1.YCSBPreset) v1alpha1.YCSB {
		s := defaults(preset)
		s.Records, s.ThetaPercent = 20_000, 0 // Few records are written more than once.
		return s
	}
	ten := defaults("")
	ten.Mix, ten.OperationsPerTransaction = &v1alpha1.YCSBMix{Read: 20, Update: 20, Insert: 20, Scan: 20, ReadModifyWrite: 20}, 10
	whole, blind := few("F"), few("A")
	whole.WriteAllFields, blind.WriteAllFields = true, true
	for name, c := range map[string]struct {
		spec         v1alpha1.YCSB
		blind, wrong []string // of Ledger and Invariants
	}{
		"A":                       {few("A"), nil, nil},
		"inserts":                 {few("D"), []string{"insert doubled"}, nil},
		"inserts among scans":     {few("E"), []string{"insert doubled"}, nil},
		"F":                       {few("F"), nil, nil},
		"whole read-modify-write": {whole, nil, nil},
		// A blind update resets the counter at the start of a record to 0.
		"blind updates":  {blind, []string{"update doubled"}, []string{"t0 altered at its start"}},
		"ten operations": {ten, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			suite := workloadtest.Bind(t, New, c.spec, topology(3, 2), Procedures())
			workloadtest.Rows(t, suite)
			workloadtest.Ledger(t, suite, 500, c.blind...)
			workloadtest.Streams(t, suite, 100)
			// The contents of a record's fields are not checked.
			workloadtest.Invariants(t, suite, 100, append(c.wrong, "t0 altered at its end")...)
		})
	}
}

// With blind updates, a generator counts the distinct records of a region that it has written.
func TestLedgerOfBlindUpdates(t *testing.T) {
	spec := defaults("")
	spec.Mix = &v1alpha1.YCSBMix{Update: 100}
	spec.FieldCount, spec.Records = 1, 2 // one of each home
	w := bind(t, spec, topology(2, 1))
	g := w.NewGenerator(workload.GeneratorConfig{Clients: 2, Stream: 1, Region: 1})
	expect := func(low, high int64) {
		t.Helper()
		l := g.Ledger()
		want := workload.Interval{Low: low, High: high}
		writers := workload.Interval{Low: min(low, 1), High: min(low, 1)}
		if l["ycsb-written-b"] != want || l["ycsb-writers-b"] != writers || l["ycsb-written-a"] != (workload.Interval{}) {
			t.Errorf("the ledger is %+v, want %+v", l, want)
		}
	}
	for i, s := range []txn.Status{txn.Aborted, txn.Unknown, txn.Unknown, txn.Unknown} {
		g.Next(0, 0, &txn.Transaction{ID: txn.ID(i + 1)})
		g.Done(0, txn.Outcome{ID: txn.ID(i + 1), Status: s})
	}
	expect(0, 3)
	g.Late(txn.Outcome{ID: 2, Status: txn.Refused})
	expect(0, 2)
	g.Late(txn.Outcome{ID: 3, Status: txn.Committed})
	expect(1, 2)
	g.Late(txn.Outcome{ID: 4, Status: txn.Committed})
	expect(1, 1)
	g.Next(0, 0, &txn.Transaction{ID: 5})
	g.Next(1, 0, &txn.Transaction{ID: 6})
	expect(1, 3)
	g.Done(0, txn.Outcome{ID: 5, Status: txn.Committed})
	g.Done(1, txn.Outcome{ID: 6, Status: txn.Committed})
	expect(1, 1)

	// Two streams with the same counts may have written the same records or different records.
	ledger := g.Ledger()
	ledger.Merge(g.Ledger())
	for written, passes := range map[int64]bool{0: false, 1: true, 2: true, 3: false} {
		checks := w.Verify(workloadtest.Copies(map[string]int64{"records": 2, "written-a": 0, "written-b": written}), ledger)
		if checks[1].Name != "ycsb-written" || checks[1].Passed != passes {
			t.Errorf("%d written: %+v", written, checks[1])
		}
	}
}

// The number of foreign single-home transactions matches the manifest. The test determines the number from the
// transactions that the generator returns.
func TestForeign(t *testing.T) {
	spec := defaults("A")
	spec.OperationsPerTransaction, spec.MultiHomePercent, spec.ForeignSingleHomePercent = 4, 30, 45
	top := topology(3, 2)
	place := top.Placement()
	c := workloadtest.Bind(t, New, spec, top, Procedures())
	c.AnyHome = "foreign transactions are asked for"
	single, foreign := 0, 0
	workloadtest.Shares(t, c, 4000, func(region geo.Region, tx *txn.Transaction, r workload.Request) {
		if !r.Class.MultiHome() {
			single++
			if place.Home(tx.Accesses[0].Key) != region {
				foreign++
			}
		}
	})
	workloadtest.NearShare(t, "foreign", foreign, single, 0.45)
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.YCSB)
		want   string
	}{
		"nothing":                  {func(s *v1alpha1.YCSB) { s.Preset = "" }, "ycsb: exactly one of preset and mix"},
		"preset and mix":           {func(s *v1alpha1.YCSB) { s.Mix = &v1alpha1.YCSBMix{Read: 100} }, "ycsb: exactly one of preset and mix"},
		"mix":                      {func(s *v1alpha1.YCSB) { s.Preset, s.Mix = "", &v1alpha1.YCSBMix{Read: 99} }, "ycsb.mix: the shares sum to 99"},
		"negative share":           {func(s *v1alpha1.YCSB) { s.Preset, s.Mix = "", &v1alpha1.YCSBMix{Read: 101, Scan: -1} }, "ycsb.mix: "},
		"foreign anywhere":         {func(s *v1alpha1.YCSB) { s.Locality, s.ForeignSingleHomePercent = v1alpha1.YCSBAnywhere, 5 }, "ycsb.foreignSingleHomePercent: 5, but locality None"},
		"few records":              {func(s *v1alpha1.YCSB) { s.Records = 3 }, "ycsb.records: 3 is too few for 2 regions with 2 partitions each; make it at least 4"},
		"many records":             {func(s *v1alpha1.YCSB) { s.Records = 2_000_000_000 }, "ycsb.records: 2000000000 is more"},
		"no fields":                {func(s *v1alpha1.YCSB) { s.FieldCount = 0 }, "ycsb.fieldBytes: 0 fields"},
		"large records":            {func(s *v1alpha1.YCSB) { s.FieldBytes = 16385 }, "ycsb.fieldBytes: 4 fields of 16385 bytes"},
		"no operations":            {func(s *v1alpha1.YCSB) { s.OperationsPerTransaction = 0 }, "ycsb.operationsPerTransaction: 0 is not"},
		"theta":                    {func(s *v1alpha1.YCSB) { s.ThetaPercent = -1 }, "ycsb.thetaPercent: -1 is not"},
		"hot records":              {func(s *v1alpha1.YCSB) { s.Distribution, s.HotRecordsPercent = v1alpha1.YCSBHotspot, 0 }, "ycsb.hotRecordsPercent: 0 is not"},
		"hot operations":           {func(s *v1alpha1.YCSB) { s.HotOperationsPercent = 101 }, "ycsb.hotOperationsPercent: 101 is not"},
		"no scans":                 {func(s *v1alpha1.YCSB) { s.Preset, s.MaxScanRecords = "E", 0 }, "ycsb.maxScanRecords: 0 is not"},
		"endless scans":            {func(s *v1alpha1.YCSB) { s.Preset, s.MaxScanRecords, s.FieldBytes = "E", 1000, 16384 }, "ycsb.maxScanRecords: scans of 1000 records of 65536 bytes may return 65536000 bytes in one transaction; make it at most 512"},
		"home without region":      {func(s *v1alpha1.YCSB) { s.MultiHomePercent, s.HomesPerMultiHome = 1, 3 }, "ycsb.homesPerMultiHome: 3 is not between 2 and the number of regions (2)"},
		"one operation":            {func(s *v1alpha1.YCSB) { s.MultiHomePercent = 1 }, "ycsb.operationsPerTransaction: 1 operations cannot lie in 2 homes"},
		"no locality":              {func(s *v1alpha1.YCSB) { s.Locality, s.MultiHomePercent = v1alpha1.YCSBAnywhere, 1 }, "ycsb.locality: None"},
		"hot records of nothing":   {func(s *v1alpha1.YCSB) { s.HotRecords = new(int64(10)) }, "ycsb.hotRecords: it goes with the distribution OneHotPerHome"},
		"no number of hot records": {func(s *v1alpha1.YCSB) { s.Distribution = v1alpha1.YCSBOneHotPerHome }, "ycsb.hotRecords: it goes with the distribution OneHotPerHome"},
		"all records hot":          {func(s *v1alpha1.YCSB) { s.Distribution, s.HotRecords = v1alpha1.YCSBOneHotPerHome, new(int64(2500)) }, "ycsb.hotRecords: 2500 is not between 1 and 2499"},
		"hot records of all": {func(s *v1alpha1.YCSB) {
			s.Distribution, s.HotRecords, s.Locality = v1alpha1.YCSBOneHotPerHome, new(int64(10)), v1alpha1.YCSBAnywhere
		}, "ycsb.distribution: OneHotPerHome needs"},
		"homes without locality": {func(s *v1alpha1.YCSB) { s.HomesThetaPercent, s.Locality = new(int32(260)), v1alpha1.YCSBAnywhere }, "ycsb.homesThetaPercent: it needs"},
		"latest of all":          {func(s *v1alpha1.YCSB) { s.Preset, s.Locality = "D", v1alpha1.YCSBAnywhere }, "ycsb.distribution: Latest needs"},
	} {
		spec := defaults("A")
		c.change(&spec)
		if _, err := New(spec, 1, topology(2, 2)); err == nil || !strings.Contains(err.Error(), "spec.workload."+c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// TestRows checks that the records are distributed evenly.
func TestRows(t *testing.T) {
	for _, preset := range []v1alpha1.YCSBPreset{"A", "E"} {
		spec := defaults(preset)
		spec.Records = 1003
		top := topology(3, 2)
		w := bind(t, spec, top)
		once := workloadtest.New(t).Load(w, top)
		names, rows := map[string]bool{}, map[geo.Cell]int{}
		once.Each(func(k txn.Key, r store.Record) {
			names[w.KeyName(k)] = true
			rows[top.Placement().Cell(k)]++
			if len(r.Value) != 16+4*10 || counter(r.Value) != 0 || writer(r.Value) != 0 {
				t.Errorf("%v has the value %x", k, r.Value)
			}
		})
		if of := slices.Sorted(maps.Values(rows)); once.Len() != 1003 || len(of) != 6 || of[5] > of[0]+1 {
			t.Errorf("%s: %d rows, %v in the cells", preset, once.Len(), of)
		}
		for i := range 1003 {
			if !names[fmt.Sprintf("record(%d)", i)] {
				t.Errorf("%s: there is no record %d", preset, i)
			}
		}
		other, err := New(spec, 6, top)
		if err != nil {
			t.Fatal(err)
		}
		if store.Digest(workloadtest.New(t).Load(other, top).Hash) == store.Digest(once.Hash) {
			t.Errorf("%s: another seed loads the same rows", preset)
		}
	}
}

func TestKeys(t *testing.T) {
	stream := []byte{0, 0, 0, 8}
	for want, r := range map[txn.Key]struct {
		ref
		ordered bool
	}{
		txn.IntKey(table, 1<<40+17):                                         {ref{shard: 1<<40 + 17}, false},
		txn.CompositeKey(table, 17, stream):                                 {ref{shard: 17, stream: 8}, false},
		txn.OrderedKey(table, 17, nil, []byte{63}):                          {ref{shard: 17, place: 63}, true},
		txn.OrderedKey(table, 17, nil, slices.Concat([]byte{0}, stream)):    {ref{shard: 17, stream: 8}, true},
		txn.OrderedKey(table, 1<<50, nil, slices.Concat([]byte{9}, stream)): {ref{shard: 1 << 50, place: 9, stream: 8}, true},
	} {
		if got := txn.Key(r.appendKey(nil, r.ordered)); got != want {
			t.Errorf("%+v has the key %v, not %v", r, got, want)
		}
		if got, ok := parseKey(want); !ok || got != r.ref {
			t.Errorf("%v names %+v, not %+v", want, got, r.ref)
		}
	}
	for _, k := range []txn.Key{"", txn.StringKey(table, "x"), txn.StringKey(table, "eight or more"), txn.EverywhereKey(table, make([]byte, 8)),
		txn.IntKey(table+1, 1), txn.CompositeKey(table, 1, []byte{1}), txn.OrderedKey(table, 1, nil, nil), txn.OrderedKey(table, 1, []byte("group"), []byte{1}), txn.CompositeKey(table, 1, make([]byte, 4))} {
		if r, ok := parseKey(k); ok {
			t.Errorf("%v names %+v", k, r)
		}
	}
	w := bind(t, defaults("E"), topology(2, 2))
	c := geo.Cell{Home: 1, Partition: 1}
	for want, k := range map[string]ref{
		"record(403)":             refOf(w.placement, true, c, 100, 0),
		"record(403 of stream 7)": refOf(w.placement, true, c, 100, 8),
	} {
		if got := w.KeyName(txn.Key(k.appendKey(nil, true))); got != want {
			t.Errorf("%+v is called %s, not %s", k, got, want)
		}
	}
	if got := w.KeyName(txn.IntKey(table, 3)); got != "t0/3" {
		t.Errorf("a key without a group is called %s", got)
	}
}

// Two streams insert different records into the same cell, and each stream reads its inserted records once they are
// committed.
func TestInserts(t *testing.T) {
	for _, preset := range []v1alpha1.YCSBPreset{"D", "E"} {
		spec := defaults(preset)
		spec.Preset, spec.Mix = "", &v1alpha1.YCSBMix{Insert: 50, Read: 50}
		if preset == "E" {
			spec.Mix.Read, spec.Mix.Scan = 40, 10
		}
		spec.Distribution, spec.Records = v1alpha1.YCSBLatest, 100
		top := topology(1, 1)
		w := bind(t, spec, top)
		st := workloadtest.New(t, Procedures()...).Load(w, top)
		seen := map[ref]uint32{}
		own := 0
		for stream := range uint32(2) {
			g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: stream})
			committed := map[ref]bool{}
			for i := range 400 {
				tx := &txn.Transaction{ID: txn.MakeID(stream, uint64(i+1))}
				g.Next(0, 0, tx)
				o := args(tx.Args).operation(0)
				switch {
				case o.kind == opInsert:
					if other, ok := seen[o.ref]; ok {
						t.Fatalf("streams %d and %d insert %+v", other, stream, o.ref)
					}
					seen[o.ref] = stream
					if i%5 == 0 {
						g.Done(0, txn.Outcome{ID: tx.ID, Status: txn.Refused})
						continue
					}
					committed[o.ref] = true
				case o.kind == opRead && o.stream > 0:
					own++
					if !committed[o.ref] {
						t.Fatalf("%+v is read, which is not known to be there", o.ref)
					}
				}
				out := st.Run(tx)
				if out.Status != txn.Committed {
					t.Fatal(out)
				}
				g.Done(0, out)
			}
		}
		if own < 100 {
			t.Errorf("%d reads of the stream's own records", own)
		}
	}
}

// A scan at the end of a cell finds the records that any stream inserted there.
func TestScanMeetsInserts(t *testing.T) {
	spec := defaults("E")
	spec.Records, spec.FieldCount, spec.FieldBytes = 100, 1, 1
	top := topology(1, 1)
	w := bind(t, spec, top)
	st := workloadtest.New(t, scannable).Load(w, top)
	c := geo.Cell{}
	scan := func(from, length uint64) []byte {
		g := w.newGenerator(workload.GeneratorConfig{Clients: 1})
		g.addScan(position{c, from, 0}, length)
		tx := &txn.Transaction{ID: 1}
		scannable.Call(tx, encode(1, 1, 99, g.operations, nil))
		o := st.Run(tx)
		if o.Status != txn.Committed {
			t.Fatal(o)
		}
		return o.Result
	}
	if got := len(scan(60, 100)); got != 40 {
		t.Errorf("a scan from 60 on meets %d records", got)
	}
	for i, stream := range []uint32{3, 1, 2} {
		for _, n := range []uint64{100, 127, 128} {
			o := operation{opInsert, allFields, refOf(w.placement, true, c, n, stream)}
			tx := &txn.Transaction{ID: txn.ID(stream)}
			scannable.Call(tx, encode(1, 1, uint64(tx.ID), []operation{o}, append(make([]byte, headerSize), byte(10*n)+byte(stream))))
			if out := st.Run(tx); out.Status != txn.Committed {
				t.Fatal(i, out)
			}
		}
	}
	tail := scan(100, 100)
	var want []byte
	for _, n := range []int{100, 127, 128} {
		for stream := range byte(3) {
			want = append(want, byte(10*n)+stream+1)
		}
	}
	if !bytes.Equal(tail, want) {
		t.Errorf("the scan finds %d, want %d", tail, want)
	}
	if got := len(scan(60, 67)); got != 40+3 {
		t.Errorf("a scan of 67 places from 60 on meets %d records", got)
	}
}

// encode returns encoded arguments.
func encode(fields, fieldBytes int, writer uint64, operations []operation, payload []byte) args {
	b := appendHead(nil, len(operations), fields, fieldBytes, writer)
	for _, o := range operations {
		b = appendOperation(b, o)
	}
	return append(b, payload...)
}

func TestOperations(t *testing.T) {
	top := topology(1, 1)
	spec := defaults("A")
	spec.FieldCount, spec.FieldBytes, spec.Records = 2, 3, 10
	w := bind(t, spec, top)
	at := func(n uint64) ref { return refOf(w.placement, false, geo.Cell{}, n, 0) }
	initial := map[uint64]string{}
	plain := workloadtest.New(t, points).Load(w, top)
	for n := range uint64(10) {
		r, _ := plain.Get(txn.IntKey(table, n))
		initial[n] = string(r.Value[headerSize:])
	}
	for name, c := range map[string]struct {
		operations []operation
		payload    string
		result     string
		n          uint64 // the record to look at
		counter    uint64
		writer     uint64
		fields     string
		modes      []txn.Mode
	}{
		"read":                         {[]operation{{opRead, allFields, at(4)}}, "", initial[4], 4, 0, 0, initial[4], []txn.Mode{txn.Read}},
		"update of a field":            {[]operation{{opUpdate, 1, at(4)}}, "new", "", 4, 1, 9, initial[4][:3] + "new", []txn.Mode{txn.ReadWrite}},
		"update of all fields":         {[]operation{{opUpdate, allFields, at(4)}}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09newnew", "", 4, 0, 9, "newnew", []txn.Mode{txn.Write}},
		"read-modify-write of a field": {[]operation{{opReadModifyWrite, 0, at(4)}}, "new", initial[4], 4, 1, 9, "new" + initial[4][3:], []txn.Mode{txn.ReadWrite}},
		"read-modify-write of all":     {[]operation{{opReadModifyWrite, allFields, at(4)}}, "newnew", initial[4], 4, 1, 9, "newnew", []txn.Mode{txn.ReadWrite}},
		"insert":                       {[]operation{{opInsert, allFields, at(10)}}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09newnew", "", 10, 0, 9, "newnew", []txn.Mode{txn.Write}},
		"one record several times": {[]operation{{opRead, allFields, at(4)}, {opRead, allFields, at(5)}, {opReadModifyWrite, 0, at(4)}, {opUpdate, 1, at(4)}, {opRead, allFields, at(4)}},
			"newest", initial[4] + initial[5] + initial[4] + "newest", 4, 2, 9, "newest", []txn.Mode{txn.ReadWrite, txn.Read}},
	} {
		t.Run(name, func(t *testing.T) {
			st := workloadtest.New(t, points).Load(w, top)
			tx := &txn.Transaction{ID: 1}
			points.Call(tx, encode(2, 3, 9, c.operations, []byte(c.payload)))
			var modes []txn.Mode
			for _, a := range tx.Accesses {
				modes = append(modes, a.Mode)
			}
			o := st.Run(tx)
			r, _ := st.Get(txn.IntKey(table, c.n))
			if o.Status != txn.Committed || string(o.Result) != c.result || !slices.Equal(modes, c.modes) {
				t.Errorf("%v %s with %q, want %q; modes %v, want %v", o.Status, o.Reason, o.Result, c.result, modes, c.modes)
			}
			if counter(r.Value) != c.counter || writer(r.Value) != c.writer || string(r.Value[headerSize:]) != c.fields {
				t.Errorf("the record is %q, want %q", r.Value, c.fields)
			}
		})
	}
	t.Run("no record", func(t *testing.T) {
		tx := &txn.Transaction{ID: 1}
		points.Call(tx, encode(2, 3, 9, []operation{{opRead, allFields, at(10)}}, nil))
		if o := workloadtest.New(t, points).Load(w, top).Run(tx); o.Status != txn.Aborted || o.Reason != string(abortNoRecord) {
			t.Error(o)
		}
	})
}

// choices counts how often the draws of a pool choose each record number.
func choices(w *YCSB, draws int) map[uint64]int {
	g := w.newGenerator(workload.GeneratorConfig{})
	got := map[uint64]int{}
	for range draws {
		got[g.pools[0].choose(false).n]++
	}
	return got
}

// TestDistributions checks that the record of each rank is chosen with the frequency of the distribution. Without
// ordered keys, the rank of a record follows from its number; with ordered keys, the ranks are scattered over the
// records.
func TestDistributions(t *testing.T) {
	const n, draws = 1000, 200_000
	for name, c := range map[string]struct {
		distribution v1alpha1.YCSBDistribution
		theta        int32
		weight       func(rank int) float64 // from 0
		number       func(rank int) uint64
	}{
		"uniform": {v1alpha1.YCSBUniform, 99, func(int) float64 { return 1 }, func(r int) uint64 { return uint64(r) }},
		"zipfian": {v1alpha1.YCSBZipfian, 99, func(r int) float64 { return math.Pow(float64(r+1), -0.99) }, func(r int) uint64 { return uint64(r) }},
		"steep":   {v1alpha1.YCSBZipfian, 150, func(r int) float64 { return math.Pow(float64(r+1), -1.5) }, func(r int) uint64 { return uint64(r) }},
		"latest":  {v1alpha1.YCSBLatest, 99, func(r int) float64 { return math.Pow(float64(r+1), -0.99) }, func(r int) uint64 { return uint64(n - 1 - r) }},
		"hotspot": {v1alpha1.YCSBHotspot, 99, func(r int) float64 {
			if r < n/5 {
				return 80.0 / (n / 5)
			}
			return 20.0 / (n - n/5)
		}, func(r int) uint64 { return uint64(r) }},
	} {
		t.Run(name, func(t *testing.T) {
			spec := defaults("C")
			spec.Records, spec.Distribution, spec.ThetaPercent = n, c.distribution, c.theta
			got := choices(bind(t, spec, topology(1, 1)), draws)
			sum := 0.0
			for r := range n {
				sum += c.weight(r)
			}
			chi := 0.0
			for r := range n {
				want := c.weight(r) / sum * draws
				chi += (float64(got[c.number(r)]) - want) * (float64(got[c.number(r)]) - want) / want
			}
			if off := (chi - (n - 1)) / math.Sqrt(2*(n-1)); off > 5 {
				t.Errorf("chi-square is %.1f standard deviations too large", off)
			}

			spec.Preset, spec.Mix = "", &v1alpha1.YCSBMix{Scan: 100}
			ordered := choices(bind(t, spec, topology(1, 1)), draws)
			if c.distribution == v1alpha1.YCSBZipfian {
				a, b := slices.Sorted(maps.Values(got)), slices.Sorted(maps.Values(ordered))
				if !slices.Equal(a, b) {
					t.Error("the order of records changes how popular they are")
				}
				hot := map[uint64]int{} // records by group
				for number, count := range ordered {
					if count > draws/100 {
						hot[number/groupSize]++
					}
				}
				if most := slices.Max(slices.Collect(maps.Values(hot))); most > 2 || len(hot) < 6 {
					t.Errorf("the hottest records with an order are in groups %v", hot)
				}
			}
		})
	}
}

// TestOneHotPerHome runs SunStorm's read-modify-write microbenchmark. The transaction uses one hot record of each home
// that it touches. The operations are distributed evenly over the homes, and types count the homes.
func TestOneHotPerHome(t *testing.T) {
	spec := defaults("")
	spec.Preset, spec.Mix = "", &v1alpha1.YCSBMix{Read: 50, ReadModifyWrite: 50}
	spec.Distribution, spec.HotRecords, spec.OperationsPerTransaction = v1alpha1.YCSBOneHotPerHome, new(int64(100)), 8
	spec.MultiHomePercent, spec.HomesThetaPercent, spec.WriteAllFields = 50, new(int32(260)), true
	top := topology(4, 2)
	w := bind(t, spec, top)
	n, types := 0, make([]int, len(w.Types()))
	hottest := map[uint64]int{}
	workloadtest.Shares(t, workloadtest.Bind(t, New, spec, top, Procedures()), 5000, func(_ geo.Region, tx *txn.Transaction, r workload.Request) {
		operations, hot := map[geo.Region]int{}, map[geo.Region]int{}
		a := args(tx.Args)
		for i := range a.operations() {
			c, number := w.placement.Locate(a.operation(i).shard)
			operations[c.Home]++
			if number < 100 {
				hot[c.Home]++
				hottest[number]++
			}
		}
		for home, count := range operations {
			if hot[home] != 1 || count < 8/len(operations) || count > (8+len(operations)-1)/len(operations) {
				t.Fatalf("operations by home %v, on hot records %v", operations, hot)
			}
		}
		if want := min(len(operations), 3) - 1; int(r.Type) != want || r.Class.MultiHome() != (want > 0) {
			t.Fatalf("type %d, class %v with %d homes", r.Type, r.Class, len(operations))
		}
		types[r.Type]++
		n++
	})
	if len(hottest) != 100 {
		t.Errorf("%d of 100 hot records were chosen", len(hottest))
	}
	two := 1 / (1 + math.Pow(2, -2.6) + math.Pow(3, -2.6))
	for i, p := range []float64{0.5, 0.5 * two, 0.5 * (1 - two)} {
		workloadtest.NearShare(t, w.Types()[i], types[i], n, p)
	}
}

// TestAnywhere checks that with locality None the realised shares match the computed shares.
func TestAnywhere(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.YCSB){
		"single": func(s *v1alpha1.YCSB) {},
		"two":    func(s *v1alpha1.YCSB) { s.OperationsPerTransaction = 2 },
		"steep":  func(s *v1alpha1.YCSB) { s.OperationsPerTransaction, s.ThetaPercent = 3, 200 },
		"ten":    func(s *v1alpha1.YCSB) { s.OperationsPerTransaction, s.Distribution = 10, v1alpha1.YCSBUniform },
		"scans":  func(s *v1alpha1.YCSB) { s.OperationsPerTransaction, s.Preset, s.ThetaPercent = 2, "E", 150 },
		"few":    func(s *v1alpha1.YCSB) { s.OperationsPerTransaction, s.Records = 2, 7 },
	} {
		t.Run(name, func(t *testing.T) {
			spec := defaults("A")
			spec.Locality = v1alpha1.YCSBAnywhere
			change(&spec)
			top := topology(3, 2)
			w := bind(t, spec, top)
			st := workloadtest.New(t, Procedures()...).Load(w, top)
			g := w.NewGenerator(workload.GeneratorConfig{Clients: 1, Stream: 3, Region: 1})
			const n = 20_000
			st.Play(g, 1, n, 0, nil)
			// A result is invalid if a realised share differs from the configured share by more than one percentage point.
			for i, share := range w.Shares() {
				c := g.Realised()[i]
				if off := math.Abs(1e6*float64(c.Hits)/n - float64(share.ConfiguredPPM)); off > 10_000 || c.Of != n {
					t.Errorf("%s: %d of %d, said to be %d ppm", share.Name, c.Hits, c.Of, share.ConfiguredPPM)
				}
			}
			if failed := st.Verify(w, g.Ledger()); failed != nil {
				t.Error(failed)
			}
		})
	}
}

func FuzzArguments(f *testing.F) {
	for _, preset := range []v1alpha1.YCSBPreset{"A", "D", "E", "F"} {
		spec := defaults(preset)
		spec.OperationsPerTransaction = 5
		tx := &txn.Transaction{ID: 1}
		bind(f, spec, topology(2, 2)).NewGenerator(workload.GeneratorConfig{Clients: 1}).Next(0, 0, tx)
		f.Add(tx.Args)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range Procedures() {
			st := workloadtest.New(t, Procedures()...)
			tx := &txn.Transaction{ID: 1, Proc: p.ID, Args: b}
			if p.Declare(b, &tx.Footprint) != nil {
				continue
			}
			for _, a := range tx.Accesses {
				if !a.Key.Ordered() {
					st.Hash.Load(a.Key, make([]byte, args(b).recordBytes()))
				}
			}
			for _, r := range tx.Ranges {
				st.Hash.Load(r.From, make([]byte, args(b).recordBytes()))
			}
			st.Run(tx)
		}
	})
}
