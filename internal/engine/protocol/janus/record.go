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

// Instance names one attempt at a transaction: the coordinator's node (16 bits) and its number there, from 1 (48 bits).
// The instances of one coordinator are its row. A replica receives them in the order of the row, since links keep
// order.
type Instance uint64

const seqBits = 48

func instance(n geo.NodeID, seq uint64) Instance { return Instance(uint64(n)<<seqBits | seq) }

// Node returns the coordinator.
func (i Instance) Node() geo.NodeID { return geo.NodeID(i >> seqBits) }

// Seq returns the place in the coordinator's row, from 1.
func (i Instance) Seq() uint64 { return uint64(i) & (1<<seqBits - 1) }

func (i Instance) String() string { return fmt.Sprintf("%d/%d", i.Node(), i.Seq()) }

// byName is the order of execution inside a strongly connected component: by number, then coordinator, so that no
// coordinator is always first.
func byName(a, b *record) int {
	if c := cmp.Compare(a.id.Seq(), b.id.Seq()); c != 0 {
		return c
	}
	return cmp.Compare(a.id, b.id)
}

// Dep is a dependency: an instance that precedes another instance, unless both are in a cycle.
type Dep struct {
	ID Instance
	// Partition has found the conflict.
	Partition uint16
	// Settled reports that a replica of the partition had found the instance's component complete when it reported the
	// dependency. An instance that depends on it then is not in the component, so other partitions need not ask for it.
	Settled bool
}

func compareDeps(a, b Dep) int {
	if c := cmp.Compare(a.ID, b.ID); c != 0 {
		return c
	}
	return cmp.Compare(a.Partition, b.Partition)
}

// Ballot numbers the attempts to decide an instance: 0 is its coordinator's attempt. Other ballots hold a round and, in
// the last 16 bits, the node that took over plus the number of nodes times its incarnation. So no two incarnations
// share a ballot.
type Ballot uint64

func (b Ballot) next(n geo.NodeID) Ballot { return (b>>16+1)<<16 | Ballot(n) }

// owner returns the node that is responsible for the instance, and its incarnation at that time, in a database with the
// given number of nodes.
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
	Unknown     Phase = iota // only its name, or its data but not by its coordinator's PreAccept
	PreAccepted              // with the replica's own dependencies
	Accepted                 // with dependencies proposed by the coordinator or by the node that took over
	Committed                // with final dependencies
	Ordered                  // its place in the order of execution is fixed
)

// record is a replica's state of an instance.
type record struct {
	id       Instance
	t        *txn.Transaction // nil: not known
	phase    Phase
	promised Ballot // the highest ballot heard of
	accepted Ballot // the ballot of deps, when accepted
	deps     []Dep  // sorted
	noop     bool   // decided: it never happened
	foreign  bool   // does not touch this replica's partition
	client   bool   // the client waits at this node
	asked    bool   // an Inquire is under way
	watched  bool   // this replica sees to it that it is decided
	counted  bool   // counts as open
	executed bool   // is over here, if it is ordered
	admitted bool   // its row has it
	taken    bool   // was ordered at the node that this incarnation has its rows from, with the component that is not known here
	turn     uint64 // its position among the instances that this node has ordered
	// attempted is the time of the last attempt of another node to decide it, if this node abstains from the vote.
	attempted time.Duration
	askedOf   uint16 // the partition asked
	resends   uint8  // Inquires sent again

	served *served // reads from here for other partitions; nil: none

	lead *lead // while this node tries to decide the instance
	// inquirers wait for the instance to commit here.
	inquirers []geo.NodeID

	// Resolution: see graph.
	resolved bool
	scc      *component // nil if it has no other member
	looked   int32      // how many of deps need not be looked at again
	leader   *record    // of its group, perhaps by way of others; nil: itself
	watch    *record    // at the leader: the dependency for which the group waits
	watchers []*record  // the leaders, at that time, of the instances that watch this instance, or did
	walk     uint64     // the last walk that has visited it
	// more is the group's next member and, at the leader, last its last member, nil for itself. moreOpen and lastOpen are
	// the same for the members from open on, which have dependencies that are yet to be looked at.
	more, last         *record
	moreOpen, lastOpen *record
	open               *record // the leader's
	joined             bool    // open is set
}

// component is a strongly connected component of more than one instance: for each row with members, its last member.
type component []Instance

// row is a replica's state for a coordinator.
type row struct {
	received uint64 // the last number that arrived from the coordinator
	closed   uint64 // numbers up to closed are no longer pre-accepted: see recovery
	done     uint64 // all that was received up to here is ordered
	former   uint64 // the last number that belongs to an earlier incarnation of the coordinator
	stable   uint64 // all instances up to here are ordered by all replicas
	forget   uint64 // all nodes know that up to here
	undone   queue.Queue[*record]
	kept     []*record // received and not forgotten

	// The known decisions of instances that touch this partition, except no-ops: their count, the number of the last
	// instance, and the decisions of instances that had not been received. See antiEntropy.
	decided   uint64
	last      uint64
	strays    []*record
	exchanges []exchange // by place in the group of this partition; nil: no replica was asked
}

// find returns the record of an instance, or nil.
func (r *Replica) find(id Instance) *record { return r.records[id] }

// know returns the record of an instance whose decision matters here, and creates it if needed. The record counts as
// open and is watched until it is decided.
func (r *Replica) know(id Instance) *record {
	rec := r.hearOf(id)
	if !rec.watched {
		rec.watched, rec.counted = true, true
		r.graph.open++
		r.recovery.watch(rec)
	}
	return rec
}

// hearOf returns the record of an instance, and creates it if needed. No instance here waits for a new record. Possibly
// no node can report that it does not concern this replica, so it is not watched: a node that waits for it watches it
// elsewhere.
func (r *Replica) hearOf(id Instance) *record {
	rec := r.records[id]
	if rec == nil {
		rec = &record{id: id}
		r.records[id] = rec
	}
	return rec
}

// forgotten reports whether all replicas have ordered an instance, which may therefore be forgotten here.
func (r *Replica) forgotten(id Instance) bool { return id.Seq() <= r.rows[id.Node()].stable }

// orderedBefore reports whether rec is of an instance that was ordered and forgotten here before.
func (r *Replica) orderedBefore(rec *record) bool {
	return rec.foreign && rec.t != nil && r.touches(rec.t, r.partition)
}

// learn adds a transaction's data to its record. An instance that all replicas have ordered may appear again through an
// inquiry of another partition. It then concerns this replica no more than a foreign instance.
func (r *Replica) learn(rec *record, t *txn.Transaction) {
	if t == nil || rec.t != nil {
		return
	}
	rec.t = t
	rec.foreign = !r.touches(t, r.partition) || r.forgotten(rec.id)
}
