package history

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Anomaly names a violation in a history, with the names of Adya and Elle. A cycle that needs the order of one client's
// transactions has the suffix -process, and a cycle that needs the real-time order the suffix -realtime.
type Anomaly string

// The anomalies, in the order in which Check looks for them. Adya's definitions are in section 4.2 to 4.4 of his
// thesis.
const (
	// DuplicateID: two transactions share an id, so the history means nothing.
	DuplicateID Anomaly = "duplicate-id"
	// GarbageRead: a transaction read or overwrote a version that was never written. Or it found a row in a version in
	// which the row is missing, or did not find a row that the version contains.
	GarbageRead Anomaly = "garbage-read"
	// PredicateReadMiss: a scan did not meet a row of its range, although that was loaded, and not as a deleted row
	// either.
	PredicateReadMiss Anomaly = "predicate-read-miss"
	// G1a, aborted read: a committed transaction read a version that an aborted transaction wrote.
	G1a Anomaly = "G1a"
	// DirtyUpdate: a committed transaction overwrote a version that an aborted transaction wrote.
	DirtyUpdate Anomaly = "dirty-update"
	// G1b, intermediate read: a write was read that its transaction overwrote itself.
	G1b Anomaly = "G1b"
	// Internal: a transaction contradicts its reads and writes.
	Internal Anomaly = "internal"
	// IncompatibleOrder: two transactions overwrote the same version, so a row has no order of versions.
	IncompatibleOrder Anomaly = "incompatible-order"
	// LostUpdate: two transactions read the same version and both overwrote it.
	LostUpdate Anomaly = "lost-update"
	// G0, write cycle: a cycle of overwritten versions.
	G0 Anomaly = "G0"
	// G1c, circular information flow: a cycle of overwritten and read versions.
	G1c Anomaly = "G1c"
	// GSingleItem, for example read skew: a cycle with one anti-dependency, a version read that another transaction
	// replaced.
	GSingleItem Anomaly = "G-single-item"
	// GSingle, for example a phantom: the same, but the anti-dependency is a predicate's: a scan did not meet a row.
	GSingle Anomaly = "G-single"
	// GNonadjacentItem, for example a long fork: a cycle with several anti-dependencies, no two of which are adjacent.
	// Snapshot isolation rules out it, GSingleItem, G1 and LostUpdate. Adya calls it G-SIa or G-SIb, depending on the
	// assumed starts of its transactions.
	GNonadjacentItem Anomaly = "G-nonadjacent-item"
	// GNonadjacent: the same with predicates.
	GNonadjacent Anomaly = "G-nonadjacent"
	// G2Item, for example write skew: a cycle with several anti-dependencies.
	G2Item Anomaly = "G2-item"
	// G2: the same with predicates, for example write skew over a range.
	G2 Anomaly = "G2"
)

// Dependency is the reason why one transaction precedes another.
type Dependency uint8

// The dependencies.
const (
	// WW: it wrote a version, and the other transaction overwrote it.
	WW Dependency = iota
	// WR: it wrote a version, and the other transaction read it.
	WR
	// RW, anti-dependency: it read a version, and the other transaction replaced it.
	RW
	// PredicateRW, predicate-anti-dependency: it scanned a range, and the other transaction put a row there that the scan
	// did not meet.
	PredicateRW
	// Session: its client had the answer before it sent the other transaction.
	Session
	// RealTime: its answer arrived before the other transaction was sent.
	RealTime
	// link leads from a node that stands for many edges; it is part of the edge that led there.
	link
)

// String returns ww, wr, rw, predicate-rw, process or realtime.
func (d Dependency) String() string {
	return [...]string{"ww", "wr", "rw", "predicate-rw", "process", "realtime", "link"}[min(d, link)]
}

// Step is one edge of a cycle: From precedes To.
type Step struct {
	From, To   txn.ID
	Dependency Dependency
	// Key is the row that both transactions used, and Version the version that From wrote or read. Both are empty for
	// orders in time.
	Key     txn.Key
	Version txn.ID
	// Text says it in words.
	Text string
}

// Stats counts the parts of the checked history.
type Stats struct {
	Transactions, Committed, Aborted, Unknown int
	// UnknownCommitted are the unknown transactions of which a version was seen, so that they were committed.
	UnknownCommitted int
	Operations, Keys int
	// Edges counts the edges of the graph by dependency: ww, wr, rw, predicate-rw, process, realtime. Real time has one
	// edge per transaction. An edge of a scan may stand for many rows.
	Edges [link]int
	// Unordered counts writes that did not report the version that they overwrote, in rows with several such writes. They
	// are known to follow the ordered versions, but their order among each other is unknown.
	Unordered int
	// Unresolved counts reads of missing rows, and rows not met by scans, that may have been not yet there or already
	// deleted.
	Unresolved int
	// Found counts the anomalies that need no cycle.
	Found map[Anomaly]int
	// Cyclic is the number of transactions that are part of a cycle, when Anomaly is a cycle.
	Cyclic int
	// Shortest says that no shorter cycle of the kind exists: the search did not run out of patience.
	Shortest bool
}

// Verdict is what Check found.
type Verdict struct {
	Level  isolation.Level
	Passed bool
	// Anomaly is the first anomaly found in the order of the constants. There may be others.
	Anomaly Anomaly
	// Cycle is the smallest cycle found, each step's To the next step's From. For an anomaly that needs no cycle, it holds
	// the steps that show it.
	Cycle []Step
	// Transactions are the transactions of the explanation, which names them T1, T2, and so on in this order. They have no
	// Ops.
	Transactions []Witness
	// Explanation is for a person, a few lines.
	Explanation string
	// Holds are the strongest levels that the history has when it does not have Level, in the order of isolation.Levels.
	Holds []isolation.Level
	Stats Stats
}

// Witness is a transaction that shows the violation, with the region of its client.
type Witness struct {
	Txn
	Region string
}

// Check returns the verdict as a run's check.
func (v *Verdict) Check() workload.Check {
	c := workload.Check{Name: v.Level.String(), Passed: v.Passed}
	if v.Passed {
		s := &v.Stats
		c.Message = fmt.Sprintf("%d committed transactions with %d operations on %d rows are %v", s.Committed+s.UnknownCommitted,
			s.Operations, s.Keys, v.Level)
		return c
	}
	var holds []string
	for _, l := range v.Holds {
		holds = append(holds, l.String())
	}
	has := ""
	if len(holds) > 0 {
		has = fmt.Sprintf(" (the history is %s)", strings.Join(holds, " and "))
	}
	c.Message = fmt.Sprintf("not %v%s: %s", v.Level, has, v.Explanation)
	c.Cycle = v.cycle()
	return c
}

// maxWitnesses bounds the number of transactions that a check reports.
const maxWitnesses = 100

// cycle returns what shows that the history is wrong; nil where no transaction does.
func (v *Verdict) cycle() *workload.Cycle {
	if len(v.Transactions) == 0 {
		return nil
	}
	c := &workload.Cycle{Transactions: []workload.CycleTransaction{}, Dependencies: []workload.CycleDependency{}}
	names := map[txn.ID]string{}
	for i, w := range v.Transactions[:min(len(v.Transactions), maxWitnesses)] {
		t := workload.CycleTransaction{
			Name: fmt.Sprintf("T%d", i+1), ID: w.ID.String(), Region: w.Region, Client: w.Client, Sent: w.Invoked, Outcome: w.Status.String(),
		}
		if w.Status != txn.Unknown {
			t.Answered = w.Answered
		}
		names[w.ID] = t.Name
		c.Transactions = append(c.Transactions, t)
	}
	for _, s := range v.Cycle {
		if from, to := names[s.From], names[s.To]; from != "" && to != "" && from != to {
			c.Dependencies = append(c.Dependencies, workload.CycleDependency{From: from, To: to, Kind: s.Dependency.String(), Text: s.Text})
		}
	}
	return c
}
