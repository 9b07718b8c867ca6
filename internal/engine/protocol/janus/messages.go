package janus

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/blocks/reconnaissance"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Message kinds. make generate writes the encodings of their structs.
const (
	kindPreAccept = iota + 1
	kindPreAcceptOK
	kindAccept
	kindAcceptOK
	kindCommit
	kindPrepare
	kindPromise
	kindInquire
	kindAncestors
	kindProgress
	kindRowQuery
	kindRowReport
	kindRejoin
)

const maxSeq = 1<<seqBits - 1

func sizeInstance(i Instance) int {
	return codec.SizeUvarint(uint64(i.Node())) + codec.SizeUvarint(i.Seq())
}

func appendInstance(b []byte, i Instance) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(b, uint64(i.Node())), i.Seq())
}

func readInstance(r *codec.Reader) Instance {
	n := r.UvarintMax(1<<16 - 1)
	return instance(geo.NodeID(n), r.UvarintMax(maxSeq))
}

// settledSeq encodes a dependency's number and, in the low bit, whether the dependency is settled.
func settledSeq(d Dep) uint64 {
	v := d.ID.Seq() << 1
	if d.Settled {
		v |= 1
	}
	return v
}

func sizeDeps(deps []Dep, partitions bool) int {
	n := codec.SizeUvarint(uint64(len(deps)))
	for _, d := range deps {
		n += codec.SizeUvarint(uint64(d.ID.Node())) + codec.SizeUvarint(settledSeq(d))
		if partitions {
			n += codec.SizeUvarint(uint64(d.Partition))
		}
	}
	return n
}

// appendDeps appends dependencies to b. It includes their partitions only if partitions is set.
func appendDeps(b []byte, deps []Dep, partitions bool) []byte {
	b = codec.AppendUvarint(b, uint64(len(deps)))
	for _, d := range deps {
		b = codec.AppendUvarint(b, uint64(d.ID.Node()))
		b = codec.AppendUvarint(b, settledSeq(d))
		if partitions {
			b = codec.AppendUvarint(b, uint64(d.Partition))
		}
	}
	return b
}

func readDeps(r *codec.Reader, partitions bool) []Dep {
	// A dependency takes at least two bytes.
	n := r.Count(2)
	if n == 0 {
		return nil
	}
	deps := make([]Dep, n)
	for i := range deps {
		node := r.UvarintMax(1<<16 - 1)
		// The lowest bit is Settled.
		seq := r.UvarintMax(maxSeq<<1 | 1)
		deps[i] = Dep{ID: instance(geo.NodeID(node), seq>>1), Settled: seq&1 != 0}
		if partitions {
			deps[i].Partition = uint16(r.UvarintMax(1<<16 - 1))
		}
	}
	return deps
}

// The dependencies in a PreAcceptOK all belong to the sender's partition, so the message omits the partition: see
// coordinator.grant.
func sizeOwnDeps(deps []Dep) int                { return sizeDeps(deps, false) }
func appendOwnDeps(b []byte, deps []Dep) []byte { return appendDeps(b, deps, false) }
func readOwnDeps(r *codec.Reader) []Dep         { return readDeps(r, false) }

func sizeAllDeps(deps []Dep) int                { return sizeDeps(deps, true) }
func appendAllDeps(b []byte, deps []Dep) []byte { return appendDeps(b, deps, true) }
func readAllDeps(r *codec.Reader) []Dep         { return readDeps(r, true) }

func depsString(deps []Dep) string {
	s := "{"
	for i, d := range deps {
		if i > 0 {
			s += " "
		}
		s += d.ID.String()
	}
	return s + "}"
}

// PreAccept asks a replica for the dependencies of instance Seq of the sender.
type PreAccept struct {
	Seq uint64 `codec:"max=maxSeq"`
	T   *txn.Transaction
}

func (m *PreAccept) String() string { return fmt.Sprintf("pre-accept %d=t%v", m.Seq, m.T.ID) }

// PreAcceptOK answers PreAccept with the dependencies at the sender's partition. Refused is set if another node has
// taken over the instance or closed the row. Seq is the instance's number in the receiver's row.
type PreAcceptOK struct {
	Seq     uint64 `codec:"max=maxSeq"`
	Refused bool
	Deps    []Dep `codec:"as=ownDeps"`
}

func (m *PreAcceptOK) String() string {
	if m.Refused {
		return fmt.Sprintf("pre-accept refused %d", m.Seq)
	}
	return fmt.Sprintf("pre-accept ok %d: after %s", m.Seq, depsString(m.Deps))
}

// Proposal is a value for an instance: its dependencies, or Noop, which means that the instance never happened.
type Proposal struct {
	ID   Instance
	Noop bool
	Deps []Dep `codec:"as=allDeps"`
	// T is set if the receivers may lack the transaction and the sender knows it.
	T *txn.Transaction `codec:"optional"`
}

func (p *Proposal) String() string {
	if p.Noop {
		return fmt.Sprintf("%v: no-op after %s", p.ID, depsString(p.Deps))
	}
	return fmt.Sprintf("%v: after %s", p.ID, depsString(p.Deps))
}

// Accept asks a replica to accept a proposal.
type Accept struct {
	Proposal
	Ballot Ballot
}

func (m *Accept) String() string { return "accept " + m.Proposal.String() + m.Ballot.suffix() }

// suffix describes the ballot, or returns "" for the coordinator's own ballot.
func (b Ballot) suffix() string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf(", ballot %d of %d", b>>16, b&0xffff)
}

// AcceptOK answers Accept. The proposal is accepted if Promised equals Ballot; otherwise Promised is a higher ballot.
type AcceptOK struct {
	ID               Instance
	Ballot, Promised Ballot
}

func (m *AcceptOK) String() string {
	if m.Promised > m.Ballot {
		return fmt.Sprintf("accept refused %v%s", m.ID, m.Promised.suffix())
	}
	return fmt.Sprintf("accept ok %v%s", m.ID, m.Ballot.suffix())
}

// Commit sends a decision.
type Commit struct{ Proposal }

func (m *Commit) String() string { return "commit " + m.Proposal.String() }

// Prepare asks a replica to ignore lower ballots of an instance, and to report its state of the instance.
type Prepare struct {
	ID     Instance
	Ballot Ballot
}

func (m *Prepare) String() string { return fmt.Sprintf("prepare %v%s", m.ID, m.Ballot.suffix()) }

// Promise answers Prepare with the replica's state of the instance. Deps are the dependencies that the sender has
// pre-accepted or accepted, and Accepted is the ballot of the accepted proposal. If Promised is higher than Ballot, the
// sender refuses. If Phase is Unknown, Deps are the dependencies of a no-op: see recovery.
type Promise struct {
	Proposal
	Ballot, Promised, Accepted Ballot
	Phase                      Phase `codec:"enum=Unknown..Accepted"`
}

func (m *Promise) String() string {
	if m.Promised > m.Ballot {
		return fmt.Sprintf("promise refused %v%s", m.ID, m.Promised.suffix())
	}
	what := [...]string{"has not seen", "has pre-accepted", "has accepted"}[min(m.Phase, Accepted)]
	return fmt.Sprintf("promise%s, %s %v", m.Ballot.suffix(), what, &m.Proposal)
}

// Inquire asks a replica of another partition about instances of that partition. Instances of the sender's partition
// may depend on them.
type Inquire struct{ IDs []Instance }

func (m *Inquire) String() string { return fmt.Sprintf("inquire %v", m.IDs) }

// Ancestor is a committed instance of another partition, with the dependencies that may belong to a cycle.
type Ancestor struct {
	ID   Instance
	Deps []Dep `codec:"as=allDeps"`
}

// Ancestors answers Inquire.
type Ancestors struct{ List []Ancestor }

func (m *Ancestors) String() string {
	s := "ancestors:"
	for _, a := range m.List {
		s += fmt.Sprintf(" %v after %s", a.ID, depsString(a.Deps))
	}
	return s
}

// Progress reports the sender's progress with the receiver's row (Done, Heard) and the state of the sender's own row
// (Stable, Forget). See garbage.
type Progress struct{ Done, Heard, Stable, Forget uint64 }

func (m *Progress) String() string {
	return fmt.Sprintf("progress: done %d, heard %d, stable %d, forget %d", m.Done, m.Heard, m.Stable, m.Forget)
}

// RowQuery asks another replica of the sender's partition for its state of the rows of the given coordinators.
type RowQuery struct{ Rows []geo.NodeID }

func (m *RowQuery) String() string { return fmt.Sprintf("query rows of %v", m.Rows) }

// RowKnowledge is a replica's state of a coordinator's row. The replica has received all instances that touch its
// partition up to number Received. Beyond lists the later instances whose decisions it knows, in ascending order.
type RowKnowledge struct {
	Node     geo.NodeID
	Received uint64   `codec:"max=maxSeq"`
	Beyond   []uint64 `codec:"max=maxSeq"`
}

// RowReport answers RowQuery.
type RowReport struct{ Rows []RowKnowledge }

func (m *RowReport) String() string {
	s := "report rows:"
	for i := range m.Rows {
		k := &m.Rows[i]
		s += fmt.Sprintf(" %d received to %d and decided %v", k.Node, k.Received, k.Beyond)
	}
	return s
}

// RejoinStep is the kind of a Rejoin message.
type RejoinStep uint8

// The steps.
const (
	// welcome reports the last number of the sender's row that was sent to the receiver's predecessor.
	welcome RejoinStep = iota + 1
	// askState requests the receiver's state for the sender's partition. stateHere acknowledges the receipt of that state.
	askState
	stateHere
	// told states that the sender has sent all decisions that it knows about instances of Node's incarnations before
	// Number. ordered answers told: its sender has ordered all such instances that it knows.
	told
	ordered
	// settled reports that all replicas of the sender's partition have ordered all instances of the receiver's
	// predecessors that the sender knows.
	settled
	// askElsewhere answers an inquiry about instance Number of Node: the receiver must ask another copy.
	askElsewhere
)

// Rejoin is a message between a new incarnation and the other nodes: see rejoin.
type Rejoin struct {
	Step   RejoinStep `codec:"enum=welcome..askElsewhere"`
	Node   geo.NodeID
	Number uint64 `codec:"max=maxSeq"`
}

func (m *Rejoin) String() string {
	switch m.Step {
	case welcome:
		return fmt.Sprintf("welcome: instances up to %d were sent to the predecessor", m.Number)
	case askState:
		return "ask for the state"
	case stateHere:
		return "has the state"
	case told:
		return fmt.Sprintf("told all of node %d before incarnation %d", m.Node, m.Number)
	case ordered:
		return fmt.Sprintf("ordered all of node %d before incarnation %d", m.Node, m.Number)
	case settled:
		return fmt.Sprintf("settled all before incarnation %d", m.Number)
	default:
		return fmt.Sprintf("ask others for %v", instance(m.Node, m.Number))
	}
}

var decode = protocol.Decode("janus", decodeMessage, statetransfer.Decode, deterministic.Decode, reconnaissance.Decode)
