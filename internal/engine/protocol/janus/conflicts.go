package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// conflicts finds the dependencies of a new transaction. It tracks all three kinds of conflict: write after read, read
// after write, and write after write.
//
// For each key, it keeps only the last write and the last read of each coordinator. This keeps the lists short. It
// suffices because every replica receives a row in order. A later access of a coordinator depends on the same
// coordinator's earlier accesses at every replica. An instance that depends on the last access therefore follows all
// earlier ones. Reads do not conflict with each other, so the argument needs one addition: a read also depends on its
// coordinator's previous read of the key.
//
// A single last access per key, regardless of the coordinator, would not suffice, because replicas disagree about which
// access is last. The majority that reports write W as the last access may differ from the majority that supplied W's
// own dependencies.
type conflicts struct {
	keys map[txn.Key]*history
	free []*history
	deps []Dep // reusable memory for the result of enter
	// blind omits the dependencies of a write on earlier reads: see WithoutReadWriteEdges.
	blind bool
}

// history lists the accesses to a key by coordinator. Few coordinators use the same key at the same time.
type history struct{ uses []use }

type use struct {
	node        geo.NodeID
	write, read uint64 // last numbers; 0 if none
}

// enter adds t to the histories of its local keys and returns its dependencies, sorted. The slice is valid until the
// next call of enter.
func (r *Replica) enter(id Instance, t *txn.Transaction) []Dep {
	c := &r.conflicts
	c.deps = c.deps[:0]
	node, seq := id.Node(), id.Seq()
	for i := range t.Accesses {
		a := &t.Accesses[i]
		// A replica reports conflicts on keys of its own partition only; replicas of the other partitions report the rest.
		if r.partitions > 1 && r.placement.Partition(a.Key) != r.partition {
			continue
		}
		h := c.keys[a.Key]
		if h == nil {
			if n := len(c.free); n > 0 {
				h, c.free = c.free[n-1], c.free[:n-1]
			} else {
				h = &history{}
			}
			c.keys[a.Key] = h
		}
		// An access that reads and writes counts as a write, because writes conflict with every other access.
		write := a.Mode&txn.Write != 0
		var own *use
		for j := range h.uses {
			u := &h.uses[j]
			before := u.write
			// The reads of one coordinator form a chain, so that its last read represents all earlier reads.
			if write && !c.blind || u.node == node {
				before = max(before, u.read)
			}
			if before > 0 {
				c.deps = append(c.deps, Dep{ID: instance(u.node, before), Partition: uint16(r.partition)})
			}
			if u.node == node {
				own = u
			}
		}
		if own == nil {
			h.uses = append(h.uses, use{node: node})
			own = &h.uses[len(h.uses)-1]
		}
		if write {
			own.write = seq
		} else {
			own.read = seq
		}
	}
	if len(c.deps) > 1 {
		slices.SortFunc(c.deps, compareDeps)
		// Several keys may yield the same instance. All these dependencies have this replica's partition, so equal IDs are
		// duplicates.
		c.deps = slices.CompactFunc(c.deps, func(a, b Dep) bool { return a.ID == b.ID })
	}
	// With one partition, no other partition could inquire, so Settled would have no effect.
	if r.partitions > 1 {
		for i := range c.deps {
			rec := r.find(c.deps[i].ID)
			// A discarded instance is stable, so its component is complete.
			c.deps[i].Settled = rec == nil || rec.resolved
		}
	}
	r.counters.dependencies += int64(len(c.deps))
	return c.deps
}

// leave removes a stable instance from the histories of its keys.
func (r *Replica) leave(id Instance, t *txn.Transaction) {
	c := &r.conflicts
	node, seq := id.Node(), id.Seq()
	for i := range t.Accesses {
		h := c.keys[t.Accesses[i].Key]
		// Keys of other partitions have no history here.
		if h == nil {
			continue
		}
		for j := range h.uses {
			u := &h.uses[j]
			if u.node != node {
				continue
			}
			// A later access of the same coordinator has replaced this access and must stay.
			if u.write <= seq {
				u.write = 0
			}
			if u.read <= seq {
				u.read = 0
			}
			if u.write == 0 && u.read == 0 {
				// The order of uses is irrelevant, because enter sorts its result.
				h.uses[j] = h.uses[len(h.uses)-1]
				h.uses = h.uses[:len(h.uses)-1]
			}
			break
		}
		if len(h.uses) == 0 {
			delete(c.keys, t.Accesses[i].Key)
			c.free = append(c.free, h)
		}
	}
}
