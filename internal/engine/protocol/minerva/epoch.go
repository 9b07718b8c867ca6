package minerva

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/optimistic"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/minerva/mwis"
)

// epochs commits the transactions between two cuts: it validates them, applies the valid transactions, and re-executes
// the others (section 3.5, algorithm 4). The result is the same at every replica.
type epochs struct {
	r      *Replica
	method mwis.Method
	// acrossEpochs says that chains may reach across epochs: the parameter is Valid.
	acrossEpochs bool

	// agreedCuts is the number of cuts that were agreed on, committed the number of cuts that were committed here; queue
	// holds the cuts in between.
	agreedCuts, committed uint64
	queue                 queue.Queue[Heads]
	head                  Heads // the last cut agreed on
	tail                  Heads // the last cut committed
	// cuts are the cuts that other replicas may ask for, starting with number first. They include at least the last cut.
	cuts  []Heads
	first uint64
	// succession is the number of the last cut that has begun the part of a log that a new incarnation appends.
	succession uint64
	// behind reports that other replicas have discarded batches that this replica lacks. It commits nothing more, but
	// follows the cuts: as a coordinator it may have to send them to other replicas.
	behind bool

	fetching bool // a timer is set
	// asked is, by origin, the replica that was last asked for a batch. With one cursor for two origins, each of two
	// replicas would be asked for the batches of the same origin every time.
	asked []geo.NodeID
	// discarded are, by replica and origin, the batch that the replica has reported as Forgotten: 0 for none.
	discarded [][]uint64

	execution optimistic.Execution
	conflicts conflicts
	solved    mwis.Stats
	// again are, by replica, its transactions that were executed again and that others of its may have read from; with
	// acrossEpochs Valid.
	again [][]reexecution

	// The following fields belong to the epoch that is being committed.
	entries []entry          `checkpoint:"-"`
	spans   []span           `checkpoint:"-"` // by replica
	rest    []int32          `checkpoint:"-"`
	results []txn.Outcome    `checkpoint:"-"` // of own transactions executed again
	owned   []txn.WriteEntry `checkpoint:"-"`

	transactions, valid, stale, cascading, conflicting, unexecuted int64
	chains, validated, applied, reexecutedRows, requests           int64
}

// entry is a transaction of the epoch that is being committed. The epoch's are in the order of replicas and their logs.
type entry struct {
	record  *Record
	place   uint64 // in the replica's log
	origin  int32
	parent  int32 // in the union-find forest whose trees are the chains; the root is the first transaction of its chain
	chain   int32 // of conflicts, at the root
	verdict verdict
	result  int32 // the place in results
	arrival int32 // of its batch, for a mistake
}

// span are the entries of a replica.
type span struct {
	from, to int32
	first    uint64 // the position of the first entry in the replica's log
}

// reexecution is a transaction that an epoch has executed again.
type reexecution struct{ place, epoch uint64 }

// verdict is what validation finds of a chain, at its root.
type verdict uint8

const (
	valid verdict = iota
	// staleRead chains have read what an earlier epoch has changed.
	staleRead
	// staleChain chains depend on a transaction of an earlier epoch.
	staleChain
	// inConflict chains are not in the independent set.
	inConflict
	// notExecuted is a transaction of the high-contention mode.
	notExecuted
)

func (e *epochs) init(r *Replica, p protocol.Params) {
	e.r, e.method, e.acrossEpochs = r, method(p), p.Word("acrossEpochs") == acrossValid
	e.head, e.tail = make(Heads, r.nodes), make(Heads, r.nodes)
	e.cuts, e.first = []Heads{e.head}, 0
	e.execution = optimistic.Execution{Committed: r.store}
	e.again, e.spans = make([][]reexecution, r.nodes), make([]span, r.nodes)
	e.asked, e.discarded = make([]geo.NodeID, r.nodes), make([][]uint64, r.nodes)
	for n := range e.discarded {
		e.discarded[n] = make([]uint64, r.nodes)
	}
	e.conflicts.init(r.wrong)
}

// agreed takes a cut that was agreed on. Heads never go back: a coordinator may not know all that its predecessor has
// proposed.
func (e *epochs) agreed(h Heads) {
	if len(h) != e.r.nodes {
		return
	}
	cut := slices.Clone(e.head)
	for n := range cut {
		cut[n] = max(cut[n], h[n])
	}
	if slices.Equal(cut, e.head) {
		e.r.env.Mark(cutRepeated)
		return
	}
	e.append(cut)
	e.r.rejoin.install()
	e.advance()
}

// append adds a cut, to be committed unless this replica is too far behind.
func (e *epochs) append(cut Heads) {
	e.agreedCuts++
	for n, head := range cut {
		g := &e.r.logs.all[n]
		g.cut = head
		if protocol.IncarnationOf(head) > protocol.IncarnationOf(e.head[n]) {
			e.succession = e.agreedCuts
			g.open(protocol.IncarnationOf(head))
		}
	}
	e.head = cut
	e.cuts = append(e.cuts, cut)
	if !e.behind && e.r.rejoin.joined {
		e.queue.Push(cut)
	}
}

// advance commits the epochs whose batches have all arrived.
func (e *epochs) advance() {
	for e.queue.Len() > 0 {
		if !e.complete() {
			if !e.fetching {
				e.awaitBatches()
			}
			return
		}
		cut := e.queue.Front()
		e.queue.Pop()
		e.commit(cut)
	}
}

// complete reports whether all batches of the next epoch are here.
func (e *epochs) complete() bool {
	for n, head := range e.queue.Front() {
		if e.r.logs.all[n].of(head).received < head {
			return false
		}
	}
	return true
}

// fetchAfter is the time beyond the longest round trip for which a replica waits for a batch before it asks the next
// replica.
const fetchAfter = 10 * time.Millisecond

// fetch asks for the missing batches of the next epoch, one replica after another: f + 1 replicas have them. Most
// batches are in flight when they are first found missing.
func (e *epochs) fetch() {
	e.fetching = false
	if e.queue.Len() == 0 || e.complete() || e.giveUp() {
		return
	}
	for n, head := range e.queue.Front() {
		if first, lacks := e.missing(geo.NodeID(n)); lacks {
			e.requests++
			e.r.env.Mark(batchFetched)
			e.r.env.Send(e.holder(geo.NodeID(n), first), &Request{geo.NodeID(n), first, head})
		}
	}
	e.awaitBatches()
}

// missing returns the first batch of a replica that the next epoch lacks, if it lacks one.
func (e *epochs) missing(origin geo.NodeID) (first uint64, lacks bool) {
	head := e.queue.Front()[origin]
	g := e.r.logs.all[origin].of(head)
	return max(g.received+1, g.first), g.received < head
}

// never reports whether this replica does not have a batch, and never will.
func (e *epochs) never(origin geo.NodeID, number uint64) bool {
	switch {
	case e.r.logs.all[origin].get(number) != nil:
		return false
	case e.behind, e.tail[origin] >= number:
		return true // it takes no more batches, or none of an epoch that it has committed
	}
	// Two replicas that lack the same batch must not wait for each other, so each passes on the report of a third one.
	return e.reported(origin, number)
}

// reported reports whether any replica has reported a batch as discarded.
func (e *epochs) reported(origin geo.NodeID, number uint64) bool {
	return slices.ContainsFunc(e.discarded, func(of []uint64) bool { return of[origin] == number })
}

// forgotten learns that a replica will never have a batch.
func (e *epochs) forgotten(from geo.NodeID, m *Forgotten) {
	if int(m.Origin) < e.r.nodes {
		e.discarded[from][m.Origin] = m.Number
		e.giveUp()
	}
}

// giveUp falls behind if a batch that the next epoch lacks is lost, and reports whether this replica is behind.
func (e *epochs) giveUp() bool {
	for n := range geo.NodeID(e.r.nodes) {
		if e.queue.Len() == 0 {
			break
		}
		if first, lacks := e.missing(n); lacks && e.lost(n, first) {
			e.r.env.Mark(batchLost)
			e.abandon()
		}
	}
	return e.behind
}

// lost reports whether no replica can send a batch: every other replica that lives has discarded it, its origin among
// them, and at least one lives. A replica that hears no other one must not conclude anything.
func (e *epochs) lost(origin geo.NodeID, number uint64) (lost bool) {
	for n := range geo.NodeID(e.r.nodes) {
		if n == e.r.self || !e.r.progress.lives(n) {
			continue
		}
		if e.discarded[n][origin] != number {
			return false
		}
		lost = true
	}
	return lost
}

// abandon stops committing, and says so to clients.
func (e *epochs) abandon() {
	e.behind = true
	e.queue = queue.Queue[Heads]{}
	e.r.local.abandon()
}

// awaitBatches sets the timer after which batches are asked for that are still missing.
func (e *epochs) awaitBatches() {
	e.fetching = true
	after := e.r.longest + fetchAfter
	if e.r.env.Buggify(fetchesEarly) {
		after = time.Millisecond
	}
	e.r.env.After(after, protocol.Timer{Kind: fetchTimer})
}

// holder returns the replica to ask next for a batch: one that lives, as far as it is known, and not the one that it is
// from, since that one has sent it. Once a replica has discarded the batch, its origin is asked, too: the origin may
// have discarded the batch before this replica's incarnation started, or be a new incarnation itself.
func (e *epochs) holder(origin geo.NodeID, number uint64) geo.NodeID {
	reported := e.reported(origin, number)
	for range e.r.nodes {
		n := (e.asked[origin] + 1) % geo.NodeID(e.r.nodes)
		e.asked[origin] = n
		if n != e.r.self && (n != origin || reported) && e.r.progress.lives(n) {
			return n
		}
	}
	e.r.env.Mark(holderUnknown)
	if origin == e.r.self { // it is the predecessor's
		return (origin + 1) % geo.NodeID(e.r.nodes)
	}
	return origin
}

// commit commits an epoch.
func (e *epochs) commit(cut Heads) {
	e.gather(cut)
	e.tail = cut
	e.chain()
	e.findStale()
	e.findConflicting()
	valid := e.list()
	e.apply()
	again := len(e.rest) // executed optimistically, and again
	for _, i := range e.rest {
		if e.entries[i].verdict == notExecuted {
			again--
		}
	}
	e.reexecute()
	e.committed++
	e.answer()
	e.r.contention.epoch(valid, again)
	e.r.progress.expect()
}

// gather lists the transactions between the last cut and this cut.
func (e *epochs) gather(cut Heads) {
	clear(e.entries)
	e.entries = e.entries[:0]
	for n := range cut {
		g := &e.r.logs.all[n]
		s := span{from: int32(len(e.entries))}
		first := e.tail[n] + 1
		if i := protocol.IncarnationOf(cut[n]); i > protocol.IncarnationOf(e.tail[n]) {
			if g.end(e.tail[n]) {
				e.r.env.Mark(batchesVoid)
			}
			first = protocol.NumbersBefore(i) + 1
		}
		for number := first; number <= cut[n]; number++ {
			b := g.get(number)
			if number == first {
				s.first = b.First
				e.forget(n, b.Epoch)
			}
			e.r.logs.kept += b.size
			arrival := e.r.logs.arrivals[b]
			for i := range b.Records {
				at := int32(len(e.entries))
				e.entries = append(e.entries, entry{
					record: &b.Records[i], place: b.First + uint64(i), origin: int32(n), parent: at, arrival: arrival,
				})
			}
		}
		s.to = int32(len(e.entries))
		e.spans[n] = s
	}
	e.transactions += int64(len(e.entries))
}

// root returns the first entry of the chain of entry i.
func (e *epochs) root(i int32) int32 {
	for e.entries[i].parent != i {
		e.entries[i].parent = e.entries[e.entries[i].parent].parent
		i = e.entries[i].parent
	}
	return i
}

// condemn gives the chain of entry i a verdict, the first that is found.
func (e *epochs) condemn(i int32, v verdict) {
	if root := &e.entries[e.root(i)]; root.verdict == valid {
		root.verdict = v
	}
}

// chain joins transactions that have read from each other into chains, and finds transactions that have read from
// transactions of earlier epochs.
func (e *epochs) chain() {
	for i := range e.entries {
		x := &e.entries[i]
		if x.record.Unexecuted {
			x.verdict = notExecuted
			continue
		}
		if e.r.wrong == forgottenCascade {
			continue
		}
		points := x.record.Reads.Points
		for j := range points {
			p := &points[j]
			if p.Back == 0 {
				continue
			}
			if s := &e.spans[x.origin]; p.Back <= x.place-s.first {
				a, b := e.root(int32(i)), e.root(int32(i)-int32(p.Back))
				v := max(e.entries[a].verdict, e.entries[b].verdict)
				a, b = min(a, b), max(a, b)
				e.entries[b].parent = a
				e.r.env.Mark(chained)
				e.entries[a].verdict = v
			} else if !e.acrossEpochs || p.Back >= x.place || e.reexecuted(int(x.origin), x.place-p.Back) || !e.current(p) {
				e.r.env.Mark(staleChainMet)
				e.condemn(int32(i), staleChain)
			}
		}
	}
}

// current reports whether the uncommitted version that was read is now the committed version.
func (e *epochs) current(p *optimistic.Point) bool {
	rec, found := e.r.store.Get(p.Key)
	return found && !p.Absent && rec.Writer == p.Writer
}

// reexecuted reports whether a transaction of an earlier epoch was executed again.
func (e *epochs) reexecuted(origin int, place uint64) bool {
	_, found := slices.BinarySearchFunc(e.again[origin], place, func(x reexecution, place uint64) int {
		return int(int64(x.place) - int64(place))
	})
	return found
}

// forget removes a replica's re-executed transactions of an epoch that the replica had committed before it executed the
// current transactions: these have not read from them.
func (e *epochs) forget(origin int, epoch uint64) {
	done := 0
	for done < len(e.again[origin]) && e.again[origin][done].epoch <= epoch {
		done++
	}
	e.again[origin] = e.again[origin][done:]
}

// findStale finds the chains that have read rows which earlier epochs have changed.
func (e *epochs) findStale() {
	for i := range e.entries {
		x := &e.entries[i]
		root := &e.entries[e.root(int32(i))]
		if root.verdict == valid {
			e.validated += int64(x.record.Reads.Len())
			held := x.record.Reads.Hold(e.r.store)
			if e.r.wrong == rowsOnly {
				held = !x.record.Reads.Overtaken(e.r.store)
			}
			if !held {
				root.verdict = staleRead
				e.r.env.Mark(staleReadMet)
			}
		}
		if root == x && x.verdict != notExecuted {
			e.chains++
		}
	}
}

// findConflicting finds the chains outside the heaviest independent set of the chains that are not stale.
func (e *epochs) findConflicting() {
	if heads := e.addChains(); e.conflicts.build(e.r.self) {
		e.solve(heads)
	}
}

// addChains adds the chains that are not stale to the conflict graph, in the order of their first transactions. It
// returns, for each entry that is the root of a chain, the chain's first entry, and -1 for all others.
func (e *epochs) addChains() (heads []int32) {
	c := &e.conflicts
	c.reset()
	heads, next := c.order(len(e.entries))
	for i := len(e.entries) - 1; i >= 0; i-- {
		if root := e.root(int32(i)); e.entries[root].verdict == valid {
			next[i], heads[root] = heads[root], int32(i)
		}
	}
	for i := range e.entries {
		if heads[i] < 0 {
			continue
		}
		e.entries[i].chain = c.begin(e.entries[i].origin)
		for j := heads[i]; j >= 0; j = next[j] {
			c.add(e.entries[j].record)
		}
	}
	return heads
}

// solve finds the independent set in the conflict graph, and marks all other chains as conflicting.
func (e *epochs) solve(heads []int32) {
	e.r.env.Mark(conflictsSolved)
	in := mwis.SolveWithin(&e.conflicts.graph, e.method, e.r.shrink, &e.solved)
	for i := range e.entries {
		if heads[i] < 0 {
			continue
		}
		if v := e.conflicts.vertexOf[e.entries[i].chain]; v >= 0 && !in[v] {
			e.entries[i].verdict = inConflict
			e.r.env.Mark(inConflictMet)
		}
	}
}

// list lists the transactions that are not valid, and returns how many are.
func (e *epochs) list() (count int) {
	e.rest = e.rest[:0]
	for i := range e.entries {
		x := &e.entries[i]
		switch x.verdict = e.entries[e.root(int32(i))].verdict; x.verdict {
		case valid:
			count++
			continue
		case staleRead:
			e.stale++
		case staleChain:
			e.cascading++
		case inConflict:
			e.conflicting++
		case notExecuted:
			e.r.env.Mark(executedLate)
			e.unexecuted++
		}
		e.rest = append(e.rest, int32(i))
	}
	e.valid += int64(count)
	return count
}

// apply applies the writes of the valid transactions, in their order.
func (e *epochs) apply() {
	for i := range e.entries {
		if x := &e.entries[i]; x.verdict == valid {
			e.applied += int64(len(x.record.Writes))
			e.write(x.record.Txn.ID, x.record.Writes)
		}
	}
}

// write writes rows into the store, with values of their own: the batches belong to others, too.
func (e *epochs) write(id txn.ID, writes []txn.WriteEntry) {
	e.owned = append(e.owned[:0], writes...)
	txn.Own(e.owned)
	for i := range e.owned {
		if w := &e.owned[i]; w.Deleted {
			e.r.store.Delete(w.Key)
		} else {
			e.r.store.Put(w.Key, w.Value, id)
		}
	}
	clear(e.owned)
}

// reexecute executes the invalid transactions in the order of replicas and their logs. Each transaction reads the
// writes of its predecessors.
func (e *epochs) reexecute() {
	if e.r.wrong == arrivalOrder {
		slices.SortStableFunc(e.rest, func(a, b int32) int { return int(e.entries[a].arrival - e.entries[b].arrival) })
	}
	clear(e.results)
	e.results = e.results[:0]
	for _, i := range e.rest {
		x := &e.entries[i]
		o := e.execution.Outcome(e.r.procs, x.record.Txn, e.r.placement)
		if o.Status == txn.Committed {
			e.reexecutedRows += int64(len(e.execution.Writes()))
			e.write(o.ID, e.execution.Writes())
		}
		if x.origin == int32(e.r.self) {
			x.result = int32(len(e.results))
			e.results = append(e.results, o)
		}
		if e.acrossEpochs {
			e.again[x.origin] = append(e.again[x.origin], reexecution{x.place, e.committed + 1})
		}
	}
}

// answer answers the replica's own transactions.
func (e *epochs) answer() {
	own := e.spans[e.r.self]
	if protocol.IncarnationOf(e.tail[e.r.self]) < e.r.incarnation {
		if own.from < own.to {
			e.r.env.Mark(predecessorCommitted)
		}
		return // no client here waits for transactions of the predecessor
	}
	for i := own.from; i < own.to; i++ {
		if x := &e.entries[i]; x.verdict == valid {
			e.r.local.commit(false, txn.Outcome{})
		} else {
			e.r.local.commit(true, e.results[x.result])
		}
	}
	if e.r.wrong == clearedState {
		e.r.local.clear()
	}
}

// collect forgets the cuts up to number low and their batches, which all replicas have committed, and the oldest where
// there are too many.
func (e *epochs) collect(low uint64) {
	forgettable := func() bool {
		if e.behind {
			return len(e.cuts) > e.r.logs.keepCuts
		}
		if e.first >= e.committed || !e.r.rejoin.joined {
			return false
		}
		return e.first <= low || !e.r.rejoin.awaited() && (len(e.cuts) > e.r.logs.keepCuts || e.r.logs.kept > e.r.logs.keepBytes)
	}
	for len(e.cuts) > 1 && forgettable() {
		for n, head := range e.cuts[0] {
			e.r.logs.drop(geo.NodeID(n), head)
		}
		e.cuts[0] = nil
		e.cuts = e.cuts[1:]
		e.first++
	}
}

// snapshot returns the last cuts, for a replica that lacks some.
func (e *epochs) snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, e.first), uint64(len(e.cuts)))
	for _, h := range e.cuts {
		b = h.appendTo(b)
	}
	return b
}

// restore takes the cuts that are missing from a snapshot.
func (e *epochs) restore(data []byte) {
	r := codec.NewReader(data)
	first, count := r.Uvarint(), r.Uvarint()
	for number := first; number < first+count && r.Err() == nil; number++ {
		cut := readHeads(&r)
		if len(cut) != e.r.nodes {
			return
		}
		if number > e.agreedCuts+1 {
			if e.r.rejoin.joined {
				e.fallBehind(number, cut)
			} else {
				e.skip(number)
			}
		}
		if number == e.agreedCuts+1 {
			e.append(cut)
		}
	}
	e.r.rejoin.install()
	e.advance()
}

// fallBehind stops to commit, since the cuts before a number are discarded, and notifies clients. The replica follows
// the cuts from there on. It keeps its batches of later epochs: it has acknowledged them, and other replicas may have
// to ask for them.
func (e *epochs) fallBehind(number uint64, cut Heads) {
	e.abandon()
	e.skip(number)
	for n, head := range cut {
		e.r.logs.drop(geo.NodeID(n), head)
	}
}

// skip forgets the cuts before a number.
func (e *epochs) skip(number uint64) {
	e.cuts, e.first, e.agreedCuts = nil, number, number-1
}
