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
	// maxDoublings bounds how often the pauses before further attempts are doubled, which begin with the longest round
	// trip. The authors' code knows no others. But all that wait for an epoch begin with it, so that those of different
	// regions which lock their own rows first would be in each other's way for ever.
	maxDoublings = 5
	// epochsApart is how many epochs a pause may last before it is doubled no more, even if that takes more doublings:
	// where disks or stalled links make epochs long, pauses of some round trips all end with the same next epoch.
	epochsApart = 8
)

// ReasonEpochAborted is the reason of transactions whose epoch was aborted because a node did not answer.
const ReasonEpochAborted = "epoch-aborted"

// ReasonForgotten is the reason of those whose node was cut off for so long that the others have forgotten what has
// become of its epoch.
const ReasonForgotten = "too-far-behind"

// transactions are those of a node's clients.
type transactions struct {
	// waiting begin with the next epoch, in that order.
	waiting queue.Queue[request]
	// running are those that the epoch executes, by the number of the attempt; next is the number of the next one.
	running map[uint64]*transaction
	next    uint64
	// finished are those whose epoch has not ended, in the order in which they have ended.
	finished []ended
	// paused are those that wait for another attempt, by the number of the last one.
	paused map[uint64]request
}

// request is a transaction that is to be executed, and how often it was tried.
type request struct {
	*txn.Transaction
	tried int
}

// ended is a transaction that has ended in the epoch, and how.
type ended struct {
	request
	outcome txn.Outcome
}

// transaction is an attempt at one.
type transaction struct {
	Attempt
	t    request
	task *rerun.Task
	// asked are the nodes that were asked in this round, open counts those that have not answered.
	asked []*asked
	open  int
	// points and ranges are what was read, points in the order of their keys once the procedure has ended.
	points []Expected
	ranges []ExpectedRange
	writes []txn.WriteEntry
	// err is why the procedure, once it has ended, writes nothing.
	err error
	// locked are the nodes that were asked for locks.
	locked []geo.NodeID
	// at is the time at which the transaction reads and writes.
	at uint64
}

// asked is what a node was asked in a round.
type asked struct {
	node     geo.NodeID
	answered bool
	needs    []rerun.Need
	keys     []Expected
	ranges   []ExpectedRange
}

// ask returns what a node is asked in this round.
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

// answered returns what a node was asked in this round, once; nil if it was not.
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

// primaryOf returns the node that executes reads and locks of a row.
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

// begin begins an attempt at a transaction in the running epoch.
func (r *Replica) begin(t request) {
	x := &transaction{Attempt: Attempt{r.epoch, r.txns.next}, t: t, task: rerun.New(r.procedures, t.Transaction, r.rows.store, r.interactive)}
	r.txns.next++
	r.txns.running[x.Run] = x
	r.step(x)
}

// step goes on with the procedure as far as the rows at hand allow, and asks for more: all rows that it needs at once.
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

// supply takes rows from a primary.
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

// note notes the versions of rows that were read. It reports whether there is one of each.
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

// lock asks the primaries to lock what the procedure has written, once it has ended. One that has aborted writes
// nothing; what it has read is validated like that of the others, since its decision rests on it.
func (r *Replica) lock(x *transaction) {
	if _, x.err = x.task.Result(); x.err == nil {
		x.writes = x.task.Writes().Entries()
		if slices.ContainsFunc(x.writes, func(w txn.WriteEntry) bool { return w.Key.Everywhere() }) {
			x.writes, x.err = nil, txn.ErrUndeclared // nobody writes these
		}
	}
	slices.SortFunc(x.points, func(a, b Expected) int { return strings.Compare(string(a.Key), string(b.Key)) })
	for i := range x.points { // of a key that was asked for twice, in one message, there is one version
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

// point returns what was read of a row by its key, or nil.
func (x *transaction) point(k txn.Key) *Expected {
	at, found := slices.BinarySearchFunc(x.points, k, func(e Expected, k txn.Key) int { return strings.Compare(string(e.Key), string(k)) })
	if !found {
		return nil
	}
	return &x.points[at]
}

// lockAnswered takes a primary's answer to Lock.
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

// validate asks the primaries whether what was read, and is not written, holds at the transaction's time.
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

// validationAnswered takes a primary's answer to Validate.
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

// commit sends what the transaction writes to the primaries and to the copies, and waits for none of them: it is
// committed when its epoch is.
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

// replicate sends every member of the view those of the writes that it holds.
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

// giveUp ends an attempt that is in conflict with another transaction.
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

// longestPause bounds the pause after an attempt, before which there were some others.
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

// retry begins another attempt, now or with the next epoch.
func (r *Replica) retry(number uint64) {
	t := r.txns.paused[number]
	delete(r.txns.paused, number)
	r.submit(t)
}

// outcome adds to an outcome how far the transaction has reached.
func (r *Replica) outcome(x *transaction, o txn.Outcome) txn.Outcome {
	if !x.t.Exact {
		o.Class = x.task.Class(r.placement)
	}
	return o
}

// answer tells clients how their transactions have ended that the epoch has executed, now that it is committed.
func (r *Replica) answer() {
	for _, e := range r.txns.finished {
		r.env.Reply(e.outcome)
	}
	clear(r.txns.finished)
	r.txns.finished = r.txns.finished[:0]
}

// abandon ends all transactions of an epoch that is aborted: they are executed again, or their clients are told. If it
// is not known whether the epoch was aborted, nobody may execute them again.
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
