package sdur

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindRead = iota + 1
	kindRows
	kindSubmit
	kindVote
	kindAnswer
)

// Snapshot is a state of a group: the result of its first Count transactions.
type Snapshot struct {
	// Count is the number of completed transactions: the paper's snapshot counter.
	Count uint64
	// At is the largest timestamp of these transactions.
	At uint64
}

// View selects the state of a group that a transaction reads.
type View uint8

// The views.
const (
	// Newest is the newest state of the member. The transaction reads the group in this snapshot from then on.
	Newest View = iota + 1
	// Same is the state at Snapshot.At, the snapshot of an earlier read. It may also contain transactions with
	// timestamps up to Snapshot.At that completed after that read. Certification treats these as concurrent, so it
	// aborts a transaction that has read their writes. The abort is unnecessary if the rows were not read before
	// these transactions completed.
	Same
	// Cut is the state at timestamp Snapshot.At, which is the same in all groups.
	Cut
)

// Read requests rows from any member of a group.
type Read struct {
	Group int `codec:"max=raftgroup.MaxShard"`
	// Number is the transaction's number at its coordinator, Round the number of its round of reads, from 1.
	Number, Round uint64
	View          View `codec:"enum=Newest..Cut"`
	Snapshot      Snapshot
	Ranges        []txn.Range
}

func (m *Read) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %d in %d", m.Number, m.Group)
	switch m.View {
	case Same:
		fmt.Fprintf(&b, " as of %d", m.Snapshot.Count)
	case Cut:
		fmt.Fprintf(&b, " at time %d", m.Snapshot.At)
	}
	b.WriteByte(':')
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v", &m.Ranges[i])
	}
	return b.String()
}

// Rows answers Read.
type Rows struct {
	Group         int `codec:"max=raftgroup.MaxShard"`
	Number, Round uint64
	// TooOld is set if the row versions of that state are no longer kept.
	TooOld   bool
	Snapshot Snapshot
	Found    []raftgroup.Found `codec:"as=raftgroup.Found"`
}

func (m *Rows) String() string {
	if m.TooOld {
		return fmt.Sprintf("rows of %d for %d: too old", m.Group, m.Number)
	}
	return fmt.Sprintf("rows of %d for %d as of %d: %s", m.Group, m.Number, m.Snapshot.Count, raftgroup.FoundString(m.Found))
}

// Update is a transaction's part in a group. The coordinator submits it, and the group's log delivers it.
type Update struct {
	ID txn.ID
	// Done is the lowest number of a transaction of the coordinator that has not ended: see raftgroup.Endings.
	Done uint64
	// Snapshot is the snapshot in which the transaction has read the group.
	Snapshot Snapshot
	// Participants are all groups of a global transaction, ascending; a local transaction has none.
	Participants []int `codec:"max=raftgroup.MaxShard"`
	// Floor is the largest timestamp of the snapshots in all groups. Anchor is the group that notifies the coordinator as
	// soon as the transaction has completed. Both are only set for global transactions.
	Floor  uint64 `codec:"if=global()"`
	Anchor int    `codec:"if=global(),max=raftgroup.MaxShard"`
	// Reads are the hashes of the rows that the transaction has read, Ranges the ranges that it has scanned.
	Reads  []uint64 `codec:"fixed"`
	Ranges []txn.Range
	Writes []txn.WriteEntry
}

// global reports whether the transaction has parts in other groups, too.
func (u *Update) global() bool { return len(u.Participants) > 0 }

func (u *Update) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "t%v read as of %d", u.ID, u.Snapshot.Count)
	if len(u.Participants) > 0 {
		fmt.Fprintf(&b, ", groups %v", u.Participants)
	}
	for i := range u.Ranges {
		fmt.Fprintf(&b, " scanned %v", &u.Ranges[i])
	}
	fmt.Fprintf(&b, ":%s", raftgroup.WritesString(u.Writes))
	return b.String()
}

// Submit asks the leader of a group to put a transaction into the group's log.
type Submit struct {
	Group int `codec:"max=raftgroup.MaxShard"`
	// Term is the term in which the receiver leads.
	Term   uint64
	Number uint64
	// Again is set if the part was submitted in an earlier term.
	Again bool
	Update
}

func (m *Submit) String() string {
	return fmt.Sprintf("submit %d to %d: %v", m.Number, m.Group, &m.Update)
}

// Vote sends another group's vote on a global transaction to a group's leader, requests the leader's vote, or does
// both.
type Vote struct {
	// Group is the receiving group, Term its leader's term, and About the group that votes.
	Group int `codec:"max=raftgroup.MaxShard"`
	Term  uint64
	About int `codec:"max=raftgroup.MaxShard"`
	Of    raftgroup.Name
	// Verdict is the vote, or 0 if the message contains none.
	Verdict Verdict `codec:"enum=0..Prevented"`
	// Final is set if Verdict and Timestamp are the transaction's outcome.
	Final bool
	// Request requests the vote of Group.
	Request Request `codec:"enum=Nothing..Demand"`
	// Timestamp is, in a vote to commit, the lowest timestamp that the transaction may get.
	Timestamp uint64
}

// Request is the kind of reply that the sender of a Vote requests.
type Request uint8

// The requests.
const (
	// Nothing: no reply is requested.
	Nothing Request = iota
	// Ask requests the vote once the group has delivered the transaction.
	Ask
	// Demand requests a vote in any case: to abort, if the group has not delivered the transaction.
	Demand
)

func (m *Vote) String() string {
	s := fmt.Sprintf("%d on %v for %d:", m.About, m.Of, m.Group)
	switch {
	case m.Final:
		s += fmt.Sprintf(" ended with %v", m.Verdict)
	case m.Verdict == Commit:
		s += fmt.Sprintf(" votes to commit, from %d on", m.Timestamp)
	case m.Verdict != 0:
		s += fmt.Sprintf(" votes to abort: %v", m.Verdict)
	}
	switch m.Request {
	case Ask:
		s += " asks for the vote"
	case Demand:
		s += " demands a vote"
	}
	return s
}

// Answer sends a coordinator the verdict on its transaction in a group.
type Answer struct {
	Group   int `codec:"max=raftgroup.MaxShard"`
	Number  uint64
	Verdict Verdict `codec:"enum=Commit..Prevented"`
	// Final is set in the group's last answer about the transaction.
	Final bool
}

func (m *Answer) String() string {
	s := fmt.Sprintf("%d in %d: %v", m.Number, m.Group, m.Verdict)
	if !m.Final {
		s += ", not in the log yet"
	}
	return s
}

var decode = protocol.Decode("sdur", decodeMessage, raftgroup.Decode)
