// Package isolation names isolation levels. A level is a guarantee of a database for every history that its clients can
// record; package history checks it for a given history.
//
// A level is defined by the observations of clients. These are the row versions that a committed transaction read and
// overwrote, and the times of its request and answer. A history has a level if some execution that the level's
// definition allows explains the history. The definition may refer to something that clients cannot observe, such as
// the instant of a snapshot. Then any instant that the level does not exclude is acceptable. Crooks et al. define
// levels in this way. They find that many levels with different definitions are the same to clients.
//
// A level combines two properties. The values of each form a chain from weak to strong.
//
// The state that a transaction reads:
//
//   - read committed: versions that are committed and final, and information flows in no cycle. This is Adya's PL-2.
//   - snapshot: a transaction reads from a single state that committed transactions produced, taken before it commits.
//     It commits only if no other transaction has meanwhile overwritten the rows that it overwrites (Berenson et al.,
//     section 4.2; the first committer wins). This is Adya's PL-SI with the order of starts left open. It is also
//     generalized snapshot isolation without real time (Elnikety et al.), and Crooks' Adya SI.
//   - serial: a transaction reads the very state that it commits on. This is Adya's PL-3.
//
// Each value implies the previous value. A serial execution is also an execution with snapshots: a transaction starts
// when its predecessor has committed. Snapshots satisfy PL-2: any version that a transaction reads or overwrites was
// committed before it started, so information flows forward in time only. For Adya, PL-SI and PL-3 are incomparable.
// This is no contradiction, because Adya's histories include the order of starts and commits. In such a history, PL-SI
// can reject a serializable execution in which a transaction saw a version committed after its start. Clients do not
// see that start, and a late enough start explains their observations. Berenson et al. call snapshot isolation
// incomparable with repeatable read, which is not a level here.
//
// The order in time that a level respects, for a transaction that is sent after another was answered:
//
//   - none.
//   - session: for transactions of the same client. A later transaction sees the state that the earlier transaction
//     left, or a later state: the client sees its own writes, and never goes back. These levels are strong session
//     snapshot isolation (Daudjee and Salem 2006) and strong session serializability (Daudjee and Salem 2004). Cerone
//     and Gotsman's snapshot isolation always has the session order; Elnikety et al. call strong session snapshot
//     isolation prefix-consistent.
//   - real time: for transactions of any clients. One level is strong snapshot isolation (Daudjee and Salem 2006),
//     which is conventional snapshot isolation seen from outside. The other level is strict serializability
//     (Papadimitriou 1979; Herlihy and Wing 1990).
//
// Each order implies the previous order, because a client receives its answer before it sends again. With snapshots, an
// order in time means that the later transaction takes its snapshot after the earlier transaction has committed. With
// serial transactions, it means that the later transaction has a later position.
//
// So a level implies another exactly if it is at least as strong in both properties. This is a partial order:
//
//	StrictSerializable ------> SessionSerializable ------> Serializable
//	        |                          |                        |
//	        v                          v                        v
//	StrongSnapshotIsolation -> SessionSnapshotIsolation -> SnapshotIsolation -> ReadCommitted
//
// Some levels are incomparable. StrongSnapshotIsolation allows write skew, which Serializable and SessionSerializable
// exclude; these two allow stale reads, which StrongSnapshotIsolation excludes. SessionSnapshotIsolation and
// Serializable are incomparable for the same reasons.
//
// Sources: H. Berenson et al., A Critique of ANSI SQL Isolation Levels, SIGMOD 1995. A. Adya, Weak Consistency, MIT
// 1999. S. Elnikety, F. Pedone and W. Zwaenepoel, Database Replication Using Generalized Snapshot Isolation, SRDS 2005.
// K. Daudjee and K. Salem, Lazy Database Replication with Ordering Guarantees, ICDE 2004, and Lazy Database Replication
// with Snapshot Isolation, VLDB 2006. A. Cerone and A. Gotsman, Analysing Snapshot Isolation, JACM 2018. N. Crooks et
// al., Seeing is Believing, PODC 2017.
package isolation

import (
	"fmt"
	"strings"
)

// Level is a guarantee for all histories of a database. The zero value stands for no level.
type Level uint8

// The levels. A larger number does not mean a stronger level: see Implies.
const (
	// ReadCommitted is Adya's PL-2: transactions never read or overwrite aborted or intermediate versions, and information
	// never flows in a cycle.
	ReadCommitted Level = iota + 1
	// SnapshotIsolation: each transaction reads from a snapshot. Of concurrent transactions that write the same row, only
	// the first committer succeeds. Snapshots may be old, but all of them are states of the same database.
	SnapshotIsolation
	// SessionSnapshotIsolation is snapshot isolation in which a snapshot includes everything that the same client has
	// read and written before.
	SessionSnapshotIsolation
	// StrongSnapshotIsolation is snapshot isolation in which a snapshot includes every transaction, of any client, that
	// was answered before the reading transaction was sent.
	StrongSnapshotIsolation
	// Serializable is PL-3: all committed transactions have an order in which each sees the state that its predecessors
	// left.
	Serializable
	// SessionSerializable is Serializable with an order that agrees with the order of each client's transactions.
	SessionSerializable
	// StrictSerializable is Serializable with an order that agrees with real time. A transaction that was answered before
	// another was sent precedes the other, regardless of their clients' regions.
	StrictSerializable
)

// Kinds of the state that a transaction reads, from weak to strong.
const (
	committed = iota
	snapshot
	serial
)

// Kinds of the order in time, from weak to strong.
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

// Levels returns all levels, each after the levels that it implies.
func Levels() []Level {
	all := make([]Level, len(levels)-1)
	for i := range all {
		all[i] = Level(i + 1)
	}
	return all
}

// Implies reports whether every history with level a also has level b.
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

// Parse returns the level with the given name, which is in the form that String returns.
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
