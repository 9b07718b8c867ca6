package coco

import (
	"maps"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// snapshotBytes bounds the bytes of rows in a Snapshot. It is far below the maximum message size.
const snapshotBytes = 8 << 20

// phase is a node's progress in the running epoch.
type phase uint8

const (
	// outside: the node is not a member of its latest view.
	outside phase = iota
	// running: transactions start.
	running
	// draining: running transactions continue, and no other transaction starts.
	draining
	// drained: all transactions of this node have finished, and it has notified the other nodes.
	drained
)

// epochs is the state of a node in its current epoch and view.
type epochs struct {
	// ballot is the highest ballot received: this node ignores lower ballots. coordinator is the coordinator of that
	// ballot.
	ballot      uint64
	coordinator geo.NodeID
	// view is the latest view that this node knows. Its epochs run only while ballot equals the view's ballot.
	view *View
	// primaries are the nodes that execute reads and locks, by shard.
	primaries []geo.NodeID
	// holds[n][s] reports whether node n holds the rows of shard s.
	holds [][]bool

	epoch uint64
	phase phase
	// began is the start time of the running epoch. lasted is the duration of the previous epoch up to its commit.
	began, lasted time.Duration
	// done[n] is set once member n has executed its transactions of the epoch; doneBy is the number of such members.
	done   []bool
	doneBy int
	// awaiting contains the shards for which this joining node lacks rows; the value is true until the first piece
	// arrives.
	awaiting map[int]bool
	voted    uint64     // the last epoch that this node has voted for
	base     uint64     // the epoch up to which the store has all commits; 0 if its state is incomplete
	aborted  uint64     // the last epoch that was aborted here
	held     []envelope // messages of later epochs
}

// envelope is a message with its sender.
type envelope struct {
	from geo.NodeID
	m    epochal
}

// epochal is a message that belongs to an epoch.
type epochal interface {
	protocol.Message
	epoch() uint64
}

func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }

// receive handles a message of an epoch. It holds messages of epochs that have not started here. It drops messages of
// earlier epochs.
func (r *Replica) receive(from geo.NodeID, m epochal) {
	switch {
	// The sender has entered an epoch that this node enters once the coordinator's Start arrives. Dropping the message
	// would lose a write or a lock.
	case m.epoch() > r.epoch:
		r.env.Mark(messageHeld)
		r.held = append(r.held, envelope{from, m})
	// A message of an earlier epoch is dropped: that epoch was aborted or closed at its sender, and its locks and writes
	// are discarded.
	case m.epoch() == r.epoch && r.phase != outside:
		r.deliver(from, m)
	}
}

func (r *Replica) deliver(from geo.NodeID, m epochal) {
	switch m := m.(type) {
	case *Read:
		found, versions := r.rows.read(m.Ranges)
		r.send(from, &Rows{m.Attempt, found, versions})
	case *Rows:
		r.supply(from, m)
	case *Lock:
		verdict, least := r.rows.lock(run{from, m.Run}, m.Keys)
		r.send(from, &Locked{m.Attempt, verdict, least})
	case *Locked:
		r.lockAnswered(from, m)
	case *Validate:
		r.send(from, &Validated{m.Attempt, r.rows.validate(run{from, m.Run}, m.At, m.Points, m.Ranges)})
	case *Validated:
		r.validationAnswered(from, m)
	case *Write:
		r.counters.writes++
		r.rows.write(run{from, m.Run}, m.Writer, m.At, m.Writes)
	case *Unlock:
		r.rows.unlock(run{from, m.Run})
	case *Done:
		// Count each member once, so that a repeated Done cannot stand for a member that still executes.
		if !r.done[from] {
			r.done[from] = true
			r.doneBy++
		}
	case *Snapshot:
		r.join(m)
	}
}

// current reports whether a coordinator's message about an epoch is valid. Its ballot must be the ballot of the view,
// and this node must know no higher ballot.
func (r *Replica) current(t Turn) bool {
	// A node that has promised a higher ballot must not follow the old coordinator, because the new coordinator may not
	// know the old coordinator's decisions.
	return r.phase != outside && t.Ballot == r.ballot && t.Ballot == r.view.Ballot
}

// start handles Start: it commits the running epoch, for which this node has voted, and starts the next epoch.
func (r *Replica) start(m *Start) {
	// Start of epoch e+1 commits epoch e. If e were not the running epoch, this node would commit an epoch that it has not
	// voted for.
	if !r.current(m.Turn) || m.Epoch != r.epoch+1 {
		return
	}
	r.conclude()
	// A committed epoch shows progress, so earlier failed rounds no longer lengthen the timeouts.
	r.coordination.vain = 0
	r.lasted = r.env.Now() - r.began
	r.run(m.Epoch)
}

// conclude commits the running epoch, for which this node has voted.
func (r *Replica) conclude() {
	r.rows.commit()
	// A node that still waits for rows holds an incomplete state and must not offer it to a new coordinator as its base.
	if len(r.awaiting) == 0 {
		r.base = r.epoch
	}
	r.counters.epochs++
	// Clients receive answers only now: before the commit of the epoch, any transaction of it may still be aborted.
	r.answer()
}

// run starts an epoch and handles the messages held for it.
func (r *Replica) run(epoch uint64) {
	r.epoch, r.phase, r.doneBy, r.began = epoch, running, 0, r.env.Now()
	clear(r.done)
	held := r.held
	// receive appends messages of later epochs to held again, so the loop must run over the old slice.
	r.held = nil
	for _, e := range held {
		r.receive(e.from, e.m)
	}
	for r.txns.waiting.Len() > 0 {
		t := r.txns.waiting.Front()
		r.txns.waiting.Pop()
		r.begin(t)
	}
}

// stop handles Stop: no further transaction starts in the epoch.
func (r *Replica) stop(m *Stop) {
	// A repeated Stop must not move a drained node back to draining: it would send Done twice.
	if r.current(m.Turn) && m.Epoch == r.epoch && r.phase == running {
		r.phase = draining
	}
}

// drain notifies the other nodes once this node's transactions of the epoch have finished, and votes once the
// transactions of all members have finished.
func (r *Replica) drain() {
	// Links keep order, so Done arrives after every write that this node sent in the epoch (section 3).
	if r.phase == draining && len(r.txns.running) == 0 && !r.missed {
		r.phase = drained
		done := &Done{r.epoch}
		for _, n := range r.view.Members {
			r.send(n, done)
		}
	}
	// Vote once per epoch, and only in the view's ballot. After a promise to a higher ballot, a vote must not count
	// for the old coordinator.
	if r.phase != drained || r.voted == r.epoch || r.ballot != r.view.Ballot {
		return
	}
	// A vote promises that this copy can commit. Done from every member shows that all writes of the epoch have arrived.
	// The rows of earlier epochs must be complete, except at a new incarnation that votes during its transfer.
	if (len(r.awaiting) == 0 || r.late) && (r.doneBy == len(r.view.Members) || r.mistake == undrained) {
		r.voted = r.epoch
		r.send(r.epochs.coordinator, &Vote{Turn{r.ballot, r.epoch}})
	}
}

// collect joins a coordinator's new ballot and answers with this node's state. The node no longer takes part in lower
// ballots.
func (r *Replica) collect(from geo.NodeID, m *Collect) {
	// This node has promised a higher ballot: an answer could let two coordinators decide the same epoch.
	if m.Ballot < r.ballot {
		r.env.Mark(collectOutbid)
		return
	}
	r.ballot, r.epochs.coordinator = m.Ballot, from
	// voted and base show the coordinator which epoch may have committed and which nodes can serve rows.
	r.send(from, &State{Turn{m.Ballot, r.voted}, r.base})
}

// enter enters an agreed view: the running epoch ends with the outcome that the view specifies.
func (r *Replica) enter(from geo.NodeID, v *View) {
	// A view of a lower ballot is outdated, and entering the same view twice would restart its first epoch.
	if v.Ballot < r.ballot || v.Ballot == r.view.Ballot {
		return
	}
	r.ballot, r.epochs.coordinator = v.Ballot, from
	member, joins := v.has(r.self) && v.incarnation(r.self) == r.incarnation(), v.joins(r.self)
	if r.phase != outside {
		r.env.Mark(settled)
		// Close the old epoch before the view changes: settle uses the votes and rows of the old view.
		r.settle(v)
	}
	r.view = v
	clear(r.awaiting)
	// Transfers of the old view carry rows as of its epochs; the new view starts from another committed epoch.
	r.cancelTransfers()
	if !member {
		if r.phase != outside {
			r.counters.exclusions++
			r.env.Mark(excluded)
		}
		r.phase = outside
		return
	}
	r.counters.views++
	for shard := range r.primaries {
		r.primaries[shard] = r.choose(shard)
		if joins && r.holds[r.self][shard] {
			r.awaiting[shard] = true
		}
	}
	switch {
	// Members with rows serve the joining members, and keep their own base.
	case !joins:
		r.bring()
	// A new incarnation lost its state, so its base is void, and it fetches rows in pieces while epochs continue.
	case r.incarnation() > 0:
		r.base = 0
		r.awaitTransfers()
	// A node that was omitted from a view may lack commits of the epochs it missed: its base is void until all rows have
	// arrived.
	default:
		r.base = 0
	}
	r.run(v.First)
}

// settle closes the running epoch with the outcome in a view. A node that was omitted from the view and has not voted
// for the epoch may lack some of the epoch's writes.
func (r *Replica) settle(v *View) {
	_, aborted := slices.BinarySearch(v.Aborted, r.epoch)
	switch {
	// The view commits this epoch. This node voted for it, so all writes of the epoch have arrived here.
	case r.epoch == v.Committed && r.voted == r.epoch:
		r.conclude()
	// The view aborts this epoch. Its writes lie above the store, so discarding them restores the last committed state.
	case r.epoch > v.Committed || aborted:
		r.aborted = r.epoch
		r.counters.abortedEpochs++
		r.env.Mark(epochAborted)
		if r.mistake == forgottenCopy && r.self != 0 {
			r.rows.commit()
		}
		r.abandon(txn.Aborted, txn.CauseConflict, ReasonEpochAborted)
	// The view lists the last aborted epochs only. This epoch is older, so its outcome is unknown here, and clients must
	// not receive a guess.
	case len(v.Aborted) == maxAborted && r.epoch < v.Aborted[0]:
		r.abandon(txn.Unknown, txn.CauseNode, ReasonForgotten)
	// The epoch is older than the last committed epoch and not aborted, so it committed.
	case r.voted == r.epoch:
		r.conclude()
	// The epoch committed without this node's vote: clients receive their answers, but the rows here may lack writes and
	// are replaced.
	default:
		r.answer()
	}
	// Locks and uncommitted writes of the closed epoch must not reach the next epoch, whose logical times restart.
	r.rows.forget()
}

// join installs a piece of a shard's rows; the first piece replaces the rows that the node has. Once all its shards are
// complete, the node has the same state as the other nodes.
func (r *Replica) join(m *Snapshot) {
	first, awaited := r.awaiting[m.Shard]
	// A late piece of an earlier view, or a repeated piece, would overwrite newer rows.
	if !awaited {
		return
	}
	// Delete the shard's old rows first: a row that was deleted in the meantime is not in the snapshot and would survive.
	if first {
		r.rows.drop(&r.layout, m.Shard)
	}
	r.rows.restore(m.Rows)
	r.awaiting[m.Shard] = false
	if m.Last {
		delete(r.awaiting, m.Shard)
	}
	r.complete()
}

// complete updates the base of a joining node once it has all its rows.
func (r *Replica) complete() {
	if len(r.awaiting) > 0 {
		return
	}
	// The transferred rows are as of the commit before the view. Epochs that this node executed meanwhile are committed on
	// top of them.
	if r.base = r.view.Committed; r.epoch > r.view.First {
		r.base = r.epoch - 1
	}
	r.env.Mark(joined)
}

// choose returns the primary of a shard in the view: the first member that holds the shard and is not joining.
func (r *Replica) choose(shard int) geo.NodeID {
	for _, n := range r.layout.Group(shard).Members {
		// A joining member has incomplete rows, so it cannot validate or lock for others.
		if r.view.has(n) && !r.view.joins(n) {
			return n
		}
	}
	return r.layout.Group(shard).Leader // unreachable: no coordinator proposes such a view
}

// bring sends joining nodes the rows of the shards whose primary this node is.
func (r *Replica) bring() {
	for shard, primary := range r.primaries {
		// Exactly one member sends each shard. All members have the same committed rows, so the primary suffices.
		if primary != r.self {
			continue
		}
		var pieces [][]SnapshotRow
		for _, n := range r.view.Joining {
			// New incarnations fetch their rows by the transfer protocol below, which limits the load on the primary.
			if !r.holds[n][shard] || r.view.incarnation(n) > 0 {
				continue
			}
			// All members that join at this view receive the same snapshot, so it is built once.
			if pieces == nil {
				pieces = r.rows.snapshot(&r.layout, shard, r.snapshotBytes)
			}
			r.counters.snapshots++
			r.env.Mark(rowsSent)
			for i, rows := range pieces {
				r.send(n, &Snapshot{r.view.First, shard, i == len(pieces)-1, rows})
			}
		}
	}
	r.beginTransfers()
}
