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

// Message kinds.
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
	Group int
	// Term is the term of the leaseholder.
	Term uint64
	// Number is the transaction's number at its coordinator: see Name.
	Number uint64
	// Clock is the sender's clock.
	Clock uint64
}

func (h *Header) size() int {
	return codec.SizeUvarint(uint64(h.Group)) + codec.SizeUvarint(h.Term) + codec.SizeUvarint(h.Number) + codec.SizeUvarint(h.Clock)
}

func (h *Header) appendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(h.Group)), h.Term)
	return codec.AppendUvarint(codec.AppendUvarint(b, h.Number), h.Clock)
}

func readHeader(r *codec.Reader) Header {
	return Header{Group: int(r.UvarintMax(raftgroup.MaxShard)), Term: r.Uvarint(), Number: r.Uvarint(), Clock: r.Uvarint()}
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

func (a *Age) size() int { return 1 + codec.SizeUvarint(a.Start) + codec.SizeID(a.ID) }

func (a *Age) appendTo(b []byte) []byte {
	return codec.AppendID(codec.AppendUvarint(append(b, a.Attempt), a.Start), a.ID)
}

func readAge(r *codec.Reader) Age { return Age{r.Uint8(), r.Uvarint(), r.ID()} }

// Read asks a leaseholder to lock rows and to return them.
type Read struct {
	Header
	Age Age
	// Again is set if the transaction already has locks in this group.
	Again bool
	// Last is set if the transaction accesses nothing else, so that its locks can be released with the answer.
	Last  bool
	Wants []rerun.Need
}

// Kind implements protocol.Message.
func (m *Read) Kind() uint8 { return kindRead }

// Size implements protocol.Message.
func (m *Read) Size() int {
	n := m.Header.size() + m.Age.size() + 1 + codec.SizeUvarint(uint64(len(m.Wants)))
	for i := range m.Wants {
		n += 1 + codec.SizeRange(&m.Wants[i].Range)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Read) AppendTo(b []byte) []byte {
	b = m.Age.appendTo(m.Header.appendTo(b))
	b = append(b, codec.Flags(m.Again, m.Last))
	b = codec.AppendUvarint(b, uint64(len(m.Wants)))
	for i := range m.Wants {
		b = codec.AppendRange(append(b, byte(m.Wants[i].Mode)), &m.Wants[i].Range)
	}
	return b
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

func readRead(r *codec.Reader) *Read {
	m := &Read{Header: readHeader(r), Age: readAge(r)}
	m.Again, m.Last = r.Flags()
	if n := r.Count(1 + codec.MinRange); n > 0 {
		m.Wants = make([]rerun.Need, n)
	}
	for i := range m.Wants {
		w := &m.Wants[i]
		w.Mode = txn.Mode(r.Uint8())
		w.Range = r.Range()
		if r.Err() == nil && w.Mode != txn.Read && w.Mode != txn.ReadWrite {
			r.Fail(fmt.Errorf("rows cannot be read with mode %d", w.Mode))
		}
	}
	return m
}

// Rows answers Read with the rows found, in the order of Read.Wants.
type Rows struct {
	Header
	Found []raftgroup.Found
}

// Kind implements protocol.Message.
func (m *Rows) Kind() uint8 { return kindRows }

// Size implements protocol.Message.
func (m *Rows) Size() int { return m.Header.size() + raftgroup.SizeFound(m.Found) }

// AppendTo implements protocol.Message.
func (m *Rows) AppendTo(b []byte) []byte { return raftgroup.AppendFound(m.Header.appendTo(b), m.Found) }

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

func (e *Effects) size() int {
	return e.Header.size() + e.Age.size() + codec.SizeUvarint(e.Held) + 1 + codec.SizeUvarint(e.Done) + codec.SizeWrites(e.Writes)
}

func (e *Effects) appendTo(b []byte) []byte {
	b = e.Age.appendTo(e.Header.appendTo(b))
	b = append(codec.AppendUvarint(b, e.Held), codec.Flags(e.Again, false))
	return codec.AppendWrites(codec.AppendUvarint(b, e.Done), e.Writes)
}

func readEffects(r *codec.Reader) Effects {
	return Effects{Header: readHeader(r), Age: readAge(r), Held: r.Uvarint(), Again: r.Flag(), Done: r.Uvarint(), Writes: r.Writes()}
}

func (e *Effects) string(verb string) string {
	return fmt.Sprintf("%s %d=t%v in %d:%s", verb, e.Number, e.Age.ID, e.Group, raftgroup.WritesString(e.Writes))
}

// Commit asks the only group of a transaction to commit it.
type Commit struct{ Effects }

// Kind implements protocol.Message.
func (m *Commit) Kind() uint8 { return kindCommit }

// Size implements protocol.Message.
func (m *Commit) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Commit) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Commit) String() string { return m.string("commit") }

// Prepare asks a group of a transaction to prepare it: to promise to commit it if all other groups of the transaction
// promise the same.
type Prepare struct {
	Effects
	// Anchor is the group with the transaction's record, which lists all its groups.
	Anchor int
	// Participants are all groups of the transaction. They are only set in the message to the anchor.
	Participants []int
}

// Kind implements protocol.Message.
func (m *Prepare) Kind() uint8 { return kindPrepare }

// Size implements protocol.Message.
func (m *Prepare) Size() int {
	return m.size() + codec.SizeUvarint(uint64(m.Anchor)) + raftgroup.SizeShards(m.Participants)
}

// AppendTo implements protocol.Message.
func (m *Prepare) AppendTo(b []byte) []byte {
	return raftgroup.AppendShards(codec.AppendUvarint(m.appendTo(b), uint64(m.Anchor)), m.Participants)
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

func (o *Outcome) size() int { return 1 + codec.SizeUvarint(o.Timestamp) }

func (o *Outcome) appendTo(b []byte) []byte {
	return codec.AppendUvarint(append(b, codec.Flags(o.Committed, false)), o.Timestamp)
}

func readOutcome(r *codec.Reader) Outcome {
	return Outcome{r.Flag(), r.Uvarint()}
}

// Kind implements protocol.Message.
func (m *Resolve) Kind() uint8 { return kindResolve }

// Size implements protocol.Message.
func (m *Resolve) Size() int {
	return m.Header.size() + codec.SizeUvarint(uint64(m.Of)) + codec.SizeUvarint(m.Done) + m.Outcome.size()
}

// AppendTo implements protocol.Message.
func (m *Resolve) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(m.Header.appendTo(b), uint64(m.Of))
	return m.Outcome.appendTo(codec.AppendUvarint(b, m.Done))
}

func (m *Resolve) String() string {
	return fmt.Sprintf("resolve %v in %d: %v", raftgroup.Name{Coordinator: m.Of, Number: m.Number}, m.Group, m.Outcome)
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
	Request
}

// Kind implements protocol.Message.
func (m *Ask) Kind() uint8 { return kindAsk }

// Size implements protocol.Message.
func (m *Ask) Size() int { return m.Header.size() + 1 }

// AppendTo implements protocol.Message.
func (m *Ask) AppendTo(b []byte) []byte { return append(m.Header.appendTo(b), byte(m.Request)) }

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
	Reply
	// Timestamp is the timestamp of the prepared transaction.
	Timestamp uint64
}

// Kind implements protocol.Message.
func (m *Answer) Kind() uint8 { return kindAnswer }

// Size implements protocol.Message.
func (m *Answer) Size() int { return m.Header.size() + 1 + codec.SizeUvarint(m.Timestamp) }

// AppendTo implements protocol.Message.
func (m *Answer) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(append(m.Header.appendTo(b), byte(m.Reply)), m.Timestamp)
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
	Group int
	Term  uint64
	Of    raftgroup.Name
	// For is the group that queries; the sender leads it.
	For int
}

// Kind implements protocol.Message.
func (m *Query) Kind() uint8 { return kindQuery }

// Size implements protocol.Message.
func (m *Query) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Term) + m.Of.Size() + codec.SizeUvarint(uint64(m.For))
}

// AppendTo implements protocol.Message.
func (m *Query) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Term)
	return codec.AppendUvarint(m.Of.AppendTo(b), uint64(m.For))
}

func (m *Query) String() string { return fmt.Sprintf("query %v in %d for %d", m.Of, m.Group, m.For) }

// Status answers a Query.
type Status struct {
	// Group is the group that has queried, About the group that answers.
	Group, About int
	Of           raftgroup.Name
	// Ended is set if Outcome is the transaction's outcome. Otherwise the group has prepared the transaction at
	// Outcome.Timestamp.
	Ended bool
	Outcome
}

// Kind implements protocol.Message.
func (m *Status) Kind() uint8 { return kindStatus }

// Size implements protocol.Message.
func (m *Status) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(uint64(m.About)) + m.Of.Size() + 1 + m.Outcome.size()
}

// AppendTo implements protocol.Message.
func (m *Status) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), uint64(m.About))
	return m.Outcome.appendTo(append(m.Of.AppendTo(b), codec.Flags(m.Ended, false)))
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

// Kind implements protocol.Message.
func (m *Ping) Kind() uint8 { return kindPing }

// Size implements protocol.Message.
func (m *Ping) Size() int { return 1 }

// AppendTo implements protocol.Message.
func (m *Ping) AppendTo(b []byte) []byte { return append(b, codec.Flags(m.Answer, false)) }

func (m *Ping) String() string {
	if m.Answer {
		return "alive"
	}
	return "alive?"
}

// SnapshotRead requests rows at a timestamp from any member of a group.
type SnapshotRead struct {
	Group int
	// Number is the transaction's number at its coordinator, Round the number of its round of reads, from 1.
	Number, Round uint64
	At            uint64
	Ranges        []txn.Range
}

// Kind implements protocol.Message.
func (m *SnapshotRead) Kind() uint8 { return kindSnapshotRead }

// Size implements protocol.Message.
func (m *SnapshotRead) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Round) + codec.SizeUvarint(m.At) +
		codec.SizeRanges(m.Ranges)
}

// AppendTo implements protocol.Message.
func (m *SnapshotRead) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Number)
	return codec.AppendRanges(codec.AppendUvarint(codec.AppendUvarint(b, m.Round), m.At), m.Ranges)
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
	Group         int
	Number, Round uint64
	// TooOld is set if the row versions at that timestamp are no longer kept.
	TooOld bool
	Found  []raftgroup.Found
}

// Kind implements protocol.Message.
func (m *SnapshotRows) Kind() uint8 { return kindSnapshotRows }

// Size implements protocol.Message.
func (m *SnapshotRows) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Round) + 1 + raftgroup.SizeFound(m.Found)
}

// AppendTo implements protocol.Message.
func (m *SnapshotRows) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Number)
	return raftgroup.AppendFound(append(codec.AppendUvarint(b, m.Round), codec.Flags(m.TooOld, false)), m.Found)
}

func (m *SnapshotRows) String() string {
	if m.TooOld {
		return fmt.Sprintf("snapshot of %d for %d: too old", m.Group, m.Number)
	}
	return fmt.Sprintf("snapshot rows of %d for %d: %s", m.Group, m.Number, raftgroup.FoundString(m.Found))
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
	if m, known, err := raftgroup.Decode(kind, body); known {
		return m, err
	}
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindRead:
		m = readRead(&r)
	case kindRows:
		m = &Rows{readHeader(&r), raftgroup.ReadFound(&r)}
	case kindCommit:
		m = &Commit{readEffects(&r)}
	case kindPrepare:
		m = &Prepare{readEffects(&r), int(r.UvarintMax(raftgroup.MaxShard)), raftgroup.ReadShards(&r)}
	case kindResolve:
		m = &Resolve{readHeader(&r), geo.NodeID(r.UvarintMax(raftgroup.MaxNode)), r.Uvarint(), readOutcome(&r)}
	case kindAsk:
		q := &Ask{readHeader(&r), Request(r.Uint8())}
		if r.Err() == nil && (q.Request < Release || q.Request > Cancel) {
			r.Fail(fmt.Errorf("%d is not a request", uint8(q.Request)))
		}
		m = q
	case kindAnswer:
		a := &Answer{readHeader(&r), Reply(r.Uint8()), r.Uvarint()}
		if r.Err() == nil && (a.Reply < Validated || a.Reply > Lost) {
			r.Fail(fmt.Errorf("%d is not a reply", uint8(a.Reply)))
		}
		m = a
	case kindQuery:
		m = &Query{int(r.UvarintMax(raftgroup.MaxShard)), r.Uvarint(), raftgroup.ReadName(&r), int(r.UvarintMax(raftgroup.MaxShard))}
	case kindStatus:
		m = &Status{int(r.UvarintMax(raftgroup.MaxShard)), int(r.UvarintMax(raftgroup.MaxShard)), raftgroup.ReadName(&r), r.Flag(), readOutcome(&r)}
	case kindPing:
		m = &Ping{r.Flag()}
	case kindSnapshotRead:
		m = &SnapshotRead{int(r.UvarintMax(raftgroup.MaxShard)), r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Ranges()}
	case kindSnapshotRows:
		m = &SnapshotRows{int(r.UvarintMax(raftgroup.MaxShard)), r.Uvarint(), r.Uvarint(), r.Flag(), raftgroup.ReadFound(&r)}
	default:
		return nil, fmt.Errorf("message kind %d is not one of spanner's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
