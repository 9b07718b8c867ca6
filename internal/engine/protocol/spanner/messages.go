package spanner

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindRead = iota + 1
	kindRows
	kindCommit
	kindPrepare
	kindResolve
	kindAsk
	kindAnswer
	kindQuery
	kindStatus
	kindPing
	kindSnapshotRead
	kindSnapshotRows
)

// Header starts each message between a transaction's coordinator and a leaseholder.
type Header struct {
	Group int `codec:"max=raftgroup.MaxShard"`
	// Term is the term of the leaseholder.
	Term uint64
	// Number is the transaction's number at its coordinator: see Name.
	Number uint64
	// Clock is the sender's clock.
	Clock uint64
}

// Age orders transactions by age. A transaction with more attempts is older; with equal attempts, the transaction that
// started earlier is older.
type Age struct {
	Attempt uint8
	// Start is the coordinator's clock when the transaction arrived.
	Start uint64
	ID    txn.ID
}

// olderThan reports whether a transaction of age a may wound a transaction of age b.
func (a *Age) olderThan(b *Age) bool {
	switch {
	case a.Attempt != b.Attempt:
		return a.Attempt > b.Attempt
	case a.Start != b.Start:
		return a.Start < b.Start
	}
	return a.ID < b.ID
}

// Read asks a leaseholder to lock rows and to return them.
type Read struct {
	Header
	Age Age
	// Again is set if the transaction already has locks in this group.
	Again bool `codec:"packed"`
	// Last is set if the transaction accesses nothing else, so that its locks can be released with the answer.
	Last  bool         `codec:"packed"`
	Wants []rerun.Need `codec:"as=wants"`
}

func (m *Read) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %d=t%v in %d:", m.Number, m.Age.ID, m.Group)
	for i := range m.Wants {
		fmt.Fprintf(&b, " %s %v", lockName(m.Wants[i].Mode == txn.ReadWrite), &m.Wants[i].Range)
	}
	if m.Last {
		b.WriteString(", that is all")
	}
	return b.String()
}

func lockName(exclusive bool) string {
	if exclusive {
		return "exclusive"
	}
	return "shared"
}

func sizeWants(wants []rerun.Need) int {
	n := codec.SizeUvarint(uint64(len(wants)))
	for i := range wants {
		n += 1 + codec.SizeRange(&wants[i].Range)
	}
	return n
}

func appendWants(b []byte, wants []rerun.Need) []byte {
	b = codec.AppendUvarint(b, uint64(len(wants)))
	for i := range wants {
		b = codec.AppendRange(append(b, byte(wants[i].Mode)), &wants[i].Range)
	}
	return b
}

func readWants(r *codec.Reader) (wants []rerun.Need) {
	if n := r.Count(1 + codec.MinRange); n > 0 {
		wants = make([]rerun.Need, n)
	}
	for i := range wants {
		w := &wants[i]
		w.Mode = txn.Mode(r.Uint8())
		w.Range = r.Range()
		if r.Err() == nil && w.Mode != txn.Read && w.Mode != txn.ReadWrite {
			r.Fail(fmt.Errorf("rows cannot be read with mode %d", w.Mode))
		}
	}
	return wants
}

// Rows answers Read with the rows found, in the order of Read.Wants.
type Rows struct {
	Header
	Found []raftgroup.Found `codec:"as=raftgroup.Found"`
}

func (m *Rows) String() string {
	return fmt.Sprintf("rows of %d for %d: %s", m.Group, m.Number, raftgroup.FoundString(m.Found))
}

// Effects are the content of a request to commit or to prepare a transaction.
type Effects struct {
	Header
	Age Age
	// Held is the term in which the transaction got locks here, or 0 if it has none.
	Held uint64
	// Again is set if the request was sent to the leaseholder of an earlier term.
	Again bool
	// Done is the lowest number of a transaction of the coordinator that has not ended: outcomes of transactions below it
	// can be dropped.
	Done   uint64
	Writes []txn.WriteEntry
}

func (e *Effects) string(verb string) string {
	return fmt.Sprintf("%s %d=t%v in %d:%s", verb, e.Number, e.Age.ID, e.Group, raftgroup.WritesString(e.Writes))
}

// Commit asks the only group of a transaction to commit it.
type Commit struct{ Effects }

func (m *Commit) String() string { return m.string("commit") }

// Prepare asks a group of a transaction to prepare it: to promise to commit it if all other groups of the transaction
// promise the same.
type Prepare struct {
	Effects
	// Anchor is the group with the transaction's record, which lists all its groups.
	Anchor int `codec:"max=raftgroup.MaxShard"`
	// Participants are all groups of the transaction. They are only set in the message to the anchor.
	Participants []int `codec:"max=raftgroup.MaxShard"`
}

func (m *Prepare) String() string {
	s := m.string("prepare")
	if len(m.Participants) > 0 {
		s += fmt.Sprintf(", record of groups %v", m.Participants)
	}
	return s
}

// Resolve sends the outcome of a transaction to a group that has prepared it, or may have.
type Resolve struct {
	Header
	// Of is the transaction's coordinator, which may differ from the sender.
	Of   geo.NodeID
	Done uint64
	Outcome
}

// Outcome is the outcome of a prepared transaction.
type Outcome struct {
	Committed bool
	// Timestamp is the timestamp of a committed transaction's writes.
	Timestamp uint64
}

func (o Outcome) String() string {
	if o.Committed {
		return fmt.Sprintf("committed at %d", o.Timestamp)
	}
	return "aborted"
}

func (m *Resolve) String() string {
	return fmt.Sprintf("resolve %v in %d: %v", raftgroup.Name{Coordinator: m.Of, Number: m.Number}, m.Group, m.Outcome)
}

func appendOutcome(b []byte, o Outcome) []byte { return o.appendTo(b) }

func readOutcome(r *codec.Reader) (o Outcome) {
	o.read(r)
	return o
}

// Request is a coordinator's request to a leaseholder without further content.
type Request uint8

// The requests.
const (
	// Release releases the locks of a transaction that has not asked this group to commit or prepare.
	Release Request = iota + 1
	// Validate asks whether the transaction still has its locks, and releases them.
	Validate
	// Cancel gives up a preparation that still waits for locks.
	Cancel
)

func (q Request) String() string {
	return [...]string{"", "release", "validate", "cancel"}[q]
}

// Ask is a message with a Request and nothing else.
type Ask struct {
	Header
	Request `codec:"enum=Release..Cancel"`
}

func (m *Ask) String() string { return fmt.Sprintf("%v %d in %d", m.Request, m.Number, m.Group) }

// Reply is a leaseholder's reply to a coordinator about a transaction.
type Reply uint8

// The replies.
const (
	// Validated: the transaction had all its locks.
	Validated Reply = iota + 1
	// Committed: the commit is in the log.
	Committed
	// Prepared: the preparation is in the log.
	Prepared
	// Resolved: the outcome is in the log, or the group never prepared the transaction.
	Resolved
	// Contended: an older transaction waits for this prepared transaction.
	Contended
	// Wounded: an older transaction has taken the locks of this transaction, which will not be prepared.
	Wounded
	// Lost: the transaction has no locks and will not be prepared. Either an earlier leaseholder granted its locks, or the
	// group considers its coordinator lost.
	Lost
)

func (p Reply) String() string {
	return [...]string{"", "validated", "committed", "prepared", "resolved", "contended", "wounded", "lost"}[p]
}

// Answer sends a Reply to a coordinator.
type Answer struct {
	Header
	Reply `codec:"enum=Validated..Lost"`
	// Timestamp is the timestamp of the prepared transaction.
	Timestamp uint64
}

func (m *Answer) String() string {
	s := fmt.Sprintf("%v %d in %d", m.Reply, m.Number, m.Group)
	if m.Timestamp > 0 {
		s += fmt.Sprintf(" at %d", m.Timestamp)
	}
	return s
}

// Query asks a group, on behalf of another group, for the state of a transaction. If the group has not prepared the
// transaction, it never will afterwards.
type Query struct {
	Group int `codec:"max=raftgroup.MaxShard"`
	Term  uint64
	Of    raftgroup.Name
	// For is the group that queries; the sender leads it.
	For int `codec:"max=raftgroup.MaxShard"`
}

func (m *Query) String() string { return fmt.Sprintf("query %v in %d for %d", m.Of, m.Group, m.For) }

// Status answers a Query.
type Status struct {
	// Group is the group that has queried, About the group that answers.
	Group, About int `codec:"max=raftgroup.MaxShard"`
	Of           raftgroup.Name
	// Ended is set if Outcome is the transaction's outcome. Otherwise the group has prepared the transaction at
	// Outcome.Timestamp.
	Ended bool
	Outcome
}

func (m *Status) String() string {
	state := fmt.Sprintf("prepared at %d", m.Timestamp)
	if m.Ended {
		state = m.Outcome.String()
	}
	return fmt.Sprintf("status of %v in %d for %d: %s", m.Of, m.About, m.Group, state)
}

// Ping asks a silent node whether it is running. With Answer set, it is the reply to a Ping.
type Ping struct{ Answer bool }

func (m *Ping) String() string {
	if m.Answer {
		return "alive"
	}
	return "alive?"
}

// SnapshotRead requests rows at a timestamp from any member of a group.
type SnapshotRead struct {
	Group int `codec:"max=raftgroup.MaxShard"`
	// Number is the transaction's number at its coordinator, Round the number of its round of reads, from 1.
	Number, Round uint64
	At            uint64
	Ranges        []txn.Range
}

func (m *SnapshotRead) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshot read %d in %d at %d:", m.Number, m.Group, m.At)
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v", &m.Ranges[i])
	}
	return b.String()
}

// SnapshotRows answers SnapshotRead.
type SnapshotRows struct {
	Group         int `codec:"max=raftgroup.MaxShard"`
	Number, Round uint64
	// TooOld is set if the row versions at that timestamp are no longer kept.
	TooOld bool
	Found  []raftgroup.Found `codec:"as=raftgroup.Found"`
}

func (m *SnapshotRows) String() string {
	if m.TooOld {
		return fmt.Sprintf("snapshot of %d for %d: too old", m.Group, m.Number)
	}
	return fmt.Sprintf("snapshot rows of %d for %d: %s", m.Group, m.Number, raftgroup.FoundString(m.Found))
}

var decode = protocol.Decode("spanner", decodeMessage, raftgroup.Decode)
