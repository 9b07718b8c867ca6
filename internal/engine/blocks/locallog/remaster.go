package locallog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Remastering (Ren 2019, section 4.3; Nguyen 2023, section 4.5): a row with transactions from another region moves its
// home there. Since every region has a copy of the row, only the right to order its transactions moves.
//
// A remastering is ordered like a multi-home transaction of the old home and the new one, and has a part in both logs;
// all nodes read both. The part in the old home's log ends the row's time there: later requests for it in that log are
// stale. Rows count how often they have been moved, and transactions carry the counts that their coordinator knew. At
// the log position where a transaction requests a lock, every copy compares the counts alike:
//
//   - The row has not been moved since: the lock is requested.
//   - It has: the transaction is stale, whatever its other locks. Its participants notify each other, no node runs it,
//     and its coordinator sends it again, to the homes where it now knows the rows to be. It is another attempt of the
//     same transaction.
//   - It will have been moved once this node has read the old home's log as far as the new home's: the request waits
//     for that.
//
// So the requests for a row are in the same order everywhere: those in its first home's log, up to the move, then those
// in the next home's log. A coordinator relies on a move only when it has read both parts. Its later transactions are
// then after the remastering in both logs, so a remastering agrees with the order of all multi-home transactions.
// Transactions of SLOG's orderer that are ahead of it in one log are ahead of it in the other log, too, and lock queues
// still cannot deadlock.

// restartAfter is the time that a coordinator waits before it sends a stale transaction again: the remastering's part
// in the other log may still be in flight.
const restartAfter = time.Millisecond

// remasterer is a node's knowledge of rows that have moved.
type remasterer struct {
	n *Node
	// after is the number of consecutive transactions of one other region after which a row moves there.
	after int64
	// rows holds the rows that have moved, as of this node's position in the logs. known holds the moves of which the node
	// has read both parts.
	rows, known map[txn.Key]residence
	// halves holds the remasterings of which only one part has been read.
	halves map[txn.ID]half
	// later are the requests that wait for a row to come.
	later map[txn.Key][]laterRequest
	// visits holds, for rows with their home here, the last transactions from another region.
	visits map[txn.Key]visit
	count  uint64 // of the remasterings that this node has begun

	// stale and moving wait for the timer: transactions to be sent again, and rows to be moved.
	stale   []*txn.Transaction
	moving  []Entry
	waiting bool

	restarts, moved int64
}

// residence is a row's home and how often it has been moved.
type residence struct {
	home  geo.Region
	count uint64
}

type half struct {
	residence
	departed, void bool // the part in the old home's log has been read
	arrived        bool // the part in the new home's log has been read
}

type laterRequest struct {
	count uint64
	deterministic.Late
}

var _ = checkpoint.Register[*lateDeparture]()

// lateDeparture is a remastering's part in a log that moves a row on, read before the row arrived.
type lateDeparture struct {
	m     *remasterer
	k     txn.Key
	count uint64
	e     *Entry
}

// Come implements deterministic.Late.
func (l *lateDeparture) Come() { l.m.depart(l.k, l.count, l.e) }

type visit struct {
	from geo.Region
	n    int64
}

func newRemasterer(n *Node, after int64) *remasterer {
	return &remasterer{
		n: n, after: after, rows: map[txn.Key]residence{}, known: map[txn.Key]residence{}, halves: map[txn.ID]half{},
		later: map[txn.Key][]laterRequest{}, visits: map[txn.Key]visit{}, count: uint64(n.c.Incarnation) << moveBits,
	}
}

// Count implements deterministic.Moves.
func (m *remasterer) Count(k txn.Key) uint64 { return m.rows[k].count }

// Later implements deterministic.Moves.
func (m *remasterer) Later(k txn.Key, count uint64, l deterministic.Late) {
	m.n.Env.Mark(requestWaits)
	m.later[k] = append(m.later[k], laterRequest{count, l})
}

// homes returns where the rows of t are, as far as this node knows.
func (m *remasterer) homes(t *txn.Transaction) (homes deterministic.Homes) {
	if len(m.known) == 0 {
		return nil
	}
	for i := range t.Accesses {
		if r, ok := m.known[t.Accesses[i].Key]; ok {
			m.n.Env.Mark(movedAhead)
			homes = append(homes, deterministic.Moved{Access: uint32(i), Home: r.home, Count: r.count})
		}
	}
	return homes
}

// read takes the part of a remastering in home's log.
func (m *remasterer) read(home geo.Region, e *Entry) {
	k := e.Txn.Accesses[0].Key
	from, count := e.Homes.Of(m.n.Placement, e.Txn.Accesses, 0)
	switch {
	case home != from:
		h := m.halves[e.Txn.ID]
		h.arrived = true
		if !h.departed {
			m.n.Env.Mark(arrivedFirst)
		}
		m.half(k, e.Txn.ID, h)
	case count > m.Count(k):
		m.Later(k, count, &lateDeparture{m, k, count, e})
	default:
		m.depart(k, count, e)
	}
	m.n.Executor.Resume()
}

// depart ends a row's time at a home, unless another remastering has done so.
func (m *remasterer) depart(k txn.Key, count uint64, e *Entry) {
	h := m.halves[e.Txn.ID]
	h.residence, h.departed, h.void = residence{e.To, count + 1}, true, count != m.Count(k)
	if !h.void {
		m.rows[k] = h.residence
		m.moved++
		m.n.Env.Mark(moved)
	} else {
		m.n.Env.Mark(moveVoid)
	}
	m.half(k, e.Txn.ID, h)
	for i := 0; i < len(m.later[k]); {
		if r := m.later[k][i]; r.count <= m.Count(k) {
			m.later[k] = append(m.later[k][:i:i], m.later[k][i+1:]...)
			m.n.Env.Mark(requestGoesOn)
			r.Come() // where this moves the row on, it looks itself at all that wait
		} else {
			i++
		}
	}
	if len(m.later[k]) == 0 {
		delete(m.later, k)
	}
}

// half records a part and, once both parts are read, the row's home. A row's moves become known in order. A home starts
// the next move for a transaction of a coordinator that had read both parts of the last move. So in that home's log,
// too, the part of the last move is ahead.
func (m *remasterer) half(k txn.Key, id txn.ID, h half) {
	if !h.arrived || !h.departed {
		m.halves[id] = h
		return
	}
	delete(m.halves, id)
	if !h.void {
		m.n.Env.Mark(movedKnown)
		m.known[k] = h.residence
	}
}

// visit counts the regions' transactions on rows with their home here, and moves rows that are used from elsewhere.
// Only one replica of each partition does this. Transactions that are sent again do not count: otherwise transactions
// that move rows away from each other would never finish.
func (m *remasterer) visit(e *Entry) {
	n := m.n
	from := n.Topology.RegionOf(e.Coordinator)
	if n.Topology.ReplicaOf(n.Self) != 0 || e.Attempt > 0 {
		return
	}
	for i := range e.Txn.Accesses {
		k := e.Txn.Accesses[i].Key
		home, count := e.Homes.Of(n.Placement, e.Txn.Accesses, i)
		if home != n.Region || n.Placement.Partition(k) != n.Topology.PartitionOf(n.Self) || count != m.Count(k) {
			continue
		}
		v := m.visits[k]
		if v.from != from {
			v = visit{from: from}
		}
		v.n++
		if from == home {
			delete(m.visits, k)
		} else if v.n < m.after && !n.Env.Buggify(movesEarly) {
			m.visits[k] = v
		} else {
			delete(m.visits, k)
			m.begin(k, residence{home, count}, from)
		}
	}
}

// firstStream is the first of the streams of ids that remasterings have: clients count theirs from 0.
const firstStream = 1<<24 - 1<<16

// moveBits is the number of bits of a remastering's number that count the remasterings of one incarnation of a node.
const moveBits = 28

// begin has a row moved.
func (m *remasterer) begin(k txn.Key, r residence, to geo.Region) {
	m.count++
	m.n.Env.Mark(moveBegun)
	e := Entry{
		Txn: &txn.Transaction{
			ID:        txn.MakeID(firstStream+uint32(m.n.Self), m.count),
			Footprint: txn.Footprint{Accesses: []txn.Access{{Key: k, Mode: txn.Write}}},
		},
		Coordinator: m.n.Self, LockOnly: true, Placing: Placing{Remaster: true, To: to},
	}
	if r.count > 0 {
		e.Homes = deterministic.Homes{{Home: r.home, Count: r.count}}
	}
	m.moving = append(m.moving, e)
	m.wait()
}

// restart sends a transaction again, a little later.
func (m *remasterer) restart(t *txn.Transaction) {
	m.restarts++
	m.n.Env.Mark(restarted)
	m.stale = append(m.stale, t)
	m.wait()
}

func (m *remasterer) wait() {
	if !m.waiting {
		m.waiting = true
		m.n.Env.After(restartAfter, protocol.Timer{Kind: remasterTimer})
	}
}

// fire performs the work that has waited for the timer. It waits because a step of the executor may be in progress
// before.
func (m *remasterer) fire() {
	stale, moving := m.stale, m.moving
	m.stale, m.moving, m.waiting = nil, nil, false
	for _, t := range stale {
		m.n.send(t)
	}
	for _, e := range moving {
		m.n.c.MultiHome(e)
	}
}
