package locallog

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/deterministic"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Remastering (Ren 2019, section 4.3; Nguyen 2023, section 4.5): if another region uses a row repeatedly, the row's
// home moves there. Every region has a copy of the row, so only the right to order its transactions moves.
//
// A remastering is ordered like a multi-home transaction of the old and the new home, with a part in both logs; all
// nodes read both. After the part in the old home's log, requests for the row in that log are stale. Each row has a
// count of its moves, and a transaction contains the counts that its coordinator knew. At the log position where a
// transaction requests a lock, every copy compares these counts with the same result:
//
//   - Equal counts: the lock is requested.
//   - The row has been moved more often: the transaction is stale, regardless of its other locks. Its participants
//     notify each other, and no node runs it. Its coordinator sends it as another attempt to the homes that the
//     coordinator knows by then.
//   - The row has been moved less often: this node has not read the move in the old home's log yet. The request waits
//     for the move.
//
// All copies therefore process the requests for a row in the same order. The requests in its first home's log up to the
// move come first, followed by the requests in the next home's log. A coordinator relies on a move only when it has
// read both parts. Its later transactions are then after the remastering in both logs, so a remastering agrees with the
// order of all multi-home transactions. A transaction of SLOG's orderer that precedes the remastering in one log
// precedes it in the other, too, so lock queues still cannot deadlock.

// restartAfter is the time that a coordinator waits before it sends a stale transaction again. The remastering's part
// in the other log may still be in flight.
const restartAfter = time.Millisecond

// remasterer manages the moves of rows at a node.
type remasterer struct {
	n *Node
	// after is the number of consecutive transactions from another region after which a row moves there.
	after int64
	// rows holds the rows that have moved, as of this node's log positions. known holds the moves of which the node has
	// read both parts.
	rows, known map[txn.Key]residence
	// halves holds the remasterings of which only one part has been read.
	halves map[txn.ID]half
	// later holds the requests that wait for a row to arrive.
	later map[txn.Key][]laterRequest
	// visits holds, for rows with their home here, the recent consecutive transactions from another region.
	visits map[txn.Key]visit
	count  uint64 // number of the last remastering that this node has started

	// stale holds transactions to be sent again, and moving holds moves to be started, when the timer fires.
	stale   []*txn.Transaction
	moving  []Entry
	waiting bool

	restarts, moved int64
}

// residence is a row's home and the number of its moves.
type residence struct {
	home  geo.Region
	count uint64
}

type half struct {
	residence
	departed, void bool // departed: the part in the old home's log has been read; void: another move preceded it
	arrived        bool // the part in the new home's log has been read
}

type laterRequest struct {
	count uint64
	deterministic.Late
}

var _ = checkpoint.Register[*lateDeparture]()

// lateDeparture is a remastering's part in the old home's log that was read before the row arrived at that home.
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

// homes returns the known moves of the rows of t.
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

// read handles the part of a remastering in home's log.
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
	// The row has not arrived at this home yet: the log that moves it here lags.
	case count > m.Count(k):
		m.Later(k, count, &lateDeparture{m, k, count, e})
	default:
		m.depart(k, count, e)
	}
	m.n.Executor.Resume()
}

// depart moves a row away from its home, unless another remastering has already moved it.
func (m *remasterer) depart(k txn.Key, count uint64, e *Entry) {
	h := m.halves[e.Txn.ID]
	// Two remasterings of a row may be in flight with the same count. The first in the old home's log wins, and the other
	// is void.
	h.residence, h.departed, h.void = residence{e.To, count + 1}, true, count != m.Count(k)
	if !h.void {
		m.rows[k] = h.residence
		m.moved++
		m.n.Env.Mark(moved)
	} else {
		m.n.Env.Mark(moveVoid)
	}
	m.half(k, e.Txn.ID, h)
	// Come may call depart for the same row, which changes m.later[k]; hence the loop re-reads the slice each time.
	for i := 0; i < len(m.later[k]); {
		if r := m.later[k][i]; r.count <= m.Count(k) {
			m.later[k] = append(m.later[k][:i:i], m.later[k][i+1:]...)
			m.n.Env.Mark(requestGoesOn)
			r.Come() // if this moves the row again, depart handles the remaining requests
		} else {
			i++
		}
	}
	if len(m.later[k]) == 0 {
		delete(m.later, k)
	}
}

// half records a part and, once both parts are read, the row's home. A row's moves become known in order. A home starts
// the next move because of a transaction whose coordinator had read both parts of the previous move. The previous
// move's part therefore also has an earlier position in that home's log.
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

// visit counts consecutive transactions of other regions on rows with their home here, and starts moves. Only one
// replica of each partition does this. Retries do not count: otherwise, transactions that take the same rows away from
// each other could be retried endlessly.
func (m *remasterer) visit(e *Entry) {
	n := m.n
	from := n.Topology.RegionOf(e.Coordinator)
	if n.Topology.ReplicaOf(n.Self) != 0 || e.Attempt > 0 {
		return
	}
	for i := range e.Txn.Accesses {
		k := e.Txn.Accesses[i].Key
		home, count := e.Homes.Of(n.Placement, e.Txn.Accesses, i)
		// A different count means that the transaction is stale here; its next attempt goes to the new home.
		if home != n.Region || n.Placement.Partition(k) != n.Topology.PartitionOf(n.Self) || count != m.Count(k) {
			continue
		}
		v := m.visits[k]
		if v.from != from {
			v = visit{from: from}
		}
		v.n++
		// A transaction of the home itself breaks the sequence.
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

// firstStream is the first ID stream of remasterings; clients number their streams from 0.
const firstStream = 1<<24 - 1<<16

// moveBits is the number of low bits in a remastering's number that count the remasterings of one incarnation.
const moveBits = 28

// begin schedules the move of a row.
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

// restart sends a stale transaction again after restartAfter.
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

// fire handles the timer: it sends stale transactions again and starts moves. They wait for the timer because a step of
// the executor may be in progress when they arise.
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
