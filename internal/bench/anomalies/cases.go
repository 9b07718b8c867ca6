package anomalies

import (
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/bench/history"
)

// Case is an anomaly, in the form of a few small transactions.
type Case struct {
	// Name is a short name for tables and documents, Class is the name in the literature, and Says describes the anomaly
	// from a client's view.
	Name, Class, Says string
	// Level is the weakest level that rules the anomaly out.
	Level isolation.Level
	// anomalies are the names that the checker may report for a history of these transactions in which the anomaly
	// occurred.
	anomalies []history.Anomaly
	// reader, if not 0, is the index of the first transaction whose reads decide, instead of the checker, whether the
	// anomaly occurred: see play.reversed.
	reader int
	txns   []step
	// steps is the order of the statements for databases that accept statements one by one: see script.Steps.
	steps string
	// dangers are alternative overlaps of transactions; each of them can cause the anomaly.
	dangers []danger
}

// danger is a set of conflicts, all of which are necessary. The first transaction of a conflict writes a row that the
// second transaction reads or writes.
type danger [][2]int

// replicated reports whether lagging copies cause the anomaly. Transactions that start after the first transaction of a
// conflict can then show the anomaly, too.
func (c *Case) replicated() bool {
	return slices.ContainsFunc(c.anomalies, func(a history.Anomaly) bool {
		return a == history.GNonadjacentItem || strings.HasSuffix(string(a), "-process") || strings.HasSuffix(string(a), "-realtime")
	}) || c.reader > 0
}

// lag returns the time after the answer to a write during which other transactions may not see the write. longest is
// the longest round trip of the network.
func (c *Case) lag(longest time.Duration) time.Duration {
	if c.replicated() {
		return longest
	}
	return 0
}

// step is a transaction of a case.
type step struct {
	// client is the number of the client that sends the transaction, after the client's earlier transactions are answered.
	// Each client has a separate region if there are enough regions.
	client int
	// ops are operations of simload.Procedures. X and Y stand for two rows and G for a group, with homes in different
	// regions.
	ops string
	// after lists the transactions, of any client, that must be answered before this transaction is sent.
	after []int
}

// fails reports whether the transaction aborts itself.
func (s *step) fails() bool { return strings.ContainsRune(s.ops, 'x') }

// Cases returns all cases, ordered from weak to strong levels. The caller may modify the slice.
func Cases() []Case { return append([]Case(nil), cases...) }

// The names follow Hermitage (Kleppmann 2014), whose cases are based on Adya's thesis. Further names are from the
// literature on replicated databases.
var cases = []Case{
	{
		Name: "dirty-write", Class: "G0", Says: "of two transactions that write the same two rows each wins one",
		Level: isolation.ReadCommitted, anomalies: []history.Anomaly{history.G0, history.IncompatibleOrder},
		txns:    []step{{client: 0, ops: "wX=1 wY=1"}, {client: 1, ops: "wX=2 wY=2"}, {client: 2, ops: "rX rY", after: []int{0, 1}}},
		steps:   "0 1 1 0 0 1 = 2 2 2",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "aborted-read", Class: "G1a", Says: "somebody reads what a transaction wrote that was aborted",
		Level: isolation.ReadCommitted, anomalies: []history.Anomaly{history.G1a, history.DirtyUpdate},
		txns:    []step{{client: 0, ops: "wX=1 xY"}, {client: 1, ops: "rX"}, {client: 2, ops: "aX+1"}},
		steps:   "0 1 1 2 2 0 0 2",
		dangers: []danger{{{0, 1}}, {{0, 2}}},
	},
	{
		Name: "intermediate-read", Class: "G1b", Says: "somebody reads a value that its transaction overwrote itself",
		Level: isolation.ReadCommitted, anomalies: []history.Anomaly{history.G1b},
		txns:    []step{{client: 0, ops: "pG.1=1 aX+1 pG.1=2"}, {client: 1, ops: "lG.0-9 rX"}},
		steps:   "0 1 0 0 0 0 1 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "circular-information-flow", Class: "G1c", Says: "each of two transactions reads what the other wrote",
		Level: isolation.ReadCommitted, anomalies: []history.Anomaly{history.G1c},
		txns:    []step{{client: 0, ops: "wX=1 rY"}, {client: 1, ops: "wY=1 rX"}},
		steps:   "0 1 0 1 0 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "observed-transaction-vanishes", Class: "OTV", Says: "a reader sees one row of a transaction, and the other as it was before",
		Level: isolation.SnapshotIsolation, anomalies: []history.Anomaly{history.GSingleItem, history.G1c},
		txns:    []step{{client: 0, ops: "wX=1 wY=1"}, {client: 1, ops: "wY=2 wX=2"}, {client: 2, ops: "rX rY"}},
		steps:   "0 0 1 0 = 2 2 1 1 2",
		dangers: []danger{{{0, 1}, {0, 2}, {1, 2}}},
	},
	{
		Name: "predicate-many-preceders", Class: "PMP", Says: "a scan misses a row of a transaction whose other row is seen",
		Level: isolation.SnapshotIsolation, anomalies: []history.Anomaly{history.GSingle, history.GSingleItem},
		txns:    []step{{client: 0, ops: "lG.0-9 rY"}, {client: 1, ops: "pG.1=1 wY=1"}},
		steps:   "0 1 1 1 = 0 0",
		dangers: []danger{{{1, 0}}},
	},
	{
		Name: "lost-update", Class: "P4", Says: "two transactions add to the same row, and one addition is lost",
		Level: isolation.SnapshotIsolation, anomalies: []history.Anomaly{history.LostUpdate},
		txns:    []step{{client: 0, ops: "aX+1"}, {client: 1, ops: "aX+1"}},
		steps:   "0 1 0 0 = 1 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "read-skew", Class: "G-single", Says: "a reader sees one row before and the other after a transfer between them",
		Level: isolation.SnapshotIsolation, anomalies: []history.Anomaly{history.GSingleItem},
		txns:    []step{{client: 0, ops: "rX rY"}, {client: 1, ops: "aX-1 aY+1"}},
		steps:   "0 1 1 1 1 1 = 0 0",
		dangers: []danger{{{1, 0}}},
	},
	{
		Name: "long-fork", Class: "G-nonadjacent", Says: "two readers see two independent writes in opposite orders",
		Level: isolation.SnapshotIsolation, anomalies: []history.Anomaly{history.GNonadjacentItem},
		txns:    []step{{client: 0, ops: "wX=1"}, {client: 1, ops: "wY=1"}, {client: 2, ops: "rX rY"}, {client: 3, ops: "rY rX"}},
		steps:   "0 1 0 1 2 3 2 3 2 3",
		dangers: []danger{{{0, 2}, {1, 2}, {0, 3}, {1, 3}}},
	},
	{
		Name: "lost-own-write", Class: "read your writes", Says: "a client does not see what it has written itself",
		Level: isolation.SessionSnapshotIsolation, anomalies: []history.Anomaly{history.GSingleItem + "-process"},
		txns:    []step{{client: 0, ops: "wX=1"}, {client: 0, ops: "rX"}},
		steps:   "0 0 1 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "reads-go-back", Class: "monotonic reads", Says: "a client sees a write, and later does not see it any more",
		Level: isolation.SessionSnapshotIsolation, anomalies: []history.Anomaly{history.GSingleItem + "-process"},
		txns:    []step{{client: 0, ops: "wX=1"}, {client: 1, ops: "rX"}, {client: 1, ops: "rX"}, {client: 1, ops: "rX"}},
		steps:   "0 1 1 0 2 2 3 3",
		dangers: []danger{{{0, 1}, {0, 2}}, {{0, 2}, {0, 3}}},
	},
	{
		Name: "stale-read", Class: "real time", Says: "a write was answered, and a client elsewhere that asks afterwards does not see it",
		Level: isolation.StrongSnapshotIsolation, anomalies: []history.Anomaly{history.GSingleItem + "-realtime"},
		txns:    []step{{client: 0, ops: "wX=1"}, {client: 1, ops: "rX", after: []int{0}}},
		steps:   "0 0 1 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "causal-reverse", Class: "real time", Says: "a reader sees a write, and not another one that was answered before that one was sent",
		Level: isolation.StrongSnapshotIsolation, reader: 2,
		txns: []step{{client: 0, ops: "wX=1"}, {client: 1, ops: "wY=1", after: []int{0}}, {client: 2, ops: "rX rY"},
			// If a nearby replica answers the reads, the first reader finishes before the second write is sent.
			{client: 3, ops: "rX rY", after: []int{0}}},
		steps:   "2 0 0 3 1 1 2 3 2 3",
		dangers: []danger{{{0, 2}, {1, 2}}, {{0, 3}, {1, 3}}},
	},
	{
		Name: "write-skew", Class: "G2-item", Says: "each of two transactions reads two rows and writes another one of them",
		Level: isolation.Serializable, anomalies: []history.Anomaly{history.G2Item},
		txns:    []step{{client: 0, ops: "rX aY+1"}, {client: 1, ops: "rY aX+1"}},
		steps:   "0 1 0 1 0 0 = 1 1",
		dangers: []danger{{{0, 1}}},
	},
	{
		Name: "predicate-write-skew", Class: "G2", Says: "each of two transactions scans a range and inserts a row that the other did not meet",
		Level: isolation.Serializable, anomalies: []history.Anomaly{history.G2},
		txns:    []step{{client: 0, ops: "lG.0-9 pG.1=1"}, {client: 1, ops: "lG.0-9 pG.2=1"}},
		steps:   "0 1 0 0 = 1 1",
		dangers: []danger{{{0, 1}}},
	},
}
