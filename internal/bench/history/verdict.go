package history

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/isolation"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload"
)

// Anomaly names what is wrong with a history, as Adya and Elle do. A cycle that needs the order of one client's
// transactions has the suffix -process, one that needs the order in real time -realtime.
type Anomaly string

// The anomalies, in the order in which Check looks for them. Adya's definitions are in section 4.2 to 4.4 of his thesis.
const (
	// DuplicateID: two transactions share an id, so the history means nothing.
	DuplicateID Anomaly = "duplicate-id"
	// GarbageRead: a version was read or overwritten that nobody wrote, or a row was found there in a version in which
	// it is missing, or the other way round.
	GarbageRead Anomaly = "garbage-read"
	// PredicateReadMiss: a scan did not meet a row of its range, although that was loaded, and not as a deleted row
	// either.
	PredicateReadMiss Anomaly = "predicate-read-miss"
	// G1a, aborted read: a committed transaction read what an aborted one wrote.
	G1a Anomaly = "G1a"
	// DirtyUpdate: a committed transaction overwrote what an aborted one wrote.
	DirtyUpdate Anomaly = "dirty-update"
	// G1b, intermediate read: a write was read that its transaction overwrote itself.
	G1b Anomaly = "G1b"
	// Internal: a transaction contradicts its own reads and writes.
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
	// GSingle, for example a phantom: the same, and the anti-dependency is that of a predicate, a row that a scan did
	// not meet.
	GSingle Anomaly = "G-single"
	// GNonadjacentItem, for example a long fork: a cycle with several anti-dependencies, no two of which follow each
	// other. Together with GSingleItem, G1 and LostUpdate it is what snapshot isolation rules out: G-SIa or G-SIb for
	// Adya, whichever it is with the start that one assumes of its transactions.
	GNonadjacentItem Anomaly = "G-nonadjacent-item"
	// GNonadjacent: the same with predicates.
	GNonadjacent Anomaly = "G-nonadjacent"
	// G2Item, for example write skew: a cycle with several anti-dependencies.
	G2Item Anomaly = "G2-item"
	// G2: the same with predicates, for example write skew over a range.
	G2 Anomaly = "G2"
)

// Dependency says why one transaction comes before another.
type Dependency uint8

// The dependencies.
const (
	// WW: it wrote a version, and the other overwrote it.
	WW Dependency = iota
	// WR: it wrote a version, and the other read it.
	WR
	// RW, anti-dependency: it read a version, and the other replaced it.
	RW
	// PredicateRW, predicate-anti-dependency: it looked at a range, and the other put a row there that it did not meet.
	PredicateRW
	// Session: its client had the answer before it sent the other.
	Session
	// RealTime: its answer came before the other was sent.
	RealTime
	// link leads from a node that stands for many edges; it is part of the edge that led there.
	link
)

// String returns ww, wr, rw, predicate-rw, process or realtime.
func (d Dependency) String() string {
	return [...]string{"ww", "wr", "rw", "predicate-rw", "process", "realtime", "link"}[min(d, link)]
}

// Step is one edge of a cycle: From comes before To.
type Step struct {
	From, To   txn.ID
	Dependency Dependency
	// Key of the row that the two met at, and Version the one that it is about: written, or read, by From. Empty for
	// orders in time.
	Key     txn.Key
	Version txn.ID
	// Text says it in words.
	Text string
}

// Stats tells what was checked.
type Stats struct {
	Transactions, Committed, Aborted, Unknown int
	// UnknownCommitted are the unknown transactions of which a version was seen, so that they were committed.
	UnknownCommitted int
	Operations, Keys int
	// Edges of the graph by dependency: ww, wr, rw, predicate-rw, process, realtime. Real time has one edge per
	// transaction. One of a scan may stand for many rows.
	Edges [link]int
	// Unordered counts writes that did not say what they overwrote, in rows where several did so: they are known to
	// follow the versions whose order is known, but their order among each other is not.
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
	// Anomaly is the first that was found in the order of the constants. Others may exist beside it.
	Anomaly Anomaly
	// Cycle is the smallest found, each step's To the next one's From. For an anomaly that needs no cycle, it holds the
	// steps that show it.
	Cycle []Step
	// Transactions are those of the explanation, which calls them T1, T2, and so on in this order. They have no Ops.
	Transactions []Witness
	// Explanation is for a person, a few lines.
	Explanation string
	// Holds are the strongest levels that the history has when it does not have Level, in the order of isolation.Levels.
	Holds []isolation.Level
	Stats Stats
}

// Witness is a transaction that shows what is wrong, with the region of its client.
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

// maxWitnesses bounds the transactions that a check tells of.
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
