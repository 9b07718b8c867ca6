package coco

import (
	"slices"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
)

const (
	// firstBackoff bounds the pause before the second attempt at a transaction, as in the authors' code.
	firstBackoff = time.Millisecond
	// maxDoublings bounds the number of times that the backoff doubles. The backoff before the third attempt is the
	// longest round trip. The authors' code has no such backoff. All transactions that wait for an epoch start at
	// the same time. Without the backoff, transactions of different regions that first lock rows of their own
	// region would block each other in every epoch.
	maxDoublings = 5
	// epochsApart is the backoff, in epochs, up to which doubling continues even after maxDoublings. If slow disks or
	// links make epochs long, backoffs of a few round trips would all end in the same epoch.
	epochsApart = 8
)

// ReasonEpochAborted is the reason of transactions whose epoch was aborted because a node did not answer.
const ReasonEpochAborted = "epoch-aborted"

// ReasonForgotten is the reason of unknown outcomes at a node that was disconnected for too long. The other nodes no
// longer know the outcome of the transaction's epoch.
const ReasonForgotten = "too-far-behind"

// transactions are the transactions of a node's clients.
type transactions struct {
	// waiting are the transactions that start with the next epoch, in order.
	waiting queue.Queue[request]
	// running are the running attempts, by attempt number; next is the number of the next attempt.
	running map[uint64]*transaction
	next    uint64
	// finished are the transactions that have finished in the running epoch, in order of completion.
	finished []ended
	// paused are the transactions that wait for another attempt, by the number of the last attempt.
	paused map[uint64]request
}

// request is a transaction to execute, with the number of earlier attempts.
type request struct {
	*txn.Transaction
	tried int
}

// ended is a transaction that has finished in the epoch, with its outcome.
type ended struct {
	request
	outcome txn.Outcome
}

// transaction is an attempt at a transaction.
type transaction struct {
	Attempt
	t    request
	task *rerun.Task
	// asked are the requests of this round; open is the number of unanswered requests.
	asked []*asked
	open  int
	// points and ranges are the reads. points is in key order once the procedure has finished.
	points []Expected
	ranges []ExpectedRange
	writes []txn.WriteEntry
	// err is the error with which the procedure finished, or nil. A transaction with an error writes nothing.
	err error
	// locked are the nodes that were asked for locks.
	locked []geo.NodeID
	// at is the time at which the transaction reads and writes.
	at uint64
}

// asked is a request to a node in the current round.
type asked struct {
	node     geo.NodeID
	answered bool
	needs    []rerun.Need
	keys     []Expected
	ranges   []ExpectedRange
}

// ask returns the request to node n in this round, and creates it if needed.
func (x *transaction) ask(n geo.NodeID) *asked {
	for _, a := range x.asked {
		if a.node == n {
			return a
		}
	}
	a := &asked{node: n}
	x.asked = append(x.asked, a)
	x.open++
	return a
}

// answered marks the request to node n in this round as answered and returns it, or nil if there is no unanswered
// request.
func (x *transaction) answered(n geo.NodeID) *asked {
	for _, a := range x.asked {
		if a.node == n && !a.answered {
			a.answered = true
			x.open--
			return a
		}
	}
	return nil
}

// primaryOf returns the node that executes reads and locks of row k.
func (r *Replica) primaryOf(k txn.Key) geo.NodeID { return r.primaries[r.layout.Shard(k)] }

// Submit implements protocol.Replica.
func (r *Replica) Submit(t *txn.Transaction) {
	r.counters.transactions++
	r.submit(request{t, 0})
	r.finish()
}

func (r *Replica) submit(t request) {
	if r.phase != running {
		r.env.Mark(awaitsEpoch)
		r.txns.waiting.Push(t)
		return
	}
	r.begin(t)
}

// begin starts an attempt at a transaction in the running epoch.
func (r *Replica) begin(t request) {
	x := &transaction{Attempt: Attempt{r.epoch, r.txns.next}, t: t, task: rerun.New(r.procedures, t.Transaction, r.rows.store, r.interactive)}
	r.txns.next++
	r.txns.running[x.Run] = x
	r.step(x)
}

// step runs the procedure until it needs rows that are not available, and requests all rows that it needs next.
func (r *Replica) step(x *transaction) {
	needs := x.task.Step()
	if len(needs) == 0 {
		r.lock(x)
		return
	}
	x.asked = nil
	for i := range needs {
		a := x.ask(r.primaryOf(needs[i].Range.From))
		a.needs = append(a.needs, needs[i])
	}
	for _, a := range x.asked {
		ranges := make([]txn.Range, len(a.needs))
		for i := range a.needs {
			ranges[i] = a.needs[i].Range
		}
		r.send(a.node, &Read{x.Attempt, ranges})
	}
}

// supply handles rows from a primary.
func (r *Replica) supply(from geo.NodeID, m *Rows) {
	x := r.txns.running[m.Run]
	if x == nil {
		return
	}
	a := x.answered(from)
	if a == nil || len(m.Found) != len(a.needs) || !x.note(a.needs, m) {
		return
	}
	raftgroup.Supply(x.task, a.needs, m.Found)
	if x.open == 0 {
		r.step(x)
	}
}

// note records the versions of rows that were read. It reports whether m has exactly one version per row.
func (x *transaction) note(needs []rerun.Need, m *Rows) bool {
	left := m.Versions
	for i := range needs {
		n := len(m.Found[i])
		if needs[i].Range.Point() {
			n = 1
		}
		if n > len(left) {
			return false
		}
		if needs[i].Range.Point() {
			x.points = append(x.points, Expected{Key: needs[i].Range.From, Version: left[0], Known: true})
		} else {
			rows := make([]Expected, n)
			for j, w := range m.Found[i] {
				rows[j] = Expected{Key: w.Key, Version: left[j], Known: true}
			}
			x.ranges = append(x.ranges, ExpectedRange{needs[i].Range, rows})
		}
		left = left[n:]
	}
	return len(left) == 0
}

// lock asks the primaries to lock the rows that the finished procedure writes. A procedure that has aborted writes
// nothing, but its reads are validated all the same, because its decision depends on them.
func (r *Replica) lock(x *transaction) {
	if _, x.err = x.task.Result(); x.err == nil {
		x.writes = x.task.Writes().Entries()
		if slices.ContainsFunc(x.writes, func(w txn.WriteEntry) bool { return w.Key.Everywhere() }) {
			x.writes, x.err = nil, txn.ErrUndeclared // a transaction must not write rows that every node holds
		}
	}
	slices.SortFunc(x.points, func(a, b Expected) int { return strings.Compare(string(a.Key), string(b.Key)) })
	for i := range x.points { // two reads of a key are in the same message, so they have the same version
		x.at = max(x.at, x.points[i].Version)
	}
	for i := range x.ranges {
		for j := range x.ranges[i].Rows {
			x.at = max(x.at, x.ranges[i].Rows[j].Version)
		}
	}
	if len(x.writes) == 0 {
		r.validate(x)
		return
	}
	x.asked = nil
	for i := range x.writes {
		k := x.writes[i].Key
		e := Expected{Key: k}
		if p := x.point(k); p != nil {
			e = *p
		}
		a := x.ask(r.primaryOf(k))
		a.keys = append(a.keys, e)
	}
	for _, a := range x.asked {
		x.locked = append(x.locked, a.node)
		r.send(a.node, &Lock{x.Attempt, a.keys})
	}
}

// point returns the read of row k, or nil.
func (x *transaction) point(k txn.Key) *Expected {
	at, found := slices.BinarySearchFunc(x.points, k, func(e Expected, k txn.Key) int { return strings.Compare(string(e.Key), string(k)) })
	if !found {
		return nil
	}
	return &x.points[at]
}

// lockAnswered handles a primary's answer to Lock.
func (r *Replica) lockAnswered(from geo.NodeID, m *Locked) {
	x := r.txns.running[m.Run]
	if x == nil || x.answered(from) == nil {
		return
	}
	if m.Verdict != Valid {
		r.env.Mark(lockRefused)
		r.giveUp(x, m.Verdict)
		return
	}
	if x.at = max(x.at, m.Least); x.open == 0 {
		r.validate(x)
	}
}

// validate asks the primaries whether the rows that were only read are valid at the transaction's time.
func (r *Replica) validate(x *transaction) {
	x.asked = nil
	for i := range x.points {
		p := &x.points[i]
		if i > 0 && x.points[i-1].Key == p.Key || x.writesTo(p.Key) {
			continue
		}
		a := x.ask(r.primaryOf(p.Key))
		a.keys = append(a.keys, *p)
	}
	for i := range x.ranges {
		a := x.ask(r.primaryOf(x.ranges[i].From))
		a.ranges = append(a.ranges, x.ranges[i])
	}
	if x.open == 0 {
		r.commit(x)
		return
	}
	for _, a := range x.asked {
		r.send(a.node, &Validate{x.Attempt, x.at, a.keys, a.ranges})
	}
}

// writesTo reports whether the transaction writes a row.
func (x *transaction) writesTo(k txn.Key) bool {
	_, found := slices.BinarySearchFunc(x.writes, k, func(w txn.WriteEntry, k txn.Key) int { return strings.Compare(string(w.Key), string(k)) })
	return found
}

// validationAnswered handles a primary's answer to Validate.
func (r *Replica) validationAnswered(from geo.NodeID, m *Validated) {
	x := r.txns.running[m.Run]
	if x == nil || x.answered(from) == nil {
		return
	}
	if m.Verdict != Valid {
		r.env.Mark(validationFailed)
		r.giveUp(x, m.Verdict)
		return
	}
	if x.open == 0 {
		r.commit(x)
	}
}

// commit sends the transaction's writes to the primaries and to the copies without waiting for acknowledgements: the
// transaction commits with its epoch.
func (r *Replica) commit(x *transaction) {
	delete(r.txns.running, x.Run)
	if len(x.writes) > 0 {
		r.replicate(x)
	}
	result, _ := x.task.Result()
	o := txn.Outcome{ID: x.t.ID, Status: txn.Committed, Result: result}
	if x.err != nil {
		o = txn.AbortOutcome(x.t.ID, x.err)
	}
	o = r.outcome(x, o)
	r.counters.executed++
	if r.mistake == early {
		r.env.Reply(o)
		return
	}
	r.txns.finished = append(r.txns.finished, ended{x.t, o})
}

// replicate sends each member of the view the writes of the rows that it holds.
func (r *Replica) replicate(x *transaction) {
	all := &Write{x.Attempt, x.t.ID, x.at, x.writes}
	for _, n := range r.view.Members {
		m := all
		for i := range x.writes {
			if r.holds[n][r.layout.Shard(x.writes[i].Key)] {
				continue
			}
			m = &Write{x.Attempt, x.t.ID, x.at, nil}
			for _, w := range x.writes {
				if r.holds[n][r.layout.Shard(w.Key)] {
					m.Writes = append(m.Writes, w)
				}
			}
			break
		}
		if len(m.Writes) > 0 {
			r.send(n, m)
		}
	}
}

// giveUp ends an attempt that conflicts with another transaction.
func (r *Replica) giveUp(x *transaction, v Verdict) {
	delete(r.txns.running, x.Run)
	r.counters.conflicts[v]++
	for _, n := range x.locked {
		r.send(n, &Unlock{x.Attempt})
	}
	if r.retries {
		r.counters.retries++
		longest := r.longestPause(x.t.tried)
		x.t.tried++
		r.env.Mark(retried)
		r.txns.paused[x.Run] = x.t
		r.env.After(time.Duration(r.env.Rand().Int64N(int64(longest)+1)), protocol.Timer{Kind: retryTimer, Arg: x.Run})
		return
	}
	r.env.Reply(r.outcome(x, txn.Outcome{ID: x.t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: v.String()}))
}

// longestPause returns the maximum pause before the next attempt, after the given number of earlier attempts.
func (r *Replica) longestPause(tried int) time.Duration {
	if tried == 0 {
		return firstBackoff
	}
	longest := max(firstBackoff, r.topology.LongestRTT()<<min(tried-1, maxDoublings))
	for i := maxDoublings + 1; i < tried && longest < epochsApart*r.lasted; i++ {
		longest *= 2
	}
	return longest
}

// retry starts another attempt, immediately or with the next epoch.
func (r *Replica) retry(number uint64) {
	t := r.txns.paused[number]
	delete(r.txns.paused, number)
	r.submit(t)
}

// outcome sets the outcome's class from the rows that the transaction has used so far, unless its footprint is exact.
func (r *Replica) outcome(x *transaction, o txn.Outcome) txn.Outcome {
	if !x.t.Exact {
		o.Class = x.task.Class(r.placement)
	}
	return o
}

// answer sends clients the outcomes of the transactions of the epoch, which is now committed.
func (r *Replica) answer() {
	for _, e := range r.txns.finished {
		r.env.Reply(e.outcome)
	}
	clear(r.txns.finished)
	r.txns.finished = r.txns.finished[:0]
}

// abandon ends all transactions of an epoch that was not committed here: it executes them again or answers their
// clients. If the outcome of the epoch is unknown, it never executes them again, because they may have been committed.
func (r *Replica) abandon(status txn.Status, cause txn.Cause, reason string) {
	var all []ended
	all = append(all, r.txns.finished...)
	for _, n := range sortedKeys(r.txns.running) {
		x := r.txns.running[n]
		all = append(all, ended{x.t, r.outcome(x, txn.Outcome{ID: x.t.ID})})
	}
	clear(r.txns.running)
	clear(r.txns.finished)
	r.txns.finished = r.txns.finished[:0]
	for _, e := range all {
		if r.retries && status == txn.Aborted {
			r.counters.retries++
			r.txns.waiting.Push(e.request)
			continue
		}
		r.env.Reply(txn.Outcome{ID: e.ID, Status: status, Cause: cause, Reason: reason, Class: e.outcome.Class})
	}
}
