package deterministic

import (
	"slices"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
)

// Moved is the location of one of a transaction's rows, as known to the transaction's coordinator. The row has moved
// Count times (the row's counter in Ren 2019, section 4.3), the last time to Home. Access is the index of the row's
// access.
type Moved struct {
	Access uint32
	Home   geo.Region
	Count  uint64
}

// Homes lists the rows of a transaction that have moved. All other rows are at their initial homes.
type Homes []Moved

// Of returns the home of access i and the number of moves of its row.
func (h Homes) Of(p geo.Placement, accesses []txn.Access, i int) (home geo.Region, count uint64) {
	for j := range h {
		if int(h[j].Access) == i {
			return h[j].Home, h[j].Count
		}
	}
	return p.Home(accesses[i].Key), 0
}

// ReasonMoved is the reason of a Refused outcome if a transaction was sent to a row's former home. All copies detect
// this, and none runs the transaction. Its coordinator must send it again.
const ReasonMoved = "moved"

// ReasonStaleFootprint is the reason of a Refused outcome if a transaction used rows that its reconnaissance did not
// find. All copies detect this and discard the transaction's writes. Its coordinator must run another reconnaissance.
const ReasonStaleFootprint = "stale-footprint"

// Aborts lists the reasons for which engines with footprints abort transactions. The only reason is that every
// reconnaissance of a transaction was stale.
var Aborts = []string{ReasonStaleFootprint}

// Moves counts the moves of rows, up to the log position that the node has reached.
type Moves interface {
	Count(k txn.Key) uint64
	// Later calls l.Come once the row has moved count times. It makes these calls in the order in which Later was called.
	// The implementation of Moves must call Executor.Resume afterwards.
	Later(k txn.Key, count uint64, l Late)
}

// Late is an operation that waits until a row moves here. Its type must be registered with package checkpoint.
type Late interface{ Come() }

var _ = checkpoint.Register[*lateRequest]()

// lateRequest is a lock request that waits until its row moves here.
type lateRequest struct {
	x     *Executor
	e     *execution
	key   txn.Key
	mode  txn.Mode
	count uint64
}

// request requests a lock for e. count is the number of the row's moves that the coordinator knew. If the row has moved
// more often, e is stale and gets no lock. If it has moved less often, this node has not reached the last of these
// moves in the log, and the request waits.
func (x *Executor) request(e *execution, a *txn.Access, count uint64) {
	key, mode := a.Key, a.Mode
	if x.c.Moves != nil {
		now := x.c.Moves.Count(key)
		if count < now {
			e.left(key)
			return
		}
		if count > now {
			e.waitLocks++
			e.deferred++
			x.c.Moves.Later(key, count, &lateRequest{x, e, key, mode, count})
			return
		}
	}
	if !x.locks.acquire(e, key, mode&txn.Write != 0) {
		e.waitLocks++
	}
}

// Come implements Late.
func (l *lateRequest) Come() {
	x, e := l.x, l.e
	e.deferred--
	x.completed(e)
	// The row may have moved away again in the same step. In that case, the request is stale.
	if l.count < x.c.Moves.Count(l.key) {
		e.left(l.key)
	} else if !x.locks.acquire(e, l.key, l.mode&txn.Write != 0) {
		return
	}
	x.granted(e)
}

// Resume executes the transactions that calls of Late.Come have unblocked.
func (x *Executor) Resume() { x.drain() }

// current reports whether the number of moves in homes equals the number at this node, for all local rows of t.
func (x *Executor) current(t *txn.Transaction, homes Homes) bool {
	if x.c.Moves == nil {
		return true
	}
	for i := range t.Accesses {
		if _, count := homes.Of(x.placement, t.Accesses, i); x.local(t.Accesses[i].Key) && count != x.c.Moves.Count(t.Accesses[i].Key) {
			return false
		}
	}
	return true
}

func (x *Executor) local(k txn.Key) bool {
	return x.partitions == 1 || x.c.Layout.Shard(k) == x.partition
}

// left records that row k has left the home that e was sent to: e has no lock for k and will not run.
func (e *execution) left(k txn.Key) {
	e.stale = true
	e.unlocked = append(e.unlocked, k)
}

// requested reports whether e has requested a lock for its row k.
func (e *execution) requested(k txn.Key) bool { return !slices.Contains(e.unlocked, k) }
