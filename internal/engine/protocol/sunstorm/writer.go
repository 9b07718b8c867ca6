package sunstorm

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// Verdict is a writer's decision on a transaction, or its vote.
type Verdict uint8

// The verdicts: yes, and why not.
const (
	Yes Verdict = iota + 1
	OutdatedTuple
	OutdatedIndexPage
	Serialization
	Deadlock
	// Gone: a writer has lost its state before anything of the transaction was in its log, or the initiator before it had
	// sent all of it.
	Gone
)

// reason returns the reason of an outcome.
func (v Verdict) reason() string {
	return [...]string{
		Yes: "yes", OutdatedTuple: ReasonOutdatedTuple, OutdatedIndexPage: ReasonOutdatedIndexPage, Serialization: ReasonSerialization,
		Deadlock: ReasonDeadlock, Gone: ReasonWriterLost,
	}[v]
}

// participation is a multi-region transaction at a participating writer, or at its initiator.
type participation struct {
	id txn.ID
	// known reports that Prepare has arrived, so that the number of expected votes is known; counted is the number of
	// received votes.
	known bool
	// name, initiator and writers are what Prepare has said.
	name              Name
	initiator         geo.NodeID
	writers           []geo.NodeID
	expected, counted int
	no                Verdict // the verdict of the first writer to vote no, 0 for none
	// heard are the writers from which votes have arrived, where nodes are replaced.
	heard []geo.NodeID
	// voted reports that this node has sent its vote, or needs none as an initiator without rows; cast is the vote. With
	// votes: acknowledged, unconfirmed are the receivers that have not confirmed the vote.
	voted       bool
	cast        Verdict
	unconfirmed []geo.NodeID
	// old reports that the writer that was lost last takes part, and that Prepare was sent to it, or by it, before it was
	// lost. ahead reports that Prepare was sent to a new incarnation that this node does not know yet. tell reports that a
	// new incarnation waits for the outcome.
	old, ahead, tell bool
	prepared         bool
	decided          bool
	part             Part
	initiated        *transaction
	// behind are the transactions that wait for the end of this transaction, in their order.
	behind []successor
}

// successor is a transaction that waits for the end of another transaction. It is a single-region transaction, or a
// multi-region transaction if multi is still in its writer's list of waits.
type successor struct {
	single *transaction
	multi  *wait
}

// writer is a writer's state of multi-region transactions.
type writer struct {
	r    *Replica
	open map[txn.ID]*participation
	// prepared are the transactions that hold rows, in the order in which they were prepared; ranged counts those with
	// range reads.
	prepared []*participation
	ranged   int
	writes   map[txn.Key]*participation
	reads    map[txn.Key]int
	pages    pages
	// patience is the time for which a multi-region transaction waits for others before it dies; waiting are the waiting
	// transactions.
	patience time.Duration
	waiting  map[txn.ID]*wait
}

// wait is a multi-region transaction that waits for the end of another transaction.
type wait struct{ judging }

// judging is a multi-region transaction at a writer that is about to find out whether it may commit.
type judging interface {
	transaction() txn.ID
	// mine returns the writer's part. judge decides on it, and judged takes the verdict.
	mine() *Part
	judged(w *writer, v Verdict)
}

var (
	_ = checkpoint.Register[answer]()
	_ = checkpoint.Register[*initiation]()
	_ = checkpoint.Register[*ballot]()
)

// answer is a transaction that is over once the log says so.
type answer struct{ *transaction }

func (a answer) do(w *writer) { w.r.reply(a.transaction, a.outcome) }

func (w *writer) init(r *Replica) {
	w.r, w.open, w.writes, w.reads = r, map[txn.ID]*participation{}, map[txn.Key]*participation{}, map[txn.Key]int{}
	w.waiting = map[txn.ID]*wait{}
}

// validate reports whether the rows read are the writer's current rows (section 4.4.2). A version that differs from the
// version read has a commit sequence number above the reader's snapshot.
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

// checkSerializable applies the rules of section 4.3 to a transaction that is about to be prepared or committed. No
// prepared transaction may write a row that it has read (reader rule), or have read a row that it writes (writer rule).
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

// single commits a single-region transaction, which has been executed in this step.
func (w *writer) single(x *transaction, p *Part) {
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
		w.pages.write(p.Writes)
		w.r.install(p.Writes, x.t.ID)
	}
	w.r.wal.whenDurable(answer{x})
}

// judge validates a multi-region transaction's part.
func (w *writer) judge(p *Part) Verdict {
	v := w.validate(p)
	switch {
	case v != Yes:
	case w.blocker(p) != nil:
		v = Deadlock
	case w.r.env.Buggify(refuses), !w.checkSerializable(p):
		v = Serialization
	}
	return v
}

// judgeInTime judges a multi-region transaction's part. If the part may wait for transactions that are prepared to
// write the same rows, it does so once they have ended; otherwise immediately.
func (w *writer) judgeInTime(j judging) {
	id := j.transaction()
	v := w.judge(j.mine())
	if v != Deadlock || w.patience == 0 && w.r.wrong != nobodyDies || w.r.env.Buggify(diesEarly) {
		delete(w.waiting, id)
		j.judged(w, v)
		return
	}
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

// hear notifies a transaction that the transaction which it has waited for has ended.
func (s successor) hear(w *writer, committed bool) {
	switch {
	case s.multi != nil:
		if w.waiting[s.multi.transaction()] == s.multi {
			w.r.env.Mark(judgedAgain)
			w.judgeInTime(s.multi.judging)
		}
	case committed: // the first updater wins
		w.r.counters.serialization++
		w.r.env.Mark(updatedFirst)
		w.r.abort(s.single, ReasonSerialization)
	default:
		w.r.env.Mark(singleAgain)
		w.r.execute(s.single)
	}
}

// giveUp lets a transaction die that still waits for others.
func (w *writer) giveUp(id txn.ID) {
	if now := w.waiting[id]; now != nil {
		delete(w.waiting, id)
		w.r.env.Mark(patienceOver)
		now.judged(w, Deadlock)
	}
}

// refused counts why a writer has found against a transaction.
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

// initiation is a multi-region transaction at the node that has executed it.
type initiation struct {
	x       *transaction
	p       *participation
	writers []geo.NodeID
	parts   []Part
	at      int // of this node among the writers
}

// initiate begins the commitment of a multi-region transaction that this node has executed (section 4.4.1, steps 1
// and 2).
func (w *writer) initiate(x *transaction, writers []geo.NodeID, parts []Part) {
	p := &participation{
		id: x.t.ID, known: true, name: w.r.settlement.name(x.t.ID), initiator: w.r.self, writers: writers, expected: len(writers), initiated: x,
	}
	i := &initiation{x, p, writers, parts, slices.Index(writers, w.r.self)}
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
	if v != Yes {
		w.refused(v)
		w.r.abort(i.x, v.reason())
		return
	}
	i.p.expected--
	i.p.part = *i.mine()
	w.open[i.p.id] = i.p
	w.hold(i.p)
	w.r.wal.whenDurable(i)
}

// do sends Prepare to the other writers.
func (i *initiation) do(w *writer) {
	for k, n := range i.writers {
		if k != i.at {
			w.r.env.Send(n, &Prepare{i.p.id, i.writers, i.parts[k], max(i.p.name.Generation, 1) - 1})
		}
	}
	i.p.voted = true
}

// hold prepares a transaction, tentatively.
func (w *writer) hold(p *participation) {
	w.keep(p)
	w.r.wal.append(Entry{Prepared, p.id, p.part.Writes, p.name})
}

// keep keeps the rows of a transaction that is prepared.
func (w *writer) keep(p *participation) {
	p.prepared = true
	w.prepared = append(w.prepared, p)
	if len(p.part.Reads.Ranges) > 0 {
		w.ranged++
	}
	for i := range p.part.Reads.Points {
		w.reads[p.part.Reads.Points[i].Key]++
	}
	for i := range p.part.Writes {
		w.writes[p.part.Writes[i].Key] = p
	}
}

// release ends what keep has begun.
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

// participation returns the state of a transaction; votes may arrive before Prepare does.
func (w *writer) participation(id txn.ID) *participation {
	p := w.open[id]
	if p == nil {
		p = &participation{id: id}
		w.open[id] = p
	}
	return p
}

// prepare takes Prepare, which is the initiator's yes (step 3).
func (w *writer) prepare(from geo.NodeID, m *Prepare) {
	p := w.participation(m.ID)
	p.known, p.expected, p.part = true, len(m.Writers)-1, m.Part
	p.initiator, p.writers = from, m.Writers
	p.name = w.r.settlement.nameOf(from, m.Reused)
	if slices.Contains(m.Writers, from) {
		p.expected--
	}
	w.r.settlement.arrives(p)
	b := &ballot{p: p, from: from, m: m}
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

// judged votes (steps 4 and 5). A writer that knows another participant's no vote votes the same, prepares nothing and
// looks for no second reason.
func (b *ballot) judged(w *writer, v Verdict) {
	p := b.p
	if b.vote = v; p.no != 0 {
		b.vote = p.no
		b.do(w)
		return
	}
	if v != Yes {
		w.refused(v)
		if v == OutdatedIndexPage && p.part.Reads.Hold(w.r.store) {
			w.r.counters.neighbours++
			w.r.env.Mark(neighbourChanged)
		}
		p.no = v
		b.do(w)
		return
	}
	w.hold(p)
	w.r.wal.whenDurable(b)
}

// do sends the vote.
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
	if !slices.Contains(b.m.Writers, b.from) {
		tell(b.from)
	}
	b.p.voted, b.p.cast = true, b.vote
	w.r.settlement.bereave(b.p)
	w.decide(b.p)
}

// vote takes another participant's vote.
func (w *writer) vote(from geo.NodeID, m *Vote) {
	if w.r.acknowledged {
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
	if v != Yes && p.no == 0 {
		w.r.env.Mark(voteNo)
		p.no = v
		if now := w.waiting[p.id]; now != nil { // in vain
			delete(w.waiting, p.id)
			now.judged(w, p.no)
		}
	}
	w.decide(p)
}

// received records that a participant has this writer's vote.
func (w *writer) received(from geo.NodeID, id txn.ID) {
	if p := w.open[id]; p != nil {
		p.unconfirmed = slices.DeleteFunc(p.unconfirmed, func(n geo.NodeID) bool { return n == from })
		w.decide(p)
	}
}

// decide ends a transaction as soon as the votes allow it (steps 6 and 7): all votes to commit, a single vote to abort.
func (w *writer) decide(p *participation) {
	confirmed := len(p.unconfirmed) == 0
	counted := p.counted
	if w.r.wrong == votesCountedTwice {
		counted *= 2
	}
	if p.known && p.voted && !p.decided && confirmed && (p.no != 0 || counted >= p.expected) {
		p.decided = true
		w.end(p)
	}
	if p.decided && confirmed && p.counted == p.expected {
		delete(w.open, p.id)
		w.r.settlement.ends(p.id)
	}
}

// end commits a transaction, or aborts it if somebody has voted no.
func (w *writer) end(p *participation) {
	if p.no == 0 {
		w.r.settlement.remember(p.id, p.name)
	}
	if p.tell {
		w.r.env.Send(w.r.settlement.lost, &Ended{p.id, p.no == 0})
	}
	if p.prepared {
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
			w.r.wal.whenDurable(answer{x})
		} else {
			w.r.abort(x, p.no.reason())
		}
	}
	behind := p.behind
	p.behind = nil
	for _, s := range behind {
		s.hear(w, p.no == 0)
	}
}
