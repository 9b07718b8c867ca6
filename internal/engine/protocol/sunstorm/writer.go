package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Verdict is a writer's decision on a transaction. It is also the content of the writer's vote.
type Verdict uint8

// The verdicts: Yes, and the reasons for a no vote.
const (
	Yes Verdict = iota + 1
	OutdatedTuple
	OutdatedIndexPage
	Serialization
	Deadlock
	// Gone: a writer lost its state before its log contained an entry of the transaction, or the initiator was lost
	// before sending every Prepare.
	Gone
)

// reason returns the abort reason of the client's outcome.
func (v Verdict) reason() string {
	return [...]string{
		Yes: "yes", OutdatedTuple: ReasonOutdatedTuple, OutdatedIndexPage: ReasonOutdatedIndexPage, Serialization: ReasonSerialization,
		Deadlock: ReasonDeadlock, Gone: ReasonWriterLost,
	}[v]
}

// participation is the state of a multi-region transaction at a participating writer, or at its initiator.
type participation struct {
	id txn.ID
	// known is set at the initiator, and at other nodes once Prepare has arrived.
	known bool
	// name, initiator, writers and expected are valid if known is set. expected is the number of votes that this node must
	// receive, counted the number that it has received.
	name              Name
	initiator         geo.NodeID
	writers           []geo.NodeID
	expected, counted int
	no                Verdict // the verdict of the first writer that voted no, or 0
	// heard are the writers whose votes have arrived. The list is maintained only if nodes can be replaced.
	heard []geo.NodeID
	// voted is set once this node has sent its vote. An initiator sends Prepare instead of a vote. cast is the vote of a
	// node that is not the initiator. With acknowledged votes, unconfirmed are the nodes that have not confirmed this
	// vote.
	voted       bool
	cast        Verdict
	unconfirmed []geo.NodeID
	// old is set if the transaction involves the last lost writer and its Prepare was sent to or by that writer before the
	// loss. ahead is set if Prepare was sent to a new incarnation that this node does not know of yet. tell is set if a
	// new incarnation waits for the outcome of the transaction.
	old, ahead, tell bool
	prepared         bool
	decided          bool
	part             Part
	initiated        *transaction
	// behind are the transactions that wait for this transaction to end, in order of arrival.
	behind []successor
}

// successor is a transaction that waits for another transaction to end: a single-region transaction, or a multi-region
// transaction if multi is set. A multi that is no longer in writer.waiting is obsolete.
type successor struct {
	single *transaction
	multi  *wait
}

// writer is the state that a writer keeps about multi-region transactions.
type writer struct {
	r    *Replica
	open map[txn.ID]*participation
	// prepared are the transactions that are prepared here, in the order in which they were prepared. ranged is the number
	// of prepared transactions with range reads. writes maps each row that a prepared transaction writes to that
	// transaction. reads is the number of prepared transactions that have read each row.
	prepared []*participation
	ranged   int
	writes   map[txn.Key]*participation
	reads    map[txn.Key]int
	pages    pages
	// patience is the time for which a multi-region transaction waits for other transactions before it aborts; 0 means
	// that it does not wait. waiting are the waiting multi-region transactions.
	patience time.Duration
	waiting  map[txn.ID]*wait
}

// wait is a multi-region transaction that waits for the end of another transaction.
type wait struct{ judging }

// judging is a multi-region transaction that a writer is validating.
type judging interface {
	transaction() txn.ID
	// mine returns the writer's part of the transaction. judged receives the verdict on that part.
	mine() *Part
	judged(w *writer, v Verdict)
}

var (
	_ = checkpoint.Register[answer]()
	_ = checkpoint.Register[*initiation]()
	_ = checkpoint.Register[*ballot]()
)

// answer replies to the client of a transaction once its log entry is durable.
type answer struct{ *transaction }

func (a answer) do(w *writer) { w.r.reply(a.transaction, a.outcome) }

func (w *writer) init(r *Replica) {
	w.r, w.open, w.writes, w.reads = r, map[txn.ID]*participation{}, map[txn.Key]*participation{}, map[txn.Key]int{}
	w.waiting = map[txn.ID]*wait{}
}

// validate compares the rows that the part has read with the writer's current rows, as in section 4.4.2 of the paper. A
// version that differs from the version read has a commit sequence number above the reader's snapshot.
func (w *writer) validate(p *Part) Verdict {
	rows := w.r.store
	w.r.counters.validations++
	switch {
	case w.r.wrong == unvalidated:
		return Yes
	case w.r.wrong != rowsOnly && w.pages.outdated(&p.Reads, p.LSN): // pages first, as in the authors' code
		w.r.env.Mark(indexPageOutdated)
		return OutdatedIndexPage
	case p.Reads.Hold(rows), w.r.wrong == rowsOnly && !p.Reads.Overtaken(rows):
		return Yes
	case p.Reads.Overtaken(rows):
		w.r.env.Mark(tupleOutdated)
		return OutdatedTuple
	default:
		// All rows that were read are unchanged, but a row exists where none was: a phantom.
		return OutdatedIndexPage
	}
}

// blocker returns the transaction that is prepared to write a row that the part writes, or nil.
func (w *writer) blocker(p *Part) *participation {
	if len(w.writes) == 0 {
		return nil
	}
	for i := range p.Writes {
		if b := w.writes[p.Writes[i].Key]; b != nil {
			return b
		}
	}
	return nil
}

// checkSerializable applies the rules of section 4.3 to a transaction before it is prepared or committed. It returns
// false if a prepared transaction writes a row that this transaction has read (reader rule). It also returns false if a
// prepared transaction has read a row that this transaction writes (writer rule).
func (w *writer) checkSerializable(p *Part) bool {
	if len(w.prepared) == 0 {
		return true
	}
	if w.r.wrong != noReaderRule && w.readsPrepared(p) {
		w.r.counters.readers++
		w.r.env.Mark(readerRefused)
		return false
	}
	if w.r.wrong != noWriterRule && w.overwritesRead(p) {
		w.r.counters.writers++
		w.r.env.Mark(writerRefused)
		return false
	}
	return true
}

// readsPrepared reports whether a prepared transaction writes a row that the part reads.
func (w *writer) readsPrepared(p *Part) bool {
	for i := range p.Reads.Points {
		if w.writes[p.Reads.Points[i].Key] != nil {
			return true
		}
	}
	for i := range p.Reads.Ranges {
		// writes is a map without key order, so a range is compared with every prepared write set.
		for _, other := range w.prepared {
			if slices.ContainsFunc(other.part.Writes, func(e txn.WriteEntry) bool { return p.Reads.Ranges[i].Contains(e.Key) }) {
				return true
			}
		}
	}
	return false
}

// overwritesRead reports whether a prepared transaction has read a row that the part writes.
func (w *writer) overwritesRead(p *Part) bool {
	for i := range p.Writes {
		k := p.Writes[i].Key
		if w.reads[k] > 0 {
			return true
		}
		// Without prepared range reads, the lookup in reads is complete.
		if w.ranged == 0 {
			continue
		}
		for _, other := range w.prepared {
			for j := range other.part.Reads.Ranges {
				if other.part.Reads.Ranges[j].Contains(k) {
					return true
				}
			}
		}
	}
	return false
}

// single commits a single-region transaction that was executed in the same step.
func (w *writer) single(x *transaction, p *Part) {
	// Waiting cannot deadlock: a single-region transaction holds nothing, so no transaction waits for it.
	if b := w.blocker(p); b != nil {
		w.r.counters.waits++
		w.r.env.Mark(singleWaits)
		b.behind = append(b.behind, successor{single: x})
		return
	}
	if !w.checkSerializable(p) {
		w.r.counters.serialization++
		w.r.abort(x, ReasonSerialization)
		return
	}
	if len(p.Writes) > 0 {
		w.r.wal.append(Entry{Kind: Committed, ID: x.t.ID, Writes: p.Writes})
		// write follows append, because it records the entry's number for each page. It precedes install, because it must not
		// find the new rows in the store.
		w.pages.write(p.Writes)
		w.r.install(p.Writes, x.t.ID)
	}
	// A transaction without writes waits too, because it may have read versions that are not durable yet.
	w.r.wal.whenDurable(answer{x})
}

// judge returns the verdict on a multi-region transaction's part.
func (w *writer) judge(p *Part) Verdict {
	v := w.validate(p)
	switch {
	case v != Yes:
	// Another writer may have prepared the two transactions in the opposite order, so waiting without a limit could
	// deadlock.
	case w.blocker(p) != nil:
		v = Deadlock
	case w.r.env.Buggify(refuses), !w.checkSerializable(p):
		v = Serialization
	}
	return v
}

// judgeInTime determines the verdict on a multi-region transaction's part. If the verdict is Deadlock and the
// transaction may wait, the part is validated again once the prepared transaction that writes the same row ends.
func (w *writer) judgeInTime(j judging) {
	id := j.transaction()
	v := w.judge(j.mine())
	// Only a blocked write waits. The other verdicts end the transaction immediately.
	if v != Deadlock || w.patience == 0 && w.r.wrong != nobodyDies || w.r.env.Buggify(diesEarly) {
		delete(w.waiting, id)
		j.judged(w, v)
		return
	}
	// A transaction that waits again keeps its first timer, so its patience does not start over at each blocker.
	now := w.waiting[id]
	if now == nil {
		now = &wait{j}
		w.waiting[id] = now
		w.r.counters.multiWaits++
		w.r.env.Mark(multiWaits)
		if w.patience > 0 {
			w.r.env.After(w.patience, protocol.Timer{Kind: deadlockTimer, Arg: uint64(id)})
		}
	}
	b := w.blocker(j.mine())
	b.behind = append(b.behind, successor{multi: now})
}

// hear continues a transaction after the transaction that it waited for has ended.
func (s successor) hear(w *writer, committed bool) {
	switch {
	case s.multi != nil:
		// After the transaction was queued, it may have timed out or received a no vote.
		if w.waiting[s.multi.transaction()] == s.multi {
			w.r.env.Mark(judgedAgain)
			w.judgeInTime(s.multi.judging)
		}
	case committed: // snapshot isolation: the first updater wins
		w.r.counters.serialization++
		w.r.env.Mark(updatedFirst)
		w.r.abort(s.single, ReasonSerialization)
	default:
		// The blocker was aborted, but other transactions may have committed, so the procedure runs again on the current
		// rows.
		w.r.env.Mark(singleAgain)
		w.r.execute(s.single)
	}
}

// giveUp aborts transaction id if it is still waiting for another transaction when its patience runs out.
func (w *writer) giveUp(id txn.ID) {
	if now := w.waiting[id]; now != nil {
		delete(w.waiting, id)
		w.r.env.Mark(patienceOver)
		now.judged(w, Deadlock)
	}
}

// refused counts a verdict other than Yes by its reason.
func (w *writer) refused(v Verdict) {
	c := &w.r.counters
	switch v {
	case OutdatedTuple:
		c.outdatedTuple++
	case OutdatedIndexPage:
		c.outdatedPage++
	case Serialization:
		c.serialization++
	case Deadlock:
		c.deadlock++
	}
}

// initiation is a multi-region transaction at its initiator, the node that has executed it.
type initiation struct {
	x       *transaction
	p       *participation
	writers []geo.NodeID
	parts   []Part
	at      int // index of this node in writers, or -1
}

// initiate starts to commit a multi-region transaction that this node has executed (section 4.4.1, steps 1 and 2).
func (w *writer) initiate(x *transaction, writers []geo.NodeID, parts []Part) {
	p := &participation{
		id: x.t.ID, known: true, name: w.r.settlement.name(x.t.ID), initiator: w.r.self, writers: writers, expected: len(writers), initiated: x,
	}
	i := &initiation{x, p, writers, parts, slices.Index(writers, w.r.self)}
	// An initiator without rows has nothing to prepare and sends Prepare immediately.
	if i.at < 0 {
		w.open[i.p.id] = i.p
		i.do(w)
		return
	}
	w.judgeInTime(i)
}

func (i *initiation) transaction() txn.ID { return i.p.id }
func (i *initiation) mine() *Part         { return &i.parts[i.at] }

func (i *initiation) judged(w *writer, v Verdict) {
	if v == OutdatedTuple || v == OutdatedIndexPage {
		w.r.env.Mark(ownRowsChanged)
		v = Serialization // the writer owns the rows: another transaction has committed since the snapshot
	}
	// No other writer knows of the transaction yet, so it is aborted without any vote.
	if v != Yes {
		w.refused(v)
		w.r.abort(i.x, v.reason())
		return
	}
	// The initiator's own vote is implied by its Prepare, so it expects one vote fewer.
	i.p.expected--
	i.p.part = *i.mine()
	w.open[i.p.id] = i.p
	w.hold(i.p)
	// Prepare is the initiator's yes vote, so it must not be sent before the Prepared entry is durable.
	w.r.wal.whenDurable(i)
}

// do sends Prepare to the other writers. The initiator's own part is durable by then.
func (i *initiation) do(w *writer) {
	for k, n := range i.writers {
		if k != i.at {
			w.r.env.Send(n, &Prepare{i.p.id, i.writers, i.parts[k], max(i.p.name.Generation, 1) - 1})
		}
	}
	i.p.voted = true
}

// hold prepares a transaction and appends the Prepared entry to the log.
func (w *writer) hold(p *participation) {
	w.keep(p)
	w.r.wal.append(Entry{Prepared, p.id, p.part.Writes, p.name})
}

// keep records the reads and writes of a prepared transaction for the rules of section 4.3.
func (w *writer) keep(p *participation) {
	p.prepared = true
	w.prepared = append(w.prepared, p)
	if len(p.part.Reads.Ranges) > 0 {
		w.ranged++
	}
	// Any number of prepared transactions may have read the same row, so readers are counted.
	for i := range p.part.Reads.Points {
		w.reads[p.part.Reads.Points[i].Key]++
	}
	// At most one prepared transaction writes a row: judge refuses the second (blocker).
	for i := range p.part.Writes {
		w.writes[p.part.Writes[i].Key] = p
	}
}

// release reverses keep.
func (w *writer) release(p *participation) {
	i := slices.Index(w.prepared, p)
	w.prepared = slices.Delete(w.prepared, i, i+1)
	if len(p.part.Reads.Ranges) > 0 {
		w.ranged--
	}
	for i := range p.part.Reads.Points {
		k := p.part.Reads.Points[i].Key
		if w.reads[k]--; w.reads[k] == 0 {
			delete(w.reads, k)
		}
	}
	for i := range p.part.Writes {
		delete(w.writes, p.part.Writes[i].Key)
	}
}

// participation returns the state of a transaction, and creates it if necessary. Votes may arrive before Prepare.
func (w *writer) participation(id txn.ID) *participation {
	p := w.open[id]
	if p == nil {
		p = &participation{id: id}
		w.open[id] = p
	}
	return p
}

// prepare handles Prepare, which counts as the initiator's yes vote (step 3).
func (w *writer) prepare(from geo.NodeID, m *Prepare) {
	p := w.participation(m.ID)
	// expected excludes this writer's own vote.
	p.known, p.expected, p.part = true, len(m.Writers)-1, m.Part
	p.initiator, p.writers = from, m.Writers
	p.name = w.r.settlement.nameOf(from, m.Reused)
	// An initiator with rows votes with its Prepare and sends no separate vote.
	if slices.Contains(m.Writers, from) {
		p.expected--
	}
	// arrives may set old, which determines the receivers of the vote, so it must run before the verdict.
	w.r.settlement.arrives(p)
	b := &ballot{p: p, from: from, m: m}
	// Another participant's no vote has arrived before Prepare, so the transaction cannot commit.
	if p.no != 0 {
		w.r.env.Mark(overBefore)
		b.judged(w, p.no)
		return
	}
	w.judgeInTime(b)
}

// ballot is a multi-region transaction at a writer that votes on it.
type ballot struct {
	p    *participation
	from geo.NodeID // the initiator
	m    *Prepare
	vote Verdict
}

func (b *ballot) transaction() txn.ID { return b.p.id }
func (b *ballot) mine() *Part         { return &b.p.part }

// judged determines this writer's vote (steps 4 and 5). If another participant's no vote has arrived, this writer casts
// the same vote and prepares nothing.
func (b *ballot) judged(w *writer, v Verdict) {
	p := b.p
	if b.vote = v; p.no != 0 {
		b.vote = p.no
		b.do(w)
		return
	}
	if v != Yes {
		w.refused(v)
		// Only the page is newer: a neighbour of the rows that were read has changed.
		if v == OutdatedIndexPage && p.part.Reads.Hold(w.r.store) {
			w.r.counters.neighbours++
			w.r.env.Mark(neighbourChanged)
		}
		p.no = v
		// A no vote needs no log entry: after a loss, a transaction that is not in the log counts as refused.
		b.do(w)
		return
	}
	w.hold(p)
	// The yes vote is a promise that must survive a crash, so the entry must be durable first.
	w.r.wal.whenDurable(b)
}

// do sends the vote to the other participants.
func (b *ballot) do(w *writer) {
	w.r.counters.votes++
	vote := &Vote{b.p.id, b.vote}
	tell := func(n geo.NodeID) {
		if n == w.r.self || w.r.settlement.over(b.p, n) {
			return
		}
		w.r.env.Send(n, vote)
		if w.r.acknowledged {
			b.p.unconfirmed = append(b.p.unconfirmed, n)
		}
	}
	for _, n := range b.m.Writers {
		tell(n)
	}
	// An initiator without rows is not among the writers, but needs the votes for the client's answer.
	if !slices.Contains(b.m.Writers, b.from) {
		tell(b.from)
	}
	b.p.voted, b.p.cast = true, b.vote
	w.r.settlement.bereave(b.p)
	w.decide(b.p)
}

// vote handles another participant's vote.
func (w *writer) vote(from geo.NodeID, m *Vote) {
	if w.r.acknowledged {
		// The sender keeps its state until the vote is confirmed; confirm it even if the transaction is over here.
		w.r.env.Mark(voteAcknowledged)
		w.r.env.Send(from, &Received{m.ID})
	}
	w.count(w.participation(m.ID), from, m.Verdict)
}

// count counts a vote.
func (w *writer) count(p *participation, from geo.NodeID, v Verdict) {
	p.counted++
	if w.r.settlement.replaceable {
		p.heard = append(p.heard, from)
	}
	// The client receives the reason of the first no vote.
	if v != Yes && p.no == 0 {
		w.r.env.Mark(voteNo)
		p.no = v
		if now := w.waiting[p.id]; now != nil { // a no vote makes further waiting useless
			delete(w.waiting, p.id)
			now.judged(w, p.no)
		}
	}
	w.decide(p)
}

// received records that a participant has confirmed this writer's vote.
func (w *writer) received(from geo.NodeID, id txn.ID) {
	if p := w.open[id]; p != nil {
		p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(n geo.NodeID) bool { return n == from })
		w.decide(p)
	}
}

// decide ends a transaction as soon as the votes allow it (steps 6 and 7). A commit requires all votes, and an abort
// requires a single no vote.
func (w *writer) decide(p *participation) {
	confirmed := len(p.unconfirmed) == 0
	counted := p.counted
	if w.r.wrong == votesCountedTwice {
		counted *= 2
	}
	// counted excludes this node's own vote. Without that vote, the outcome is not certain yet.
	if p.known && p.voted && !p.decided && confirmed && (p.no != 0 || counted >= p.expected) {
		p.decided = true
		w.end(p)
	}
	// A vote that arrives later would recreate the entry, so the state stays until all votes have arrived.
	if p.decided && confirmed && p.counted == p.expected {
		delete(w.open, p.id)
		w.r.settlement.ends(p.id)
	}
}

// end commits a transaction, or aborts it if a participant has voted no.
func (w *writer) end(p *participation) {
	if p.no == 0 {
		w.r.settlement.remember(p.id, p.name)
	}
	if p.tell {
		w.r.env.Send(w.r.settlement.lost, &Ended{p.id, p.no == 0})
	}
	if p.prepared {
		// The rows must be released before the successors are validated. Otherwise this transaction would block them again.
		w.release(p)
		if p.no == 0 {
			w.r.wal.append(Entry{Kind: CommitPrepared, ID: p.id})
			w.pages.write(p.part.Writes)
			w.r.install(p.part.Writes, p.id)
		} else {
			w.r.env.Mark(preparedAborted)
			w.r.wal.append(Entry{Kind: AbortPrepared, ID: p.id})
		}
	}
	if x := p.initiated; x != nil {
		if p.no == 0 {
			// The client must not receive an outcome that a crash could undo.
			w.r.wal.whenDurable(answer{x})
		} else {
			// An abort needs no durable entry: no participant commits after a no vote.
			w.r.abort(x, p.no.reason())
		}
	}
	behind := p.behind
	p.behind = nil
	for _, s := range behind {
		s.hear(w, p.no == 0)
	}
}
