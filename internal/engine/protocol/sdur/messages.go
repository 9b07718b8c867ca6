package sdur

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds.
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

func (s *Snapshot) size() int { return codec.SizeUvarint(s.Count) + codec.SizeUvarint(s.At) }

func (s *Snapshot) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, s.Count), s.At)
}

func readSnapshot(r *codec.Reader) Snapshot { return Snapshot{r.Uvarint(), r.Uvarint()} }

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
	Group int
	// Number is the transaction's number at its coordinator, Round the number of its round of reads, from 1.
	Number, Round uint64
	View          View
	Snapshot      Snapshot
	Ranges        []txn.Range
}

// Kind implements protocol.Message.
func (m *Read) Kind() uint8 { return kindRead }

// Size implements protocol.Message.
func (m *Read) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Round) + 1 + m.Snapshot.size() +
		codec.SizeRanges(m.Ranges)
}

// AppendTo implements protocol.Message.
func (m *Read) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Number)
	b = append(codec.AppendUvarint(b, m.Round), byte(m.View))
	return codec.AppendRanges(m.Snapshot.appendTo(b), m.Ranges)
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
	Group         int
	Number, Round uint64
	Snapshot      Snapshot
	// TooOld is set if the row versions of that state are no longer kept.
	TooOld bool
	Found  []raftgroup.Found
}

// Kind implements protocol.Message.
func (m *Rows) Kind() uint8 { return kindRows }

// Size implements protocol.Message.
func (m *Rows) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Number) + codec.SizeUvarint(m.Round) + 1 + m.Snapshot.size() +
		raftgroup.SizeFound(m.Found)
}

// AppendTo implements protocol.Message.
func (m *Rows) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Number)
	b = append(codec.AppendUvarint(b, m.Round), codec.Flags(m.TooOld, false))
	return raftgroup.AppendFound(m.Snapshot.appendTo(b), m.Found)
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
	Participants []int
	// Floor is the largest timestamp of the snapshots in all groups. Anchor is the group that notifies the coordinator as
	// soon as the transaction has completed. Both are only set for global transactions.
	Floor  uint64
	Anchor int
	// Reads are the hashes of the rows that the transaction has read, Ranges the ranges that it has scanned.
	Reads  []uint64
	Ranges []txn.Range
	Writes []txn.WriteEntry
}

func (u *Update) size() int {
	n := codec.SizeID(u.ID) + codec.SizeUvarint(u.Done) + u.Snapshot.size() + raftgroup.SizeShards(u.Participants)
	if len(u.Participants) > 0 {
		n += codec.SizeUvarint(u.Floor) + codec.SizeUvarint(uint64(u.Anchor))
	}
	return n + codec.SizeUvarint(uint64(len(u.Reads))) + 8*len(u.Reads) + codec.SizeRanges(u.Ranges) + codec.SizeWrites(u.Writes)
}

func (u *Update) appendTo(b []byte) []byte {
	b = u.Snapshot.appendTo(codec.AppendUvarint(codec.AppendID(b, u.ID), u.Done))
	b = raftgroup.AppendShards(b, u.Participants)
	if len(u.Participants) > 0 {
		b = codec.AppendUvarint(codec.AppendUvarint(b, u.Floor), uint64(u.Anchor))
	}
	b = codec.AppendUvarint(b, uint64(len(u.Reads)))
	for _, h := range u.Reads {
		b = codec.AppendUint64(b, h)
	}
	return codec.AppendWrites(codec.AppendRanges(b, u.Ranges), u.Writes)
}

func readUpdate(r *codec.Reader) Update {
	u := Update{ID: r.ID(), Done: r.Uvarint(), Snapshot: readSnapshot(r), Participants: raftgroup.ReadShards(r)}
	if len(u.Participants) > 0 {
		u.Floor, u.Anchor = r.Uvarint(), int(r.UvarintMax(raftgroup.MaxShard))
	}
	if n := r.Count(8); n > 0 {
		u.Reads = make([]uint64, n)
		for i := range u.Reads {
			u.Reads[i] = r.Uint64()
		}
	}
	u.Ranges, u.Writes = r.Ranges(), r.Writes()
	return u
}

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
	Group int
	// Term is the term in which the receiver leads.
	Term   uint64
	Number uint64
	// Again is set if the part was submitted in an earlier term.
	Again bool
	Update
}

// Kind implements protocol.Message.
func (m *Submit) Kind() uint8 { return kindSubmit }

// Size implements protocol.Message.
func (m *Submit) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Term) + codec.SizeUvarint(m.Number) + 1 + m.size()
}

// AppendTo implements protocol.Message.
func (m *Submit) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Term)
	return m.appendTo(append(codec.AppendUvarint(b, m.Number), codec.Flags(m.Again, false)))
}

func (m *Submit) String() string {
	return fmt.Sprintf("submit %d to %d: %v", m.Number, m.Group, &m.Update)
}

// Vote sends another group's vote on a global transaction to a group's leader, requests the leader's vote, or does
// both.
type Vote struct {
	// Group is the receiving group, Term its leader's term, and About the group that votes.
	Group int
	Term  uint64
	About int
	Of    raftgroup.Name
	// Verdict is the vote, or 0 if the message contains none.
	Verdict Verdict
	// Final is set if Verdict and Timestamp are the transaction's outcome.
	Final bool
	// Timestamp is, in a vote to commit, the lowest timestamp that the transaction may get.
	Timestamp uint64
	// Request requests the vote of Group.
	Request Request
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

// Kind implements protocol.Message.
func (m *Vote) Kind() uint8 { return kindVote }

// Size implements protocol.Message.
func (m *Vote) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Term) + codec.SizeUvarint(uint64(m.About)) + m.Of.Size() + 3 +
		codec.SizeUvarint(m.Timestamp)
}

// AppendTo implements protocol.Message.
func (m *Vote) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Term)
	b = m.Of.AppendTo(codec.AppendUvarint(b, uint64(m.About)))
	b = append(b, byte(m.Verdict), codec.Flags(m.Final, false), byte(m.Request))
	return codec.AppendUvarint(b, m.Timestamp)
}

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

func readVote(r *codec.Reader) *Vote {
	m := &Vote{Group: int(r.UvarintMax(raftgroup.MaxShard)), Term: r.Uvarint(), About: int(r.UvarintMax(raftgroup.MaxShard)), Of: raftgroup.ReadName(r)}
	m.Verdict = readVerdict(r, 0)
	m.Final = r.Flag()
	m.Request = Request(r.Uint8())
	if r.Err() == nil && m.Request > Demand {
		r.Fail(fmt.Errorf("%d is not a request", m.Request))
	}
	m.Timestamp = r.Uvarint()
	return m
}

// Answer sends a coordinator the verdict on its transaction in a group.
type Answer struct {
	Group   int
	Number  uint64
	Verdict Verdict
	// Final is set in the group's last answer about the transaction.
	Final bool
}

// Kind implements protocol.Message.
func (m *Answer) Kind() uint8 { return kindAnswer }

// Size implements protocol.Message.
func (m *Answer) Size() int {
	return codec.SizeUvarint(uint64(m.Group)) + codec.SizeUvarint(m.Number) + 2
}

// AppendTo implements protocol.Message.
func (m *Answer) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(m.Group)), m.Number)
	return append(b, byte(m.Verdict), codec.Flags(m.Final, false))
}

func (m *Answer) String() string {
	s := fmt.Sprintf("%d in %d: %v", m.Number, m.Group, m.Verdict)
	if !m.Final {
		s += ", not in the log yet"
	}
	return s
}

func readVerdict(r *codec.Reader, least Verdict) Verdict {
	v := Verdict(r.Uint8())
	if r.Err() == nil && (v < least || v > Prevented) {
		r.Fail(fmt.Errorf("%d is not a verdict", uint8(v)))
		return 0
	}
	return v
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
		q := &Read{Group: int(r.UvarintMax(raftgroup.MaxShard)), Number: r.Uvarint(), Round: r.Uvarint(), View: View(r.Uint8())}
		if r.Err() == nil && (q.View < Newest || q.View > Cut) {
			r.Fail(fmt.Errorf("%d is not a view", uint8(q.View)))
		}
		q.Snapshot, q.Ranges = readSnapshot(&r), r.Ranges()
		m = q
	case kindRows:
		a := &Rows{Group: int(r.UvarintMax(raftgroup.MaxShard)), Number: r.Uvarint(), Round: r.Uvarint(), TooOld: r.Flag()}
		a.Snapshot, a.Found = readSnapshot(&r), raftgroup.ReadFound(&r)
		m = a
	case kindSubmit:
		s := &Submit{Group: int(r.UvarintMax(raftgroup.MaxShard)), Term: r.Uvarint(), Number: r.Uvarint(), Again: r.Flag()}
		s.Update = readUpdate(&r)
		m = s
	case kindVote:
		m = readVote(&r)
	case kindAnswer:
		m = &Answer{int(r.UvarintMax(raftgroup.MaxShard)), r.Uvarint(), readVerdict(&r, Commit), r.Flag()}
	default:
		return nil, fmt.Errorf("message kind %d is not one of sdur's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
