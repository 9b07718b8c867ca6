package janus

import (
	"cmp"
	"fmt"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Instance identifies one attempt at a transaction: the coordinator's node (16 bits) and a number that the coordinator
// counts from 1 (48 bits). The instances of a coordinator form its row. A replica receives a row in order, because
// links keep the order of messages.
type Instance uint64

const seqBits = 48

func instance(n geo.NodeID, seq uint64) Instance { return Instance(uint64(n)<<seqBits | seq) }

// Node returns the coordinator.
func (i Instance) Node() geo.NodeID { return geo.NodeID(i >> seqBits) }

// Seq returns the position in the coordinator's row, from 1.
func (i Instance) Seq() uint64 { return uint64(i) & (1<<seqBits - 1) }

func (i Instance) String() string { return fmt.Sprintf("%d/%d", i.Node(), i.Seq()) }

// byName is the execution order within a strongly connected component: by number, then by coordinator. If the
// coordinator were compared first, the transactions of the first coordinator would always precede all others.
func byName(a, b *record) int {
	if c := cmp.Compare(a.id.Seq(), b.id.Seq()); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// Dep is a dependency: an instance that precedes the dependent instance, unless both are in the same cycle.
type Dep struct {
	ID Instance
	// Partition is the partition that found the conflict.
	Partition uint16
	// Settled is set if the replica that reported the dependency had already found the instance's component complete. The
	// dependent is then not in that component, so other partitions need not inquire about the instance.
	Settled bool
}

func compareDeps(a, b Dep) int {
	if c := cmp.Compare(a.ID, b.ID); c != 0 {
		return c
	}
	return cmp.Compare(a.Partition, b.Partition)
}

// Ballot numbers the attempts to decide an instance; 0 is the coordinator's attempt. Any other ballot consists of a
// round and, in the low 16 bits, the name of the node that took over. The name is the node's number plus the number of
// nodes times its incarnation. No two incarnations share a ballot.
type Ballot uint64

func (b Ballot) next(n geo.NodeID) Ballot { return (b>>16+1)<<16 | Ballot(n) }

// owner returns the node that tries to decide instance i under ballot b, and the incarnation of that node at the time.
// nodes is the number of nodes of the database.
func (b Ballot) owner(i Instance, nodes int) (n geo.NodeID, incarnation uint32) {
	if b == 0 {
		return i.Node(), protocol.IncarnationOf(i.Seq())
	}
	name := uint32(b & 0xffff)
	return geo.NodeID(name % uint32(nodes)), name / uint32(nodes)
}

// Phase is the progress of an instance at a replica.
type Phase uint8

// The phases.
const (
	Unknown     Phase = iota // only the ID is known, or the transaction from a message other than PreAccept
	PreAccepted              // with the replica's own dependencies
	Accepted                 // with dependencies proposed by the coordinator or by the node that took over
	Committed                // with final dependencies
	Ordered                  // position in the execution order is final
)

// record is a replica's state of an instance.
type record struct {
	id       Instance
	t        *txn.Transaction // nil if unknown
	phase    Phase
	promised Ballot // highest ballot known here
	accepted Ballot // ballot in which deps were accepted
	deps     []Dep  // sorted
	noop     bool   // the value is that the instance never happened
	foreign  bool   // does not touch this replica's partition, or is stable and must not execute again
	client   bool   // a client of this node waits for it
	asked    bool   // an Inquire was sent
	watched  bool   // this replica ensures that the instance is decided
	counted  bool   // counted in graph.open
	executed bool   // execution has ended here
	admitted bool   // recorded in its coordinator's row
	taken    bool   // ordered at the donor before this incarnation joined, so its component is unknown here
	turn     uint64 // position in the order in which this node orders instances
	// attempted is the time of another node's last attempt to decide the instance. It is set only if this node abstains
	// from voting on the instance.
	attempted time.Duration
	askedOf   uint16 // partition that the Inquire was sent to
	resends   uint8  // number of repeated Inquires

	served *served // reads that this node sent to other partitions, or nil

	lead *lead // set while this node tries to decide the instance
	// inquirers are the nodes to notify when the instance commits here.
	inquirers []geo.NodeID

	// Resolution: see graph.
	resolved bool
	scc      *component // nil for a component with one member
	looked   int32      // number of leading deps that need no further examination
	leader   *record    // of the group, possibly indirect; nil if this record is the leader
	watch    *record    // leader only: the dependency that the group watches
	watchers []*record  // records that started to watch this instance as leaders; some may have stopped
	walk     uint64     // number of the last walk that visited this instance
	// more links the members of a group, starting at the leader. last is the last member; it is set only at the leader,
	// and is nil if the leader is the only member. open, moreOpen and lastOpen form the list of the members whose
	// dependencies are not all examined.
	more, last         *record
	moreOpen, lastOpen *record
	open               *record // leader only
	joined             bool    // open is initialized
}

// component is a strongly connected component of several instances. It contains the last member in each row that has
// members.
type component []Instance

// row is a replica's state of one coordinator's instances.
type row struct {
	received uint64 // last number received from the coordinator
	closed   uint64 // numbers up to closed are no longer pre-accepted: see recovery
	done     uint64 // all received instances up to this number are ordered here
	former   uint64 // last number of the coordinator's earlier incarnations
	stable   uint64 // all replicas have ordered all instances up to this number
	forget   uint64 // all nodes know that instances up to this number are stable
	undone   queue.Queue[*record]
	kept     []*record // received and not discarded

	// decided counts the known decisions of instances that touch this partition, except no-ops. last is the highest
	// number among these instances. strays are the instances among them that the coordinator had not sent to this
	// replica when the decision arrived. See antiEntropy.
	decided   uint64
	last      uint64
	strays    []*record
	exchanges []exchange // by index in this partition's group; nil if no replica was queried
}

// find returns the record of an instance, or nil.
func (r *Replica) find(id Instance) *record { return r.records[id] }

// know returns the record of an instance whose decision this replica needs, and creates the record if needed. The
// record counts as open and is watched until the instance is decided.
func (r *Replica) know(id Instance) *record {
	rec := r.hearOf(id)
	if !rec.watched {
		rec.watched, rec.counted = true, true
		r.graph.open++
		r.recovery.watch(rec)
	}
	return rec
}

// hearOf returns the record of an instance, and creates the record if needed. Unlike know, it does not watch the
// instance, because this replica does not need the decision. A node that needs the decision watches the instance
// itself. If the instance does not concern this replica, there may be no node that can report this, so a watch might
// never end.
func (r *Replica) hearOf(id Instance) *record {
	rec := r.records[id]
	if rec == nil {
		rec = &record{id: id}
		r.records[id] = rec
	}
	return rec
}

// forgotten reports whether an instance is stable, that is, ordered by all replicas. Its record may have been
// discarded.
func (r *Replica) forgotten(id Instance) bool { return id.Seq() <= r.rows[id.Node()].stable }

// orderedBefore reports whether this replica has already ordered and discarded rec's instance.
func (r *Replica) orderedBefore(rec *record) bool {
	// Only learn marks an instance that touches this partition as foreign, and only if the instance is stable.
	return rec.foreign && rec.t != nil && r.touches(rec.t, r.partition)
}

// learn adds a transaction to its record. A message about another node's inquiry or attempt may refer to a stable
// instance whose record was discarded. learn treats such an instance as foreign, because this replica must not execute
// it again.
func (r *Replica) learn(rec *record, t *txn.Transaction) {
	if t == nil || rec.t != nil {
		return
	}
	rec.t = t
	rec.foreign = !r.touches(t, r.partition) || r.forgotten(rec.id)
}
