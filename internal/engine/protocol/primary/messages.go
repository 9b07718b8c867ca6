package primary

import (
	"fmt"
	"strings"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindRelay = iota + 1
	kindCall
	kindRequest
	kindCommit
	kindReply
	kindAnswer
	kindAppend
	kindAck
	kindTakeover
	kindBehind
	kindAhead
	kindSurvey
	kindStanding
)

// maxNumber bounds the numbers of terms, transactions, round trips and entries, so that sums of these numbers cannot
// overflow.
const maxNumber = 1<<62 - 1

// Relay sends a transaction to the instance of the sender's region, which has the region's sessions.
type Relay struct {
	// Number is the transaction's number at its sender. Oldest is the number of the sender's oldest unanswered
	// transaction.
	Number, Oldest uint64 `codec:"max=maxNumber"`
	Transaction    *txn.Transaction
}

func (m *Relay) String() string { return fmt.Sprintf("relay t%v", m.Transaction.ID) }

// Call sends a transaction to the writer of a term, which executes it.
type Call struct {
	Term, Number, Oldest uint64 `codec:"max=maxNumber"`
	Transaction          *txn.Transaction
}

func (m *Call) String() string { return fmt.Sprintf("call t%v", m.Transaction.ID) }

// Request is a round trip of a transaction that is forwarded statement by statement, or that reads a copy.
type Request struct {
	Term, Number, Oldest uint64 `codec:"max=maxNumber"`
	// Step numbers the transaction's round trips from 1.
	Step uint64 `codec:"max=maxNumber"`
	// First is set in the transaction's first request that is not a barrier. This request creates the session at the
	// writer.
	First bool `codec:"packed"`
	// Barrier is set if the request only asks for the writer's log position.
	Barrier bool `codec:"packed"`
	// Writes are the rows that the statement writes: one row, or none if the request only begins the transaction.
	Writes []txn.WriteEntry
}

func (m *Request) String() string {
	switch {
	case m.Barrier:
		return fmt.Sprintf("%d, step %d: how far is the log?", m.Number, m.Step)
	case len(m.Writes) == 0:
		return fmt.Sprintf("%d, step %d: begin", m.Number, m.Step)
	}
	return fmt.Sprintf("%d, step %d: write", m.Number, m.Step)
}

// Commit ends a transaction that was forwarded statement by statement.
type Commit struct {
	Term, Number, Oldest uint64 `codec:"max=maxNumber"`
	ID                   txn.ID
	// Reads are the reads of the transaction from the sender's copy.
	Reads optimistic.Reads
}

func (m *Commit) String() string { return fmt.Sprintf("%d: commit t%v", m.Number, m.ID) }

// Reply answers a Request.
type Reply struct {
	Term, Number, Step uint64 `codec:"max=maxNumber"`
	// Committed is the last committed entry of the log.
	Committed uint64 `codec:"max=maxNumber"`
}

func (m *Reply) String() string {
	return fmt.Sprintf("%d, step %d is done; the log is at %d", m.Number, m.Step, m.Committed)
}

// Answer sends the outcome of a transaction.
type Answer struct {
	// Relayed is set if the message answers a Relay. Term is then unused.
	Relayed      bool
	Term, Number uint64 `codec:"max=maxNumber"`
	// Entry is the last log entry that the transaction's result may include.
	Entry   uint64 `codec:"max=maxNumber"`
	Outcome txn.Outcome
}

func (m *Answer) String() string {
	return fmt.Sprintf("%d is %v at entry %d", m.Number, m.Outcome.Status, m.Entry)
}

// Entry is a transaction in the log.
type Entry struct {
	// Name is the transaction's name at its coordinator. Oldest is the number of the coordinator's oldest unanswered
	// transaction.
	Name   raftgroup.Name
	Oldest uint64 `codec:"max=maxNumber"`
	// Outcome is the outcome of the committed transaction. It has a result only if the writer has executed the procedure.
	Outcome txn.Outcome
	Writes  []txn.WriteEntry
}

// minEntry is the minimum size of an encoded entry.
const minEntry = 4 + codec.MinOutcome

// Append is a part of the log: entries from First on. Entries up to Committed are committed and may be applied.
type Append struct {
	Term, First, Committed uint64 `codec:"max=maxNumber"`
	Entries                []Entry
}

func (m *Append) String() string {
	if len(m.Entries) == 0 {
		return fmt.Sprintf("the log is committed up to %d", m.Committed)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "log from %d, committed up to %d:", m.First, m.Committed)
	for i := range m.Entries {
		fmt.Fprintf(&b, " t%v", m.Entries[i].Outcome.ID)
	}
	return b.String()
}

// Ack reports that a storage node has the log up to an entry.
type Ack struct {
	Term, Last uint64 `codec:"max=maxNumber"`
}

func (m *Ack) String() string { return fmt.Sprintf("has the log up to %d", m.Last) }

// Takeover announces the writer of a term. The writer's own entries start after entry Base.
type Takeover struct {
	Term   uint64 `codec:"max=maxNumber"`
	Writer geo.NodeID
	Base   uint64 `codec:"max=maxNumber"`
	// Planned is set if the sender is the previous writer, whose log ends at Base.
	Planned bool `codec:"packed"`
	// Recovered is set if the writer is a new incarnation of the previous writer that has recovered the log from its
	// storage. The entries of that log after Base are the first entries of the term.
	Recovered bool `codec:"packed"`
}

func (m *Takeover) String() string {
	return fmt.Sprintf("node %d writes behind entry %d, in term %d", m.Writer, m.Base, m.Term)
}

// Behind requests a copy of the rows.
type Behind struct {
	Term uint64 `codec:"max=maxNumber"`
	// Ask is the sender's number of this request.
	Ask uint64 `codec:"max=maxNumber"`
}

func (m *Behind) String() string { return "asks for a copy" }

// Ahead reports that the sender has received its state up to entry Last as a copy, and does not pass on entries up to
// Last.
type Ahead struct {
	Term, Last uint64 `codec:"max=maxNumber"`
}

func (m *Ahead) String() string { return fmt.Sprintf("passes on what is behind entry %d", m.Last) }

// Survey asks a storage node for its log position, on behalf of a new incarnation of the writer.
type Survey struct{}

func (m *Survey) String() string { return "how far is the log?" }

// Standing answers a Survey.
type Standing struct {
	Term uint64 `codec:"max=maxNumber"`
	// Applied is the last entry applied to the sender's rows. Last is the last entry that the sender has.
	Applied, Last uint64 `codec:"max=maxNumber"`
}

func (m *Standing) String() string {
	return fmt.Sprintf("has the log up to %d, and rows as of %d", m.Last, m.Applied)
}

var decode = protocol.Decode("primary", decodeMessage, statetransfer.Decode)
