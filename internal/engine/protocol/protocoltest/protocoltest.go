// Package protocoltest tests protocols in the simulator. Its traces show the messages of a protocol and can be compared
// with the paper. Its suites run transactions that move money between a few contended rows. They verify that copies are
// equal and that readers see a consistent database.
package protocoltest

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/audit"
	"github.com/geobench/geobench/internal/bench/history"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// Params resolves an engine's parameters.
func Params(t testing.TB, engine *protocol.Engine, given map[string]string) protocol.Params {
	t.Helper()
	p, errs := engine.Resolve(given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return p
}

// Transfers returns a generator of operations that move money between a few contended rows, read some rows, and
// occasionally abort or fail. The operations keep the sum of all rows constant.
func Transfers(rows int) func(*rand.Rand) string {
	return func(r *rand.Rand) string {
		row := func() int {
			// Half of all accesses go to 8 rows, so that transactions conflict.
			if r.IntN(2) == 0 {
				return r.IntN(8)
			}
			return r.IntN(rows)
		}
		var used []int
		fresh := func() int {
			// KV refuses a transaction that names a row twice, so draw again until the row is new.
		again:
			n := row()
			for _, u := range used {
				if u == n {
					goto again
				}
			}
			used = append(used, n)
			return n
		}
		amount := 1 + r.IntN(30)
		switch r.IntN(10) {
		case 0:
			return fmt.Sprintf("r%d r%d r%d", fresh(), fresh(), fresh())
		case 1:
			return fmt.Sprintf("r%d", fresh())
		case 2:
			return fmt.Sprintf("x%d a%d+1", fresh(), fresh())
		case 3:
			return fmt.Sprintf("r%d s%d-%d a%d+%d", fresh(), fresh(), amount, fresh(), amount)
		case 4:
			return fmt.Sprintf("s%d-%d a%d+%d a%d+%d r%d", fresh(), 2*amount, fresh(), amount, fresh(), amount, fresh())
		default:
			return fmt.Sprintf("s%d-%d a%d+%d", fresh(), amount, fresh(), amount)
		}
	}
}

// CheckCopies fails unless all live nodes of each shard hold the same rows, and no other rows. All shards together must
// have the given sum.
func CheckCopies(t *testing.T, s *sim.Sim, layout geo.Layout, sum int64) {
	t.Helper()
	type shard struct {
		node   geo.NodeID
		digest uint64
		sum    int64
	}
	seen := map[int]shard{}
	for n := range geo.NodeID(layout.Topology.Nodes()) {
		// A crashed node has missed the writes after its crash.
		if s.Node(n).Dead {
			continue
		}
		name := layout.Topology.NodeName(n)
		held := map[int]shard{}
		for _, i := range layout.ShardsOf(n) {
			held[i] = shard{node: n}
		}
		s.Store(n).Each(func(k txn.Key, r store.Record) {
			i := layout.Shard(k)
			h, mine := held[i]
			if !mine {
				t.Errorf("node %s holds row %v of %s", name, k, layout.ShardName(i))
			}
			h.digest += store.DigestRow(k, r.Value)
			// Traced procedures add a stamp to each value, and keep a deleted row with a mark. A deleted row does not count
			// toward the sum.
			if value, there := history.Plain(k, r.Value); there {
				h.sum += simload.Value(store.Record{Value: value})
			}
			held[i] = h
		})
		for _, i := range layout.ShardsOf(n) {
			// The first live copy of a shard represents the shard in the sum. All other copies must equal it.
			if first, ok := seen[i]; !ok {
				seen[i] = held[i]
			} else if first.digest != held[i].digest {
				t.Errorf("node %s holds other rows of %s than node %s", name, layout.ShardName(i), layout.Topology.NodeName(first.node))
			}
		}
	}
	var got int64
	for _, h := range seen {
		got += h.sum
	}
	// A shard without a live copy is missing in seen, and its rows are missing in the sum.
	if got != sum || len(seen) != layout.Shards() {
		t.Errorf("%d of %d shards hold %d, want %d", len(seen), layout.Shards(), got, sum)
	}
}

// CheckEqual fails unless the copies of each shard are equal.
func CheckEqual(t *testing.T, s *sim.Sim, l geo.Layout) {
	t.Helper()
	var a audit.Audits
	for n := range geo.NodeID(l.Topology.Nodes()) {
		a.Nodes = append(a.Nodes, audit.Digests(n, &l, s.Store(n), false))
	}
	if c := audit.Converged(&l, a); !c.Passed {
		t.Error(c.Message)
	}
}

// Auditor is a client that repeatedly reads all rows in one transaction. Transfers keep the sum constant, so an audit
// with a different sum has seen a partial transaction. Each audit also adds 1 to a row that only this auditor writes.
// It checks that the row has grown by 1 after the previous answer. This shows that no answered transaction is lost or
// executed twice. An audit that aborts because of other transactions is retried.
type Auditor struct {
	// Sent is the number of audits sent, without retries. Seen is the number of answered audits. Reasons is the number of
	// failed attempts by reason.
	Sent, Seen int
	Reasons    map[string]int

	t      *testing.T
	env    protocol.ClientEnv
	stream uint32
	sent   uint64
	tries  uint8 // number of attempts of the current audit that have failed
	open   bool  // an audit is in flight or will be retried
	ops    string
	rows   int
	sum    int64
	until  time.Duration
}

// eagerAudits is the number of audits that run without pauses, like eager transactions. An audit reads as many rows as
// about twenty transfers.
const eagerAudits = 150

// AddAuditor adds an auditor of rows 0 to rows-1, whose sum is sum, to a region. The row that only this auditor writes
// has the number rows plus the region's number. Audits start until time until, without pauses at first. A started audit
// is retried until it commits, and the auditor continues until it has seen leastAudits. In an engine that aborts large
// transactions in favor of others, no audit commits before the other transactions have finished.
func AddAuditor(t *testing.T, s simload.World, region geo.Region, rows int, sum int64, until time.Duration) *Auditor {
	a := &Auditor{t: t, Reasons: map[string]int{}, stream: uint32(region) + 1000, rows: rows, sum: sum, until: until}
	var ops strings.Builder
	for i := range rows {
		fmt.Fprintf(&ops, "r%d ", i)
	}
	fmt.Fprintf(&ops, "a%d+1", rows+int(region))
	a.ops = ops.String()
	s.AddClient(region, func(env protocol.ClientEnv) protocol.Client {
		a.env = env
		return a
	})
	return a
}

// Start implements protocol.Client.
func (a *Auditor) Start() { a.Fire(protocol.Timer{}) }

// Fire implements protocol.Client.
func (a *Auditor) Fire(protocol.Timer) {
	if a.open = a.env.Now() < a.until || a.tries > 0 || a.Seen < leastAudits; a.open {
		if a.tries == 0 {
			a.Sent++
		}
		a.sent++
		audit := simload.Txn(txn.MakeID(a.stream, a.sent), a.ops)
		audit.Attempt = a.tries
		a.env.Submit(audit)
	}
}

// Complete implements protocol.Client.
func (a *Auditor) Complete(o txn.Outcome) {
	if o.Status == txn.Aborted && o.Cause == txn.CauseConflict {
		a.tries++
		a.Reasons[o.Reason]++
		a.env.After(time.Millisecond, protocol.Timer{})
		return
	}
	a.Seen++
	a.tries = 0
	var sum int64
	words := strings.Fields(string(o.Result))
	// The operations of an audit never abort or fail, so every outcome except a conflict must be Committed.
	if o.Status != txn.Committed || len(words) != a.rows+1 {
		a.t.Errorf("audit %v: %v %s %s", o.ID, o.Status, o.Reason, o.Result)
		// This auditor stops here, so quiesce must not wait for it.
		a.open = false
		return
	}
	for i, word := range words {
		_, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			a.t.Errorf("audit %v: %v", o.ID, err)
		}
		// The last value is from the row that only this auditor writes. That row starts at 0, and Seen already counts this
		// audit.
		if i < a.rows {
			sum += n
		} else if n != int64(a.Seen) {
			a.t.Errorf("audit %v: its own row is %d, want %d", o.ID, n, a.Seen)
		}
	}
	if sum != a.sum {
		a.t.Errorf("audit %v saw a sum of %d, want %d: %s", o.ID, sum, a.sum, o.Result)
	}
	think := time.Millisecond
	if a.Seen >= eagerAudits {
		think = restful(a.until)
	}
	a.env.After(think, protocol.Timer{})
}
