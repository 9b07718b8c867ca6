// Package isolation names isolation levels: what a database promises of every history that its clients can record, and
// what package history checks of one.
//
// A level is judged by what clients see: which versions of which rows a committed transaction read and overwrote, and
// when it was sent and answered. A history has a level when some execution that the level's definition allows explains
// it. Where the definition speaks of what no client sees, such as the instant at which a transaction took its
// snapshot, any instant will do that the level does not rule out. Crooks et al. define levels in this way and find
// many that are told apart by their definitions to be the same to clients.
//
// A level says two things, and each is a chain from weak to strong.
//
// What a transaction works on:
//
//   - read committed: versions that are committed and final, and information flows in no circle. Adya's PL-2.
//   - snapshot: a transaction reads from one state that committed transactions have left behind, taken before it
//     commits, and commits only when nobody else has overwritten in between what it overwrites (Berenson et al.,
//     section 4.2; the first committer wins). This is Adya's PL-SI with the order of starts left open, what Elnikety
//     et al. call generalized snapshot isolation with real time left out, and Crooks' Adya SI.
//   - serial: a transaction reads the very state that it commits on. Adya's PL-3.
//
// Each implies the one before. A serial execution is one of snapshots: a transaction starts when the one before it has
// committed. Snapshots satisfy PL-2: whatever a transaction reads or overwrites was committed before it started, so
// information flows forward in time only. For Adya, PL-SI and PL-3 are incomparable, and that is no contradiction: a
// history of his comes with the order of starts and commits, so that PL-SI can hold against a serializable history
// that a transaction saw what was committed after its start. Clients do not see that start, and one that is late
// enough explains what they saw. Berenson et al. call snapshot isolation incomparable with repeatable read, which is
// no level here.
//
// Which order in time it agrees with, where a transaction is sent after the answer to another has come:
//
//   - none.
//   - session: of the same client. What it sends later sees the state that the earlier transaction left, or a later
//     one: it sees its own writes, and never goes back. Strong session snapshot isolation (Daudjee and Salem 2006;
//     with Cerone and Gotsman snapshot isolation always has it; Elnikety et al. call it prefix-consistent) and
//     strong session serializability (Daudjee and Salem 2004).
//   - real time: of any clients. Strong snapshot isolation (Daudjee and Salem 2006), which is conventional snapshot
//     isolation seen from outside, and strict serializability (Papadimitriou 1979; Herlihy and Wing 1990).
//
// Each implies the one before, since a client has its answer before it sends again. With snapshots, an order in time
// says that the later one's snapshot is taken after the earlier one has committed; with serial transactions, that its
// place is later.
//
// So a level implies another exactly when it is at least as strong in both. That is a partial order:
//
//	StrictSerializable ------> SessionSerializable ------> Serializable
//	        |                          |                        |
//	        v                          v                        v
//	StrongSnapshotIsolation -> SessionSnapshotIsolation -> SnapshotIsolation -> ReadCommitted
//
// Levels that it leaves unordered are: StrongSnapshotIsolation allows write skew, which Serializable and
// SessionSerializable rule out, and these allow stale reads, which it rules out; the same goes for
// SessionSnapshotIsolation and Serializable.
//
// Sources: H. Berenson et al., A Critique of ANSI SQL Isolation Levels, SIGMOD 1995; A. Adya, Weak Consistency, MIT
// 1999; S. Elnikety, F. Pedone and W. Zwaenepoel, Database Replication Using Generalized Snapshot Isolation, SRDS
// 2005; K. Daudjee and K. Salem, Lazy Database Replication with Ordering Guarantees, ICDE 2004, and Lazy Database
// Replication with Snapshot Isolation, VLDB 2006; A. Cerone and A. Gotsman, Analysing Snapshot Isolation, JACM 2018;
// N. Crooks et al., Seeing is Believing, PODC 2017.
package isolation

import (
	"fmt"
	"strings"
)

// Level is a promise about all histories of a database. The zero value is none.
type Level uint8

// The levels. A larger number does not mean a stronger level: see Implies.
const (
	// ReadCommitted is Adya's PL-2: nobody reads or overwrites what was aborted or unfinished, and information flows
	// in no circle.
	ReadCommitted Level = iota + 1
	// SnapshotIsolation: each transaction reads from a snapshot, and of those that run at once and write the same row
	// only one commits. Snapshots may be old, but they are all states of one database.
	SnapshotIsolation
	// SessionSnapshotIsolation is snapshot isolation whose snapshots hold what the same client has seen and done before.
	SessionSnapshotIsolation
	// StrongSnapshotIsolation is snapshot isolation whose snapshots hold what any client was told of before.
	StrongSnapshotIsolation
	// Serializable is PL-3: there is an order of all committed transactions in which each sees what those before it
	// left behind.
	Serializable
	// SessionSerializable adds that the order agrees with that of each client's transactions.
	SessionSerializable
	// StrictSerializable adds that the order agrees with real time: a transaction that was answered before another was
	// sent comes before it, wherever their clients are.
	StrictSerializable
)

// What a transaction works on.
const (
	committed = iota
	snapshot
	serial
)

// Which order in time it agrees with.
const (
	none = iota
	session
	realTime
)

var levels = [...]struct {
	name        string
	state, time int
}{
	ReadCommitted:            {"read-committed", committed, none},
	SnapshotIsolation:        {"snapshot-isolation", snapshot, none},
	SessionSnapshotIsolation: {"session-snapshot-isolation", snapshot, session},
	StrongSnapshotIsolation:  {"strong-snapshot-isolation", snapshot, realTime},
	Serializable:             {"serializable", serial, none},
	SessionSerializable:      {"session-serializable", serial, session},
	StrictSerializable:       {"strict-serializable", serial, realTime},
}

// Levels returns all levels, each after those that it implies.
func Levels() []Level {
	all := make([]Level, len(levels)-1)
	for i := range all {
		all[i] = Level(i + 1)
	}
	return all
}

// Implies reports whether every history that has level a has level b, too.
func Implies(a, b Level) bool {
	return levels[a].state >= levels[b].state && levels[a].time >= levels[b].time
}

// String returns the name of the level, for example strict-serializable.
func (l Level) String() string {
	if l == 0 || int(l) >= len(levels) {
		return fmt.Sprintf("level %d", uint8(l))
	}
	return levels[l].name
}

// Parse returns the level with a name, as String writes it.
func Parse(name string) (Level, error) {
	for _, l := range Levels() {
		if levels[l].name == name {
			return l, nil
		}
	}
	return 0, fmt.Errorf("%q is not one of %s", name, strings.Join(Names(), ", "))
}

// Names returns the names of all levels, in the order of Levels.
func Names() []string {
	var names []string
	for _, l := range Levels() {
		names = append(names, levels[l].name)
	}
	return names
}
