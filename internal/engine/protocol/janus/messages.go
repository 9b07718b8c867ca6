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

// Message kinds.
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

// sizeTxn, appendTxn and readTxn encode a transaction that may be nil.
func sizeTxn(t *txn.Transaction) int {
	if t == nil {
		return 1
	}
	return 1 + codec.SizeTransaction(t)
}

func appendTxn(b []byte, t *txn.Transaction) []byte {
	if t == nil {
		return append(b, 0)
	}
	return codec.AppendTransaction(append(b, 1), t)
}

func readTxn(r *codec.Reader, procs *txn.Registry) *txn.Transaction {
	if !readBool(r) {
		return nil
	}
	return readWholeTxn(r, procs)
}

func readWholeTxn(r *codec.Reader, procs *txn.Registry) *txn.Transaction {
	t := &txn.Transaction{}
	r.Transaction(t)
	if r.Err() != nil {
		return nil
	}
	if err := procs.Prepare(t); err != nil {
		r.Fail(err)
		return nil
	}
	return t
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func readBool(r *codec.Reader) bool {
	v := r.Uint8()
	if v > 1 {
		r.Fail(fmt.Errorf("%d is neither yes nor no", v))
	}
	return v == 1
}

// PreAccept asks a replica for the dependencies of instance Seq of the sender.
type PreAccept struct {
	Seq uint64
	T   *txn.Transaction
}

// Kind implements protocol.Message.
func (m *PreAccept) Kind() uint8 { return kindPreAccept }

// Size implements protocol.Message.
func (m *PreAccept) Size() int { return codec.SizeUvarint(m.Seq) + codec.SizeTransaction(m.T) }

// AppendTo implements protocol.Message.
func (m *PreAccept) AppendTo(b []byte) []byte {
	return codec.AppendTransaction(codec.AppendUvarint(b, m.Seq), m.T)
}

func (m *PreAccept) String() string { return fmt.Sprintf("pre-accept %d=t%v", m.Seq, m.T.ID) }

// PreAcceptOK answers PreAccept with the dependencies at the sender's partition. Refused is set if another node has
// taken over the instance or closed the row. Seq is the instance's number in the receiver's row.
type PreAcceptOK struct {
	Seq     uint64
	Refused bool
	Deps    []Dep
}

// Kind implements protocol.Message.
func (m *PreAcceptOK) Kind() uint8 { return kindPreAcceptOK }

// Size implements protocol.Message.
func (m *PreAcceptOK) Size() int { return codec.SizeUvarint(m.Seq) + 1 + sizeDeps(m.Deps, false) }

// AppendTo implements protocol.Message.
func (m *PreAcceptOK) AppendTo(b []byte) []byte {
	// The receiver derives the partition from the sender: see coordinator.grant.
	return appendDeps(appendBool(codec.AppendUvarint(b, m.Seq), m.Refused), m.Deps, false)
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
	Deps []Dep
	// T is set if the receivers may lack the transaction and the sender knows it.
	T *txn.Transaction
}

func (p *Proposal) size() int { return sizeInstance(p.ID) + 1 + sizeDeps(p.Deps, true) + sizeTxn(p.T) }

func (p *Proposal) appendTo(b []byte) []byte {
	b = appendBool(appendInstance(b, p.ID), p.Noop)
	return appendTxn(appendDeps(b, p.Deps, true), p.T)
}

func readProposal(r *codec.Reader, procs *txn.Registry) (p Proposal) {
	p.ID = readInstance(r)
	p.Noop = readBool(r)
	p.Deps = readDeps(r, true)
	p.T = readTxn(r, procs)
	return p
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

// Kind implements protocol.Message.
func (m *Accept) Kind() uint8 { return kindAccept }

// Size implements protocol.Message.
func (m *Accept) Size() int { return m.size() + codec.SizeUvarint(uint64(m.Ballot)) }

// AppendTo implements protocol.Message.
func (m *Accept) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(m.appendTo(b), uint64(m.Ballot))
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

// Kind implements protocol.Message.
func (m *AcceptOK) Kind() uint8 { return kindAcceptOK }

// Size implements protocol.Message.
func (m *AcceptOK) Size() int {
	return sizeInstance(m.ID) + codec.SizeUvarint(uint64(m.Ballot)) + codec.SizeUvarint(uint64(m.Promised))
}

// AppendTo implements protocol.Message.
func (m *AcceptOK) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(appendInstance(b, m.ID), uint64(m.Ballot))
	return codec.AppendUvarint(b, uint64(m.Promised))
}

func (m *AcceptOK) String() string {
	if m.Promised > m.Ballot {
		return fmt.Sprintf("accept refused %v%s", m.ID, m.Promised.suffix())
	}
	return fmt.Sprintf("accept ok %v%s", m.ID, m.Ballot.suffix())
}

// Commit sends a decision.
type Commit struct{ Proposal }

// Kind implements protocol.Message.
func (m *Commit) Kind() uint8 { return kindCommit }

// Size implements protocol.Message.
func (m *Commit) Size() int { return m.size() }

// AppendTo implements protocol.Message.
func (m *Commit) AppendTo(b []byte) []byte { return m.appendTo(b) }

func (m *Commit) String() string { return "commit " + m.Proposal.String() }

// Prepare asks a replica to ignore lower ballots of an instance, and to report its state of the instance.
type Prepare struct {
	ID     Instance
	Ballot Ballot
}

// Kind implements protocol.Message.
func (m *Prepare) Kind() uint8 { return kindPrepare }

// Size implements protocol.Message.
func (m *Prepare) Size() int { return sizeInstance(m.ID) + codec.SizeUvarint(uint64(m.Ballot)) }

// AppendTo implements protocol.Message.
func (m *Prepare) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(appendInstance(b, m.ID), uint64(m.Ballot))
}

func (m *Prepare) String() string { return fmt.Sprintf("prepare %v%s", m.ID, m.Ballot.suffix()) }

// Promise answers Prepare with the replica's state of the instance. Deps are the dependencies that the sender has
// pre-accepted or accepted, and Accepted is the ballot of the accepted proposal. If Promised is higher than Ballot, the
// sender refuses. If Phase is Unknown, Deps are the dependencies of a no-op: see recovery.
type Promise struct {
	Proposal
	Ballot, Promised, Accepted Ballot
	Phase                      Phase
}

// Kind implements protocol.Message.
func (m *Promise) Kind() uint8 { return kindPromise }

// Size implements protocol.Message.
func (m *Promise) Size() int {
	return m.size() + codec.SizeUvarint(uint64(m.Ballot)) + codec.SizeUvarint(uint64(m.Promised)) +
		codec.SizeUvarint(uint64(m.Accepted)) + 1
}

// AppendTo implements protocol.Message.
func (m *Promise) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(m.appendTo(b), uint64(m.Ballot))
	b = codec.AppendUvarint(b, uint64(m.Promised))
	return append(codec.AppendUvarint(b, uint64(m.Accepted)), byte(m.Phase))
}

func (m *Promise) String() string {
	if m.Promised > m.Ballot {
		return fmt.Sprintf("promise refused %v%s", m.ID, m.Promised.suffix())
	}
	what := [...]string{"has not seen", "has pre-accepted", "has accepted"}[min(m.Phase, Accepted)]
	return fmt.Sprintf("promise%s, %s %v", m.Ballot.suffix(), what, &m.Proposal)
}

// Inquire asks a replica of another partition for instances of its partition that instances of the sender's partition
// may depend on.
type Inquire struct{ IDs []Instance }

// Kind implements protocol.Message.
func (m *Inquire) Kind() uint8 { return kindInquire }

// Size implements protocol.Message.
func (m *Inquire) Size() int {
	n := codec.SizeUvarint(uint64(len(m.IDs)))
	for _, i := range m.IDs {
		n += sizeInstance(i)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Inquire) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.IDs)))
	for _, i := range m.IDs {
		b = appendInstance(b, i)
	}
	return b
}

func (m *Inquire) String() string { return fmt.Sprintf("inquire %v", m.IDs) }

// Ancestor is a committed instance of another partition, with the dependencies that may belong to a cycle.
type Ancestor struct {
	ID   Instance
	Deps []Dep
}

// Ancestors answers Inquire.
type Ancestors struct{ List []Ancestor }

// Kind implements protocol.Message.
func (m *Ancestors) Kind() uint8 { return kindAncestors }

// Size implements protocol.Message.
func (m *Ancestors) Size() int {
	n := codec.SizeUvarint(uint64(len(m.List)))
	for _, a := range m.List {
		n += sizeInstance(a.ID) + sizeDeps(a.Deps, true)
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *Ancestors) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.List)))
	for _, a := range m.List {
		b = appendDeps(appendInstance(b, a.ID), a.Deps, true)
	}
	return b
}

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

// Kind implements protocol.Message.
func (m *Progress) Kind() uint8 { return kindProgress }

// Size implements protocol.Message.
func (m *Progress) Size() int {
	return codec.SizeUvarint(m.Done) + codec.SizeUvarint(m.Heard) + codec.SizeUvarint(m.Stable) + codec.SizeUvarint(m.Forget)
}

// AppendTo implements protocol.Message.
func (m *Progress) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(codec.AppendUvarint(b, m.Done), m.Heard)
	return codec.AppendUvarint(codec.AppendUvarint(b, m.Stable), m.Forget)
}

func (m *Progress) String() string {
	return fmt.Sprintf("progress: done %d, heard %d, stable %d, forget %d", m.Done, m.Heard, m.Stable, m.Forget)
}

// RowQuery asks another replica of the sender's partition for its state of the rows of the given coordinators.
type RowQuery struct{ Rows []geo.NodeID }

// Kind implements protocol.Message.
func (m *RowQuery) Kind() uint8 { return kindRowQuery }

// Size implements protocol.Message.
func (m *RowQuery) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Rows)))
	for _, c := range m.Rows {
		n += codec.SizeUvarint(uint64(c))
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *RowQuery) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Rows)))
	for _, c := range m.Rows {
		b = codec.AppendUvarint(b, uint64(c))
	}
	return b
}

func (m *RowQuery) String() string { return fmt.Sprintf("query rows of %v", m.Rows) }

// RowKnowledge is a replica's state of a coordinator's row. The replica has received all instances that touch its
// partition up to number Received. Beyond lists the later instances whose decisions it knows, in ascending order.
type RowKnowledge struct {
	Node     geo.NodeID
	Received uint64
	Beyond   []uint64
}

// RowReport answers RowQuery.
type RowReport struct{ Rows []RowKnowledge }

// Kind implements protocol.Message.
func (m *RowReport) Kind() uint8 { return kindRowReport }

// Size implements protocol.Message.
func (m *RowReport) Size() int {
	n := codec.SizeUvarint(uint64(len(m.Rows)))
	for i := range m.Rows {
		k := &m.Rows[i]
		n += codec.SizeUvarint(uint64(k.Node)) + codec.SizeUvarint(k.Received) + codec.SizeUvarint(uint64(len(k.Beyond)))
		for _, seq := range k.Beyond {
			n += codec.SizeUvarint(seq)
		}
	}
	return n
}

// AppendTo implements protocol.Message.
func (m *RowReport) AppendTo(b []byte) []byte {
	b = codec.AppendUvarint(b, uint64(len(m.Rows)))
	for i := range m.Rows {
		k := &m.Rows[i]
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(k.Node)), k.Received)
		b = codec.AppendUvarint(b, uint64(len(k.Beyond)))
		for _, seq := range k.Beyond {
			b = codec.AppendUvarint(b, seq)
		}
	}
	return b
}

func (m *RowReport) String() string {
	s := "report rows:"
	for i := range m.Rows {
		k := &m.Rows[i]
		s += fmt.Sprintf(" %d received to %d and decided %v", k.Node, k.Received, k.Beyond)
	}
	return s
}

func readRowKnowledge(r *codec.Reader) RowKnowledge {
	k := RowKnowledge{Node: geo.NodeID(r.UvarintMax(1<<16 - 1)), Received: r.UvarintMax(maxSeq)}
	if n := r.Count(1); n > 0 {
		k.Beyond = make([]uint64, n)
		for i := range k.Beyond {
			k.Beyond[i] = r.UvarintMax(maxSeq)
		}
	}
	return k
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
	// told follows all decisions that the sender knows about instances of Node's incarnations before Number. ordered is
	// the answer to told: its sender has ordered all such instances that it knows.
	told
	ordered
	// settled reports that all replicas of the sender's partition have ordered all instances of the receiver's
	// predecessors that the sender knows.
	settled
	// askElsewhere answers an inquiry about instance Number of Node: the receiver must ask another copy.
	askElsewhere
	rejoinSteps
)

// Rejoin is a message between a new incarnation and the other nodes: see rejoin.
type Rejoin struct {
	Step   RejoinStep
	Node   geo.NodeID
	Number uint64
}

// Kind implements protocol.Message.
func (m *Rejoin) Kind() uint8 { return kindRejoin }

// Size implements protocol.Message.
func (m *Rejoin) Size() int {
	return 1 + codec.SizeUvarint(uint64(m.Node)) + codec.SizeUvarint(m.Number)
}

// AppendTo implements protocol.Message.
func (m *Rejoin) AppendTo(b []byte) []byte {
	return codec.AppendUvarint(codec.AppendUvarint(append(b, byte(m.Step)), uint64(m.Node)), m.Number)
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

// decode is Engine.Decode.
func decode(kind uint8, body []byte, procs *txn.Registry) (protocol.Message, error) {
	if m, known, err := statetransfer.Decode(kind, body); known {
		return m, err
	}
	if m, known, err := deterministic.Decode(kind, body); known {
		return m, err
	}
	if m, known, err := reconnaissance.Decode(kind, body); known {
		return m, err
	}
	r := codec.NewReader(body)
	var m protocol.Message
	switch kind {
	case kindPreAccept:
		m = &PreAccept{Seq: r.UvarintMax(maxSeq), T: readWholeTxn(&r, procs)}
	case kindPreAcceptOK:
		m = &PreAcceptOK{Seq: r.UvarintMax(maxSeq), Refused: readBool(&r), Deps: readDeps(&r, false)}
	case kindAccept:
		m = &Accept{readProposal(&r, procs), Ballot(r.Uvarint())}
	case kindAcceptOK:
		m = &AcceptOK{readInstance(&r), Ballot(r.Uvarint()), Ballot(r.Uvarint())}
	case kindCommit:
		m = &Commit{readProposal(&r, procs)}
	case kindPrepare:
		m = &Prepare{readInstance(&r), Ballot(r.Uvarint())}
	case kindPromise:
		p := &Promise{Proposal: readProposal(&r, procs)}
		p.Ballot, p.Promised, p.Accepted = Ballot(r.Uvarint()), Ballot(r.Uvarint()), Ballot(r.Uvarint())
		// A replica that knows the decision answers with Commit instead, so a promise reports no later phase.
		if p.Phase = Phase(r.Uint8()); p.Phase > Accepted {
			r.Fail(fmt.Errorf("%d is not a phase before the decision", p.Phase))
		}
		m = p
	case kindInquire:
		q := &Inquire{}
		if n := r.Count(2); n > 0 {
			q.IDs = make([]Instance, n)
			for i := range q.IDs {
				q.IDs[i] = readInstance(&r)
			}
		}
		m = q
	case kindAncestors:
		a := &Ancestors{}
		if n := r.Count(3); n > 0 {
			a.List = make([]Ancestor, n)
			for i := range a.List {
				a.List[i] = Ancestor{readInstance(&r), readDeps(&r, true)}
			}
		}
		m = a
	case kindProgress:
		m = &Progress{r.Uvarint(), r.Uvarint(), r.Uvarint(), r.Uvarint()}
	case kindRowQuery:
		q := &RowQuery{}
		if n := r.Count(1); n > 0 {
			q.Rows = make([]geo.NodeID, n)
			for i := range q.Rows {
				q.Rows[i] = geo.NodeID(r.UvarintMax(1<<16 - 1))
			}
		}
		m = q
	case kindRowReport:
		p := &RowReport{}
		if n := r.Count(3); n > 0 {
			p.Rows = make([]RowKnowledge, n)
			for i := range p.Rows {
				p.Rows[i] = readRowKnowledge(&r)
			}
		}
		m = p
	case kindRejoin:
		j := &Rejoin{Step: RejoinStep(r.Uint8())}
		if j.Step == 0 || j.Step >= rejoinSteps {
			r.Fail(fmt.Errorf("%d is not a step of a new incarnation's", j.Step))
		}
		j.Node, j.Number = geo.NodeID(r.UvarintMax(1<<16-1)), r.UvarintMax(maxSeq)
		m = j
	default:
		return nil, fmt.Errorf("message kind %d is not one of janus's", kind)
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}
