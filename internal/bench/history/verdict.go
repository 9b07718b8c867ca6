package history

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Anomaly is the name of a violation, after Adya and Elle. The suffix -process marks a cycle that needs the order of a
// client's transactions, and -realtime a cycle that needs the real-time order.
type Anomaly string

// The anomalies, in the order in which Check looks for them. Sections 4.2 to 4.4 of Adya's thesis define them.
const (
	// DuplicateID means that two transactions have the same ID. The history is then meaningless.
	DuplicateID Anomaly = "duplicate-id"
	// GarbageRead means that a transaction read or overwrote a version that was never written. It also means that
	// transactions disagree on whether a version contains a row.
	GarbageRead Anomaly = "garbage-read"
	// PredicateReadMiss means that a scan did not find a loaded row of its range, not even as a deleted row.
	PredicateReadMiss Anomaly = "predicate-read-miss"
	// G1a (aborted read) means that a committed transaction read a version that an aborted transaction wrote.
	G1a Anomaly = "G1a"
	// DirtyUpdate means that a committed transaction overwrote a version that an aborted transaction wrote.
	DirtyUpdate Anomaly = "dirty-update"
	// G1b (intermediate read) means that a transaction read a write that the writing transaction itself overwrote.
	G1b Anomaly = "G1b"
	// Internal means that a transaction's reads contradict its own earlier reads and writes.
	Internal Anomaly = "internal"
	// IncompatibleOrder means that two transactions overwrote the same version, so that the versions of a row have no
	// order.
	IncompatibleOrder Anomaly = "incompatible-order"
	// LostUpdate means that two transactions read the same version and both overwrote it.
	LostUpdate Anomaly = "lost-update"
	// G0 (write cycle) is a cycle of overwritten versions.
	G0 Anomaly = "G0"
	// G1c (circular information flow) is a cycle of overwritten and read versions.
	G1c Anomaly = "G1c"
	// GSingleItem (for example read skew) is a cycle with exactly one anti-dependency: a read of a version that another
	// transaction replaced.
	GSingleItem Anomaly = "G-single-item"
	// GSingle (for example a phantom) is GSingleItem with a predicate-anti-dependency: a scan did not find a row that
	// another transaction added.
	GSingle Anomaly = "G-single"
	// GNonadjacentItem (for example a long fork) is a cycle with several anti-dependencies, of which no two are adjacent.
	// Snapshot isolation rules out this anomaly, GSingleItem, G1 and LostUpdate. Adya calls it G-SIa or G-SIb, depending
	// on the assumed starts of its transactions.
	GNonadjacentItem Anomaly = "G-nonadjacent-item"
	// GNonadjacent is GNonadjacentItem with predicate-anti-dependencies.
	GNonadjacent Anomaly = "G-nonadjacent"
	// G2Item (for example write skew) is a cycle with two adjacent anti-dependencies.
	G2Item Anomaly = "G2-item"
	// G2 (for example write skew over a range) is G2Item with predicate-anti-dependencies.
	G2 Anomaly = "G2"
)

// Dependency is the reason why one transaction precedes another.
type Dependency uint8

// The dependencies.
const (
	// WW: the first transaction wrote a version, and the second overwrote it.
	WW Dependency = iota
	// WR: the first transaction wrote a version, and the second read it.
	WR
	// RW (anti-dependency): the first transaction read a version, and the second replaced it.
	RW
	// PredicateRW (predicate-anti-dependency): the first transaction scanned a range, and the second added a row to the
	// range that the scan did not find.
	PredicateRW
	// Session: the client had the answer of the first transaction before it sent the second.
	Session
	// RealTime: the answer of the first transaction arrived before the second was sent.
	RealTime
	// link is an edge from an additional node that represents many edges. It is part of the edge that led to the node.
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
	// Key is the row that both transactions used. Version is the version that From wrote or read. Both are empty for
	// orders in time.
	Key     txn.Key
	Version txn.ID
	// Text describes the step in words.
	Text string
}

// Stats holds counts over the checked history.
type Stats struct {
	Transactions, Committed, Aborted, Unknown int
	// UnknownCommitted counts unknown transactions that must have committed, because another transaction observed one of
	// their versions.
	UnknownCommitted int
	Operations, Keys int
	// Edges counts the edges of the graph by dependency: ww, wr, rw, predicate-rw, process, realtime. Real time has one
	// edge per transaction. A single edge of a scan may represent many rows.
	Edges [link]int
	// Unordered counts writes without a report of the overwritten version, for rows with several such writes. They follow
	// the ordered versions, but their relative order is unknown.
	Unordered int
	// Unresolved counts reads of missing rows, and rows that scans did not find, for which two explanations are
	// possible. Either the row did not exist yet, or it had been deleted.
	Unresolved int
	// Found counts the anomalies that need no cycle.
	Found map[Anomaly]int
	// Cyclic is the number of transactions in cycles of the reported kind, if Anomaly is a cycle.
	Cyclic int
	// Shortest is set if the search completed, so that no shorter cycle of this kind exists.
	Shortest bool
}

// Verdict is the result of Check.
type Verdict struct {
	Level  isolation.Level
	Passed bool
	// Anomaly is the first anomaly found, in the order of the constants. The history may contain further anomalies.
	Anomaly Anomaly
	// Cycle is the smallest cycle found; To of each step is From of the next. For an anomaly that needs no cycle, it
	// holds the steps that prove it.
	Cycle []Step
	// Transactions are the transactions of the explanation, which calls them T1, T2, and so on in this order. They have
	// no Ops.
	Transactions []Witness
	// Explanation explains the anomaly in a few lines of text.
	Explanation string
	// Holds are the strongest levels that the history satisfies if it does not satisfy Level, in the order of
	// isolation.Levels.
	Holds []isolation.Level
	Stats Stats
}

// Witness is a transaction that is part of the violation, with the region of its client.
type Witness struct {
	Txn
	Region string
}

// Check returns the verdict in the form of a run's check.
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

// maxWitnesses is the maximum number of transactions that a check reports.
const maxWitnesses = 100

// cycle returns the transactions and dependencies that prove the violation; nil if no transaction does.
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
		// Transactions beyond maxWitnesses have no name, so their dependencies are omitted.
		if from, to := names[s.From], names[s.To]; from != "" && to != "" && from != to {
			c.Dependencies = append(c.Dependencies, workload.CycleDependency{From: from, To: to, Kind: s.Dependency.String(), Text: s.Text})
		}
	}
	return c
}
