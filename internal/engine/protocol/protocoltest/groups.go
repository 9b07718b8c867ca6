package protocoltest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Sizes of the data of Groups. groupsOf is the number of groups with rows at the start, and groupRows the number of
// rows in each of them.
const (
	groupsOf  = 4
	groupRows = 20
	// appended is the number of further groups, which are empty at first.
	appended = 2
	// Rows suiteRows to sumEnd-1 have the constant sum sum.
	sumEnd = suiteRows + 4
	sum    = (sumEnd - suiteRows) * suiteEach
)

// Groups inserts rows into groups, deletes their first and last rows, and scans groups. At the same time, it runs
// transactions whose rows depend on their reads. At the end, the copies are equal, every transaction is answered, and
// the history has the engine's isolation level.
//
// Some transactions insert after the last row of a group. This exposes an engine that validates only the rows that a
// scan has read, not its range. Other transactions abort themselves when the sum of rows differs from the constant sum,
// with or without declaring the rows. No such outcome may reach a client, even if the engine would not have committed
// the transaction. The reason is that a procedure's own decision depends on its reads.
func Groups(t *testing.T, engine *protocol.Engine, given map[string]string) {
	params := Params(t, engine, given)
	accepted(t, engine, params, []shape{
		{"2x3", func() *geo.Topology { return simload.TwoRegions(3) }},
		{"3x1", func() *geo.Topology { return simload.ThreeRegions(1) }},
		{"2x2x2", func() *geo.Topology { return simload.Topology(2, 2, [][]float64{{0, 20}, {20, 0}}) }},
	}, func(t *testing.T, makeTopology func() *geo.Topology) {
		topology := makeTopology()
		s := sim.New(sim.Config{
			Topology: topology, Engine: engine, Figures: Figures(t), Procedures: simload.Traced, Seed: 1, Params: params, Costs: sim.DefaultCosts, CheckCodec: true,
		})
		recorded := newRecording(s, topology)
		layout := engine.Layout(topology, params)
		simload.FillLayout(layout, sumEnd, suiteEach, s.Store)
		simload.FillGroups(layout, groupsOf, groupRows, s.Store)
		var loads []*simload.Clients
		until := loadTime(engine, topology, params, 1500*time.Millisecond)
		for r := range topology.Regions {
			loads = append(loads, addLoad(recorded, geo.Region(r), 1, simload.Load{Clients: 10, Next: nextGroups, Until: until}))
		}
		s.Run(until)
		quiesce(s, loads, nil)
		answered(t, loads)
		committed := 0
		for r, l := range loads {
			// Every operation of nextGroups declares its rows or an inexact footprint, and no operation fails by itself. Either
			// reason is therefore a defect of the engine.
			if l.Reasons[txn.ReasonUndeclared] > 0 || l.Reasons[txn.ReasonProcedure] > 0 {
				t.Errorf("region %d: %v", r, l.Reasons)
			}
			if n := l.Reasons[simload.ReasonSum]; n > 0 {
				t.Errorf("region %d: %d procedures aborted, and their clients were told, because they saw another sum of rows than there is at any time: "+
					"what they read was not checked before their aborts were answered", r, n)
			}
			committed += l.Outcomes[txn.Committed]
		}
		// Copies are compared only after the last message is handled, because an asynchronous copy may lag until then.
		still(t, s, topology)
		CheckEqual(t, s, layout)
		recorded.check(t, engine.Promises(params))
		looked, stale := Counter(s, topology, "reconnaissances"), Counter(s, topology, "reconnaissances_stale")
		// Without stale reconnaissances, the test would not cover footprints that change after the reconnaissance.
		if params[reconnaissance.Parameter.Name] != "" && (looked == 0 || stale == 0) {
			t.Errorf("%d reconnaissances, %d of them stale: both should occur", looked, stale)
		}
		t.Logf("%d committed, %d reconnaissances, %d stale", committed, looked, stale)
	})
}

func nextGroups(r *rand.Rand) string {
	a, b := r.IntN(groupsOf), r.IntN(groupsOf)
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf("l%d.0-%d l%d.3-9", a, groupRows, b)
	case 1:
		return fmt.Sprintf("o%d p%d.%d=1", a, b, r.IntN(groupRows))
	case 2:
		return fmt.Sprintf("t%d a%d+1", a, r.IntN(suiteRows))
	case 3:
		return fmt.Sprintf("g%d.%d+1 g%d.%d-1", a, r.IntN(groupRows), b, r.IntN(groupRows))
	case 4:
		return fmt.Sprintf("q%d.%d p%d.%d=7", a, r.IntN(groupRows), b, r.IntN(groupRows))
	case 5:
		return fmt.Sprintf("j%d+1", r.IntN(suiteRows))
	case 6:
		return fmt.Sprintf("j%d+1 l%d.0-%d", r.IntN(suiteRows), a, groupRows)
	case 7:
		return fmt.Sprintf("e%d+%d", groupsOf+r.IntN(appended), 1+r.IntN(3))
	case 8:
		from := r.IntN(sumEnd - suiteRows)
		// A transaction that names a row twice is refused as malformed, so the second row must differ from the first.
		to := (from + 1 + r.IntN(sumEnd-suiteRows-1)) % (sumEnd - suiteRows)
		return fmt.Sprintf("a%d-1 a%d+1", suiteRows+from, suiteRows+to)
	case 9:
		return fmt.Sprintf("c%d-%d=%d", suiteRows, sumEnd, sum)
	case 10:
		return fmt.Sprintf("C%d-%d=%d", suiteRows, sumEnd, sum)
	default:
		// The values of rows 0 to 7 decide which row j writes, so these transfers make reconnaissances of j stale.
		return fmt.Sprintf("a%d+1 a%d-1", r.IntN(4), 4+r.IntN(4))
	}
}
