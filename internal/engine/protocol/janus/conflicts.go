package janus

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
)

// conflicts finds the dependencies of a new transaction: all three kinds, write after read, read after write and write
// after write.
//
// For each key it keeps, per coordinator, the last write and the last read. That is enough, and keeps lists short. A
// later access of the same coordinator depends on the earlier accesses at every replica, because every replica receives
// a row in its order. So an instance that depends on the last access follows all of them. Reads do not conflict. To
// make this hold for them, a read also depends on its coordinator's last read of the key, which is never far behind.
// The last access of an arbitrary coordinator would not suffice: replicas disagree about it. A majority that has seen W
// last need not be the majority that supplied W's own dependencies.
type conflicts struct {
	keys map[txn.Key]*history
	free []*history
	deps []Dep // room for an answer
	// blind leaves out what makes a write come after the reads before it: see WithoutReadWriteEdges.
	blind bool
}

// history holds the uses of a key. Few coordinators use the same key at the same time.
type history struct{ uses []use }

type use struct {
	node        geo.NodeID
	write, read uint64 // 0: none
}

// enter adds t to the histories of its local keys and returns its dependencies, sorted. The slice is valid until the
// next call.
func (r *Replica) enter(id Instance, t *txn.Transaction) []Dep {
	c := &r.conflicts
	c.deps = c.deps[:0]
	node, seq := id.Node(), id.Seq()
	for i := range t.Accesses {
		a := &t.Accesses[i]
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
		write := a.Mode&txn.Write != 0
		var own *use
		for j := range h.uses {
			u := &h.uses[j]
			before := u.write
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
		c.deps = slices.CompactFunc(c.deps, func(a, b Dep) bool { return a.ID == b.ID })
	}
	if r.partitions > 1 {
		for i := range c.deps {
			rec := r.find(c.deps[i].ID)
			c.deps[i].Settled = rec == nil || rec.resolved
		}
	}
	r.counters.dependencies += int64(len(c.deps))
	return c.deps
}

// leave removes an instance that all replicas have ordered from the histories.
func (r *Replica) leave(id Instance, t *txn.Transaction) {
	c := &r.conflicts
	node, seq := id.Node(), id.Seq()
	for i := range t.Accesses {
		h := c.keys[t.Accesses[i].Key]
		if h == nil {
			continue
		}
		for j := range h.uses {
			u := &h.uses[j]
			if u.node != node {
				continue
			}
			if u.write <= seq {
				u.write = 0
			}
			if u.read <= seq {
				u.read = 0
			}
			if u.write == 0 && u.read == 0 {
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
