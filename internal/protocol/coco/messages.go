package coco

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/geobench/geobench/internal/codec"
	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/protocol/raftgroup"
	"github.com/geobench/geobench/internal/protocol/statetransfer"
	"github.com/geobench/geobench/internal/txn"
)

// Message kinds.
const (
	kindRead = iota + 1
	kindRows
	kindLock
	kindLocked
	kindValidate
	kindValidated
	kindWrite
	kindUnlock
	kindDone
	kindSnapshot
	kindStart
	kindStop
	kindVote
	kindCollect
	kindState
	kindView
	kindAlive
	kindReady
	kindMissed
)

// maxEpoch bounds the numbers of epochs and of ballots in messages, so that their successors are numbers, too.
const maxEpoch = 1 << 62

// The number of a member in a message is that of its node, which takes incarnationShift bits, and of its incarnation.
const (
	incarnationShift = 16
	maxMember        = math.MaxUint32<<incarnationShift | raftgroup.MaxNode
)

// Verdict says how an attempt to lock or to validate has ended.
type Verdict uint8

// The verdicts.
const (
	Valid Verdict = iota + 1
	// LockHeld: another transaction has locked a row that is to be written.
	LockHeld
	// WriteChanged: a row that is to be written is not the version that was read.
	WriteChanged
	// ReadLocked: a row that was read is locked by a transaction that may write it before.
	ReadLocked
	// ReadChanged: a row that was read has another version.
	ReadChanged
	lastVerdict = ReadChanged
)

// String returns the reason of an outcome.
func (v Verdict) String() string {
	return [...]string{"", "valid", "lock-held", "write-changed", "read-locked", "read-changed"}[v]
}

// Attempt says which attempt at a transaction a message is about: the epoch, and the attempt's number at the node that
// executes it.
type Attempt struct{ Epoch, Run uint64 }

func (a Attempt) epoch() uint64 { return a.Epoch }

func (a Attempt) size() int { return codec.SizeUvarint(a.Epoch) + codec.SizeUvarint(a.Run) }

func (a Attempt) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, a.Epoch), a.Run)
}

func readAttempt(r *codec.Reader) Attempt { return Attempt{r.UvarintMax(maxEpoch), r.Uvarint()} }

func (a Attempt) String() string { return fmt.Sprintf("%d in epoch %d", a.Run, a.Epoch) }

// Read asks the primary of rows for them.
type Read struct {
	Attempt
	Ranges []txn.Range
}

// Kind implements protocol.Message.
func (m *Read) Kind() uint8 { return kindRead }

// Size implements protocol.Message.
func (m *Read) Size() int { return m.size() + codec.SizeRanges(m.Ranges) }

// AppendTo implements protocol.Message.
func (m *Read) AppendTo(b []byte) []byte { return codec.AppendRanges(m.appendTo(b), m.Ranges) }

func (m *Read) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %v:", m.Attempt)
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v", &m.Ranges[i])
	}
	return b.String()
}

// Rows answers Read.
type Rows struct {
	Attempt
	Found []raftgroup.Found
	// Versions are those of the rows in Found, in that order; a single row has one whether it is there or not.
	Versions []uint64
}

// Kind implements protocol.Message.
func (m *Rows) Kind() uint8 { return kindRows }

// Size implements protocol.Message.
func (m *Rows) Size() int {
	n := m.size() + raftgroup.SizeFound(m.Found) + codec.SizeUvarint(uint64(len(m.Versions)))
	for _, v := range m.Versions {
		n += codec.SizeUvarint(v)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Rows) AppendTo(b []byte) []byte {
	b = raftgroup.AppendFound(m.appendTo(b), m.Found)
	b = codec.AppendUvarint(b, uint64(len(m.Versions)))
	for _, v := range m.Versions {
		b = codec.AppendUvarint(b, v)
	}
	return b
}

func (m *Rows) String() string {
	return fmt.Sprintf("rows for %v: %s, written at %d", m.Attempt, raftgroup.FoundString(m.Found), m.Versions)
}

// Expected is a row with the version that a transaction has read of it.
type Expected struct {
	Key     txn.Key
	Version uint64
	// Known says that the version was read: what is only written has none.
	Known bool
}

func sizeExpected(all []Expected) int {
	n := codec.SizeUvarint(uint64(len(all)))
	for i := range all {
		n += codec.SizeString(string(all[i].Key)) + 1
		if all[i].Known {
			n += codec.SizeUvarint(all[i].Version)
		}
	}
	return n
}

func appendExpected(b []byte, all []Expected) []byte {
	b = codec.AppendUvarint(b, uint64(len(all)))
	for i := range all {
		b = append(codec.AppendString(b, string(all[i].Key)), codec.Flags(all[i].Known, false))
		if all[i].Known {
			b = codec.AppendUvarint(b, all[i].Version)
		}
	}
	return b
}

func readExpected(r *codec.Reader) []Expected {
	n := r.Count(3)
	if n == 0 {
		return nil
	}
	all := make([]Expected, n)
	for i := range all {
		all[i].Key, all[i].Known = r.Key(), r.Flag()
		if all[i].Known {
			all[i].Version = r.Uvarint()
		}
	}
	return all
}

func expectedString(all []Expected) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, " %v", all[i].Key)
		if all[i].Known {
			fmt.Fprintf(&b, "@%d", all[i].Version)
		}
	}
	return b.String()
}

// Lock asks the primary of rows to lock them, which are to be written.
type Lock struct {
	Attempt
	Keys []Expected
}

// Kind implements protocol.Message.
func (m *Lock) Kind() uint8 { return kindLock }

// Size implements protocol.Message.
func (m *Lock) Size() int { return m.size() + sizeExpected(m.Keys) }

// AppendTo implements protocol.Message.
func (m *Lock) AppendTo(b []byte) []byte { return appendExpected(m.appendTo(b), m.Keys) }

func (m *Lock) String() string {
	return fmt.Sprintf("lock for %v:%s", m.Attempt, expectedString(m.Keys))
}

// Locked answers Lock.
type Locked struct {
	Attempt
	Verdict Verdict
	// Least is the first time at which the transaction may write the rows.
	Least uint64
}

// Kind implements protocol.Message.
func (m *Locked) Kind() uint8 { return kindLocked }

// Size implements protocol.Message.
func (m *Locked) Size() int { return m.size() + 1 + codec.SizeUvarint(m.Least) }

// AppendTo implements protocol.Message.
func (m *Locked) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(append(m.appendTo(b), byte(m.Verdict)), m.Least)
}

func (m *Locked) String() string {
	if m.Verdict != Valid {
		return fmt.Sprintf("not locked for %v: %v", m.Attempt, m.Verdict)
	}
	return fmt.Sprintf("locked for %v: may write at %d", m.Attempt, m.Least)
}

// ExpectedRange is a range with the rows that a transaction has found in it, in its order.
type ExpectedRange struct {
	txn.Range
	Rows []Expected
}

// seen returns the part of the range that the transaction knows: it ends at the last row that the limit allows.
func (r *ExpectedRange) seen() txn.Range {
	seen := txn.Range{From: r.From, To: r.To}
	if n := len(r.Rows); n > 0 && n == r.Limit {
		if last := r.Rows[n-1].Key; r.Reverse {
			seen.From = last
		} else {
			seen.To = last + "\x00"
		}
	}
	return seen
}

// Validate asks the primary of rows whether they are what was read, and nobody writes them up to a time.
type Validate struct {
	Attempt
	At     uint64
	Points []Expected
	Ranges []ExpectedRange
}

// Kind implements protocol.Message.
func (m *Validate) Kind() uint8 { return kindValidate }

// Size implements protocol.Message.
func (m *Validate) Size() int {
	n := m.size() + codec.SizeUvarint(m.At) + sizeExpected(m.Points) + codec.SizeUvarint(uint64(len(m.Ranges)))
	for i := range m.Ranges {
		n += codec.SizeRange(&m.Ranges[i].Range) + sizeExpected(m.Ranges[i].Rows)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Validate) AppendTo(b []byte) []byte {
	b = appendExpected(codec.AppendUvarint(m.appendTo(b), m.At), m.Points)
	b = codec.AppendUvarint(b, uint64(len(m.Ranges)))
	for i := range m.Ranges {
		b = appendExpected(codec.AppendRange(b, &m.Ranges[i].Range), m.Ranges[i].Rows)
	}
	return b
}

func (m *Validate) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "validate %v at %d:%s", m.Attempt, m.At, expectedString(m.Points))
	for i := range m.Ranges {
		fmt.Fprintf(&b, " %v:%s", &m.Ranges[i].Range, expectedString(m.Ranges[i].Rows))
	}
	return b.String()
}

// Validated answers Validate.
type Validated struct {
	Attempt
	Verdict Verdict
}

// Kind implements protocol.Message.
func (m *Validated) Kind() uint8 { return kindValidated }

// Size implements protocol.Message.
func (m *Validated) Size() int { return m.size() + 1 }

// AppendTo implements protocol.Message.
func (m *Validated) AppendTo(b []byte) []byte { return append(m.appendTo(b), byte(m.Verdict)) }

func (m *Validated) String() string { return fmt.Sprintf("validated %v: %v", m.Attempt, m.Verdict) }

// Write tells a primary or a copy what a transaction has written, at a time. Whoever has locked rows for it unlocks
// them.
type Write struct {
	Attempt
	Writer txn.ID
	At     uint64
	Writes []txn.WriteEntry
}

// Kind implements protocol.Message.
func (m *Write) Kind() uint8 { return kindWrite }

// Size implements protocol.Message.
func (m *Write) Size() int {
	return m.size() + codec.SizeID(m.Writer) + codec.SizeUvarint(m.At) + codec.SizeWrites(m.Writes)
}

// AppendTo implements protocol.Message.
func (m *Write) AppendTo(b []byte) []byte {
	return codec.AppendWrites(codec.AppendUvarint(codec.AppendID(m.appendTo(b), m.Writer), m.At), m.Writes)
}

func (m *Write) String() string {
	return fmt.Sprintf("write for %v, %v at %d:%s", m.Attempt, m.Writer, m.At, raftgroup.WritesString(m.Writes))
}

// Unlock tells a primary that a transaction was given up.
type Unlock struct{ Attempt }

// Kind implements protocol.Message.
func (m *Unlock) Kind() uint8 { return kindUnlock }

// Size implements protocol.Message.
func (m *Unlock) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Unlock) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Unlock) String() string { return fmt.Sprintf("unlock for %v", m.Attempt) }

// Done tells a node that the sender has executed all its transactions of an epoch, and that all their writes that are
// the node's have been sent.
type Done struct{ Epoch uint64 }

func (m *Done) epoch() uint64 { return m.Epoch }

// Kind implements protocol.Message.
func (m *Done) Kind() uint8 { return kindDone }

// Size implements protocol.Message.
func (m *Done) Size() int { return codec.SizeUvarint(m.Epoch) }

// AppendTo implements protocol.Message.
func (m *Done) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Epoch) }

func (m *Done) String() string { return fmt.Sprintf("has executed epoch %d", m.Epoch) }

// SnapshotRow is a committed row.
type SnapshotRow struct {
	Key    txn.Key
	Writer txn.ID
	Value  []byte
}

func (w *SnapshotRow) size() int {
	return codec.SizeString(string(w.Key)) + codec.SizeID(w.Writer) + codec.SizeBytes(w.Value)
}

// Snapshot brings a node that joins in an epoch rows of a shard as of the epoch's beginning. A shard may take several,
// since the size of a message is bounded.
type Snapshot struct {
	Epoch uint64
	Shard int
	// Last says that no other rows of the shard follow.
	Last bool
	Rows []SnapshotRow
}

func (m *Snapshot) epoch() uint64 { return m.Epoch }

// Kind implements protocol.Message.
func (m *Snapshot) Kind() uint8 { return kindSnapshot }

// Size implements protocol.Message.
func (m *Snapshot) Size() int {
	n := codec.SizeUvarint(m.Epoch) + codec.SizeUvarint(uint64(m.Shard)) + 1 + codec.SizeUvarint(uint64(len(m.Rows)))
	for i := range m.Rows {
		n += m.Rows[i].size()
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Snapshot) AppendTo(b []byte) []byte {
	b = append(codec.AppendUvarint(codec.AppendUvarint(b, m.Epoch), uint64(m.Shard)), codec.Flags(m.Last, false))
	return appendSnapshotRows(b, m.Rows)
}

func appendSnapshotRows(b []byte, rows []SnapshotRow) []byte {
	b = codec.AppendUvarint(b, uint64(len(rows)))
	for i := range rows {
		b = codec.AppendID(codec.AppendString(b, string(rows[i].Key)), rows[i].Writer)
		b = codec.AppendBytes(b, rows[i].Value)
	}
	return b
}

func (m *Snapshot) String() string {
	s := fmt.Sprintf("snapshot of shard %d before epoch %d: %d rows", m.Shard, m.Epoch, len(m.Rows))
	if !m.Last {
		s += ", and more follow"
	}
	return s
}

// Turn is what the coordinator and the members of a view say about an epoch.
type Turn struct{ Ballot, Epoch uint64 }

func (t Turn) size() int { return codec.SizeUvarint(t.Ballot) + codec.SizeUvarint(t.Epoch) }

func (t Turn) appendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, t.Ballot), t.Epoch)
}

func readTurn(r *codec.Reader) Turn { return Turn{r.UvarintMax(maxEpoch), r.UvarintMax(maxEpoch)} }

// Start begins an epoch, and says that the one before is committed.
type Start struct{ Turn }

// Kind implements protocol.Message.
func (m *Start) Kind() uint8 { return kindStart }

// Size implements protocol.Message.
func (m *Start) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Start) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Start) String() string { return fmt.Sprintf("start epoch %d", m.Epoch) }

// Stop ends an epoch: no further transaction begins in it.
type Stop struct{ Turn }

// Kind implements protocol.Message.
func (m *Stop) Kind() uint8 { return kindStop }

// Size implements protocol.Message.
func (m *Stop) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Stop) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Stop) String() string { return fmt.Sprintf("stop epoch %d", m.Epoch) }

// Vote tells the coordinator that the sender has all writes of an epoch that are to be here, and that all nodes have
// executed theirs.
type Vote struct{ Turn }

// Kind implements protocol.Message.
func (m *Vote) Kind() uint8 { return kindVote }

// Size implements protocol.Message.
func (m *Vote) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Vote) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Vote) String() string { return fmt.Sprintf("votes to commit epoch %d", m.Epoch) }

// Collect asks a node for its state, on behalf of a coordinator with a new ballot. Whoever answers takes no part in
// earlier ballots any more.
type Collect struct{ Ballot uint64 }

// Kind implements protocol.Message.
func (m *Collect) Kind() uint8 { return kindCollect }

// Size implements protocol.Message.
func (m *Collect) Size() int { return codec.SizeUvarint(m.Ballot) }

// AppendTo implements protocol.Message.
func (m *Collect) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Ballot) }

func (m *Collect) String() string { return fmt.Sprintf("collect states in ballot %d", m.Ballot) }

// State answers Collect: the last epoch that the sender has voted to commit, all of whose writes it has.
type State struct {
	Turn
	// Base is the epoch whose end the sender's store shows; 0 if it shows none.
	Base uint64
}

// Kind implements protocol.Message.
func (m *State) Kind() uint8 { return kindState }

// Size implements protocol.Message.
func (m *State) Size() int { return m.size() + codec.SizeUvarint(m.Base) }

// AppendTo implements protocol.Message.
func (m *State) AppendTo(b []byte) []byte { return codec.AppendUvarint(m.appendTo(b), m.Base) }

func (m *State) String() string {
	return fmt.Sprintf("has voted for epoch %d, has the rows of epoch %d", m.Epoch, m.Base)
}

// View says who takes part in epochs from one on. Views are what the Raft group of the regions agrees on.
type View struct {
	Ballot uint64
	// Committed is the last epoch that is committed of those before, First the view's first one. In between are epochs
	// that were aborted: who was not asked may have begun the last of them.
	Committed, First uint64
	// Members take part, ascending. Those of them that join get the rows first.
	Members, Joining []geo.NodeID
	// Incarnations are those of the members, in their order; nil where all are the first.
	Incarnations []uint32
	// Aborted are the epochs that views have aborted, ascending: as many of the last ones as are remembered.
	Aborted []uint64
}

// has reports whether a node is a member, and joins whether it is one that joins.
func (v *View) has(n geo.NodeID) bool   { return slices.Contains(v.Members, n) }
func (v *View) joins(n geo.NodeID) bool { return slices.Contains(v.Joining, n) }

// incarnation returns that of a node which takes part.
func (v *View) incarnation(n geo.NodeID) uint32 {
	if v.Incarnations == nil {
		return 0
	}
	if i := slices.Index(v.Members, n); i >= 0 {
		return v.Incarnations[i]
	}
	return 0
}

// Kind implements protocol.Message.
func (v *View) Kind() uint8 { return kindView }

// Size implements protocol.Message.
func (v *View) Size() int {
	n := codec.SizeUvarint(v.Ballot) + codec.SizeUvarint(v.Committed) + codec.SizeUvarint(v.First) + v.sizeMembers() + sizeNodes(v.Joining) +
		codec.SizeUvarint(uint64(len(v.Aborted)))
	for _, e := range v.Aborted {
		n += codec.SizeUvarint(e)
	}
	return n
}

// AppendTo implements protocol.Message.
func (v *View) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(codec.AppendUvarint(b, v.Ballot), v.Committed), v.First)
	b = appendNodes(v.appendMembers(b), v.Joining)
	b = codec.AppendUvarint(b, uint64(len(v.Aborted)))
	for _, e := range v.Aborted {
		b = codec.AppendUvarint(b, e)
	}
	return b
}

func (v *View) String() string {
	s := fmt.Sprintf("view %d of %v: epoch %d is committed, %d begins", v.Ballot, v.Members, v.Committed, v.First)
	if len(v.Joining) > 0 {
		s += fmt.Sprintf(", %v join", v.Joining)
	}
	if v.Incarnations != nil {
		s += fmt.Sprintf(", of incarnations %v", v.Incarnations)
	}
	return s
}

// members are the numbers of the members in messages: those of nodes, with the incarnation in the bits above.
func (v *View) members(f func(uint64)) {
	for i, n := range v.Members {
		m := uint64(n)
		if v.Incarnations != nil {
			m |= uint64(v.Incarnations[i]) << incarnationShift
		}
		f(m)
	}
}

func (v *View) sizeMembers() int {
	n := codec.SizeUvarint(uint64(len(v.Members)))
	v.members(func(m uint64) { n += codec.SizeUvarint(m) })
	return n
}

func (v *View) appendMembers(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(v.Members)))
	v.members(func(m uint64) { b = codec.AppendUvarint(b, m) })
	return b
}

func (v *View) readMembers(r *codec.Reader) {
	n := r.Count(1)
	if n == 0 {
		return
	}
	v.Members = make([]geo.NodeID, n)
	incarnations, later := make([]uint32, n), false
	for i := range v.Members {
		m := r.UvarintMax(maxMember)
		v.Members[i], incarnations[i] = geo.NodeID(m&raftgroup.MaxNode), uint32(m>>incarnationShift)
		later = later || incarnations[i] > 0
	}
	if later {
		v.Incarnations = incarnations
	}
}

func readView(r *codec.Reader) *View {
	v := &View{Ballot: r.UvarintMax(maxEpoch), Committed: r.UvarintMax(maxEpoch), First: r.UvarintMax(maxEpoch)}
	v.readMembers(r)
	v.Joining = readNodes(r)
	if n := r.Count(1); n > 0 {
		v.Aborted = make([]uint64, n)
		for i := range v.Aborted {
			v.Aborted[i] = r.UvarintMax(maxEpoch)
		}
	}
	return v
}

func sizeNodes(nodes []geo.NodeID) int {
	n := codec.SizeUvarint(uint64(len(nodes)))
	for _, m := range nodes {
		n += codec.SizeUvarint(uint64(m))
	}
	return n
}

func appendNodes(b []byte, nodes []geo.NodeID) []byte {
	b = codec.AppendUvarint(b, uint64(len(nodes)))
	for _, m := range nodes {
		b = codec.AppendUvarint(b, uint64(m))
	}
	return b
}

func readNodes(r *codec.Reader) []geo.NodeID {
	n := r.Count(1)
	if n == 0 {
		return nil
	}
	nodes := make([]geo.NodeID, n)
	for i := range nodes {
		nodes[i] = geo.NodeID(r.UvarintMax(raftgroup.MaxNode))
	}
	return nodes
}

// Alive is a node's heartbeat for the coordinator: the last ballot that it knows of.
type Alive struct{ Ballot uint64 }

// Kind implements protocol.Message.
func (m *Alive) Kind() uint8 { return kindAlive }

// Size implements protocol.Message.
func (m *Alive) Size() int { return codec.SizeUvarint(m.Ballot) }

// AppendTo implements protocol.Message.
func (m *Alive) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Ballot) }

func (m *Alive) String() string { return fmt.Sprintf("is alive in ballot %d", m.Ballot) }

// Ready tells the coordinator that a new incarnation, which joins in the view of a ballot, has the rows of its shards now.
type Ready struct{ Ballot uint64 }

// Kind implements protocol.Message.
func (m *Ready) Kind() uint8 { return kindReady }

// Size implements protocol.Message.
func (m *Ready) Size() int { return codec.SizeUvarint(m.Ballot) }

// AppendTo implements protocol.Message.
func (m *Ready) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Ballot) }

func (m *Ready) String() string { return fmt.Sprintf("has its rows in ballot %d", m.Ballot) }

// Missed tells the coordinator that another view is needed: in that of the ballot, the sender has sent to a new incarnation what
// went to its predecessor and is lost, since it did not know of the new one.
type Missed struct{ Ballot uint64 }

// Kind implements protocol.Message.
func (m *Missed) Kind() uint8 { return kindMissed }

// Size implements protocol.Message.
func (m *Missed) Size() int { return codec.SizeUvarint(m.Ballot) }

// AppendTo implements protocol.Message.
func (m *Missed) AppendTo(b []byte) []byte { return codec.AppendUvarint(b, m.Ballot) }

func (m *Missed) String() string {
	return fmt.Sprintf("has sent to a predecessor in ballot %d", m.Ballot)
}

func readVerdict(r *codec.Reader) Verdict {
	v := Verdict(r.Uint8())
	if r.Err() == nil && (v < Valid || v > lastVerdict) {
		r.Fail(fmt.Errorf("%d is not a verdict", uint8(v)))
		return Valid
	}
	return v
}

// decode is Engine.Decode.
func decode(kind uint8, body []byte, _ *txn.Registry) (protocol.Message, error) {
	if kind == consensus.Kind {
		m, err := consensus.Decode(body)
		if err != nil {
			return nil, err // a nil pointer is no nil message
		}
		return m, nil
	}
	if m, known, err := statetransfer.Decode(kind, body); known {
		return m, err
	}
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindRead:
		m = &Read{readAttempt(&r), r.Ranges()}
	case kindRows:
		rows := &Rows{Attempt: readAttempt(&r), Found: raftgroup.ReadFound(&r)}
		if n := r.Count(1); n > 0 {
			rows.Versions = make([]uint64, n)
			for i := range rows.Versions {
				rows.Versions[i] = r.Uvarint()
			}
		}
		m = rows
	case kindLock:
		m = &Lock{readAttempt(&r), readExpected(&r)}
	case kindLocked:
		m = &Locked{readAttempt(&r), readVerdict(&r), r.Uvarint()}
	case kindValidate:
		m = readValidate(&r)
	case kindValidated:
		m = &Validated{readAttempt(&r), readVerdict(&r)}
	case kindWrite:
		m = &Write{readAttempt(&r), r.ID(), r.Uvarint(), r.Writes()}
	case kindUnlock:
		m = &Unlock{readAttempt(&r)}
	case kindDone:
		m = &Done{r.UvarintMax(maxEpoch)}
	case kindSnapshot:
		m = readSnapshot(&r)
	case kindStart:
		m = &Start{readTurn(&r)}
	case kindStop:
		m = &Stop{readTurn(&r)}
	case kindVote:
		m = &Vote{readTurn(&r)}
	case kindCollect:
		m = &Collect{r.UvarintMax(maxEpoch)}
	case kindState:
		m = &State{readTurn(&r), r.UvarintMax(maxEpoch)}
	case kindView:
		m = readView(&r)
	case kindAlive:
		m = &Alive{r.UvarintMax(maxEpoch)}
	case kindReady:
		m = &Ready{r.UvarintMax(maxEpoch)}
	case kindMissed:
		m = &Missed{r.UvarintMax(maxEpoch)}
	default:
		return nil, fmt.Errorf("message kind %d is not one of coco's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func readValidate(r *codec.Reader) *Validate {
	m := &Validate{Attempt: readAttempt(r), At: r.Uvarint(), Points: readExpected(r)}
	if n := r.Count(2); n > 0 {
		m.Ranges = make([]ExpectedRange, n)
		for i := range m.Ranges {
			g := &m.Ranges[i]
			g.Range, g.Rows = r.Range(), readExpected(r)
			if r.Err() == nil && g.Point() {
				r.Fail(errors.New("a single row is validated as a range"))
			}
		}
	}
	return m
}

func readSnapshot(r *codec.Reader) *Snapshot {
	return &Snapshot{Epoch: r.UvarintMax(maxEpoch), Shard: int(r.UvarintMax(raftgroup.MaxShard)), Last: r.Flag(), Rows: readSnapshotRows(r)}
}

func readSnapshotRows(r *codec.Reader) (rows []SnapshotRow) {
	if n := r.Count(4); n > 0 {
		rows = make([]SnapshotRow, n)
		for i := range rows {
			rows[i] = SnapshotRow{r.Key(), r.ID(), r.Bytes()}
		}
	}
	return rows
}
