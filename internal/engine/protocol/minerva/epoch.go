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

// epochs commits the transactions between two consecutive cuts: it validates them, applies the valid transactions, and
// re-executes the others (section 3.5, algorithm 4). Every replica computes the same result.
type epochs struct {
	r      *Replica
	method mwis.Method
	// acrossEpochs is set if a chain may extend into earlier epochs: the parameter acrossEpochs is Valid.
	acrossEpochs bool

	// agreedCuts is the number of cuts agreed on, committed the number of cuts that this replica has committed. queue
	// holds the cuts in between.
	agreedCuts, committed uint64
	queue                 queue.Queue[Heads]
	head                  Heads // the last cut agreed on
	tail                  Heads // the last cut committed
	// cuts are the cuts that other replicas may request; first is the number of the oldest. At least the last cut is
	// always kept.
	cuts  []Heads
	first uint64
	// succession is the number of the last cut that was the first to include batches of a new incarnation.
	succession uint64
	// behind is set once other replicas have discarded batches that this replica lacks. It then commits nothing more but
	// still records the cuts: as a coordinator it may have to send them to other replicas.
	behind bool

	fetching bool // the fetch timer is set
	// asked is, by origin, the replica that was last asked for a batch. A single cursor shared by two origins could
	// alternate, and always ask each of two replicas for batches of the same origin.
	asked []geo.NodeID
	// discarded holds, by replica and origin, the number of the batch that the replica last reported as Forgotten, or 0.
	discarded [][]uint64

	execution optimistic.Execution
	conflicts conflicts
	solved    mwis.Stats
	// again lists, by replica, its re-executed transactions that its later transactions may have read from. Used only if
	// acrossEpochs is set.
	again [][]reexecution

	// The following fields belong to the epoch that is being committed.
	entries []entry          `checkpoint:"-"`
	spans   []span           `checkpoint:"-"` // by replica
	rest    []int32          `checkpoint:"-"`
	results []txn.Outcome    `checkpoint:"-"` // of this replica's re-executed transactions
	owned   []txn.WriteEntry `checkpoint:"-"`

	transactions, valid, stale, cascading, conflicting, unexecuted int64
	chains, validated, applied, reexecutedRows, requests           int64
}

// entry is a transaction of the epoch that is being committed. Entries are sorted by replica, then by log position.
type entry struct {
	record  *Record
	place   uint64 // position in the replica's log
	origin  int32
	parent  int32 // in the union-find forest whose trees are the chains; the root is the first transaction of its chain
	chain   int32 // number of the chain in the conflict graph; valid at the root only
	verdict verdict
	result  int32 // index in results
	arrival int32 // of the entry's batch; used only by a faulty variant
}

// span is the range [from, to) of the entries of one replica.
type span struct {
	from, to int32
	first    uint64 // the position of the first entry in the replica's log
}

// reexecution is a transaction that was re-executed, with the epoch that did so.
type reexecution struct{ place, epoch uint64 }

// verdict is the result of validating a chain. It is stored at the chain's root.
type verdict uint8

const (
	valid verdict = iota
	// staleRead chains have read rows that an earlier epoch has changed since.
	staleRead
	// staleChain chains have read from a transaction of an earlier epoch that does not count as valid.
	staleChain
	// inConflict chains were not chosen for the independent set.
	inConflict
	// notExecuted is a transaction that its replica did not execute optimistically, because of the high-contention mode.
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

// agreed appends a cut that the consensus group agreed on. Heads never decrease: agreed takes the maximum with the
// previous cut, because a new coordinator may not know everything that its predecessor proposed.
func (e *epochs) agreed(h Heads) {
	if len(h) != e.r.nodes {
		return
	}
	cut := slices.Clone(e.head)
	for n := range cut {
		cut[n] = max(cut[n], h[n])
	}
	// Every replica receives the same proposals in the same order and skips the same ones, so all replicas number the
	// cuts alike.
	if slices.Equal(cut, e.head) {
		e.r.env.Mark(cutRepeated)
		return
	}
	e.append(cut)
	// Received rows may have waited for the cut of their epoch.
	e.r.rejoin.install()
	e.advance()
}

// append records a cut and, unless this replica is behind or has not rejoined yet, queues it for commitment.
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
	// A rejoining replica has no state to apply epochs to yet; it installs the state of another replica first.
	if !e.behind && e.r.rejoin.joined {
		e.queue.Push(cut)
	}
}

// advance commits queued epochs in order until it finds one with missing batches.
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

// complete reports whether this replica has received all batches of the next epoch.
func (e *epochs) complete() bool {
	for n, head := range e.queue.Front() {
		// append and `begin` have opened a segment for every incarnation in the cut, so of does not return nil.
		if e.r.logs.all[n].of(head).received < head {
			return false
		}
	}
	return true
}

// fetchAfter is the time beyond the longest round trip for which a replica waits for a batch before it asks the next
// replica.
const fetchAfter = 10 * time.Millisecond

// fetch requests the missing batches of the next epoch from one replica at a time, in turn: f + 1 replicas have them.
// It runs on a timer, because most batches that are first found missing are still in flight.
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

// missing returns the number of the first batch of origin that the next epoch needs and this replica lacks. lacks is
// false if there is none.
func (e *epochs) missing(origin geo.NodeID) (first uint64, lacks bool) {
	head := e.queue.Front()[origin]
	g := e.r.logs.all[origin].of(head)
	return max(g.received+1, g.first), g.received < head
}

// never reports whether this replica lacks a batch and will never receive it.
func (e *epochs) never(origin geo.NodeID, number uint64) bool {
	switch {
	case e.r.logs.all[origin].get(number) != nil:
		return false
	case e.behind, e.tail[origin] >= number:
		// a replica that is behind accepts no batches, and no replica accepts batches of an epoch that it has committed
		return true
	}
	// Two replicas that lack the same batch must not wait for each other, so each one relays the report of a third
	// replica.
	return e.reported(origin, number)
}

// reported reports whether any other replica has reported a batch as discarded.
func (e *epochs) reported(origin geo.NodeID, number uint64) bool {
	return slices.ContainsFunc(e.discarded, func(of []uint64) bool { return of[origin] == number })
}

// forgotten records the report of a replica that it will never have a batch.
func (e *epochs) forgotten(from geo.NodeID, m *Forgotten) {
	if int(m.Origin) < e.r.nodes {
		e.discarded[from][m.Origin] = m.Number
		e.giveUp()
	}
}

// giveUp abandons if a batch that the next epoch needs is lost. It reports whether this replica is behind.
func (e *epochs) giveUp() bool {
	for n := range geo.NodeID(e.r.nodes) {
		// abandon empties the queue, after which missing must not look at its front.
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

// lost reports whether no replica can send a batch: every other live replica, including the batch's origin, has
// discarded it. It returns false if no other replica is live: an isolated replica cannot conclude anything.
func (e *epochs) lost(origin geo.NodeID, number uint64) (lost bool) {
	for n := range geo.NodeID(e.r.nodes) {
		if n == e.r.self || !e.r.progress.lives(n) {
			continue
		}
		// A report about another batch proves nothing about this one.
		if e.discarded[n][origin] != number {
			return false
		}
		lost = true
	}
	return lost
}

// abandon stops committing and informs the clients of this replica.
func (e *epochs) abandon() {
	e.behind = true
	e.queue = queue.Queue[Heads]{}
	e.r.local.abandon()
}

// awaitBatches sets the timer after which the replica requests batches that are still missing.
func (e *epochs) awaitBatches() {
	e.fetching = true
	after := e.r.longest + fetchAfter
	if e.r.env.Buggify(fetchesEarly) {
		after = time.Millisecond
	}
	e.r.env.After(after, protocol.Timer{Kind: fetchTimer})
}

// holder returns the replica to ask next for a batch, in round-robin order. It skips replicas that are not live, and
// also the origin, which has already sent the batch to all replicas. Once any replica has reported the batch as
// discarded, holder also asks the origin: the origin may have discarded the batch before this replica's incarnation
// started, or may be a new incarnation itself.
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
	if origin == e.r.self { // the batch was appended by the predecessor of this incarnation
		return (origin + 1) % geo.NodeID(e.r.nodes)
	}
	return origin
}

// commit validates and commits the epoch that ends at cut.
func (e *epochs) commit(cut Heads) {
	e.gather(cut)
	// gather needs the previous cut as tail; all later steps need this cut.
	e.tail = cut
	// The order follows algorithm 4: a stale transaction condemns its whole chain, and only chains that are not stale
	// compete in the conflict graph.
	e.chain()
	e.findStale()
	e.findConflicting()
	valid := e.list()
	// The valid transactions come first: their reads were validated against the state before this epoch, which
	// re-execution changes.
	e.apply()
	again := len(e.rest) // executed twice: optimistically, and again here
	for _, i := range e.rest {
		// The contention measure compares optimistic executions that failed with those that succeeded; these had none.
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

// gather lists the transactions after the last committed cut, up to this cut.
func (e *epochs) gather(cut Heads) {
	clear(e.entries)
	e.entries = e.entries[:0]
	for n := range cut {
		g := &e.r.logs.all[n]
		s := span{from: int32(len(e.entries))}
		first := e.tail[n] + 1
		// Batches of the predecessor after its last agreed head are void: the cut skips to the first batch of the new
		// incarnation.
		if i := protocol.IncarnationOf(cut[n]); i > protocol.IncarnationOf(e.tail[n]) {
			if g.end(e.tail[n]) {
				e.r.env.Mark(batchesVoid)
			}
			first = protocol.NumbersBefore(i) + 1
		}
		for number := first; number <= cut[n]; number++ {
			// complete has checked that no batch of the epoch is missing, so b is not nil.
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

// root returns the first entry of the chain of entry i. It shortens the path as it goes.
func (e *epochs) root(i int32) int32 {
	for e.entries[i].parent != i {
		e.entries[i].parent = e.entries[e.entries[i].parent].parent
		i = e.entries[i].parent
	}
	return i
}

// condemn gives the chain of entry i the verdict v, unless the chain already has a verdict other than valid.
func (e *epochs) condemn(i int32, v verdict) {
	if root := &e.entries[e.root(i)]; root.verdict == valid {
		root.verdict = v
	}
}

// chain joins transactions of this epoch that have read from each other into chains. It condemns chains that have read
// from a transaction of an earlier epoch, except where acrossEpochs allows it.
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
			// The distance to the transaction that was read from stays within the replica's entries of this epoch.
			if s := &e.spans[x.origin]; p.Back <= x.place-s.first {
				a, b := e.root(int32(i)), e.root(int32(i)-int32(p.Back))
				// If either chain was condemned already, the joined chain must stay condemned.
				v := max(e.entries[a].verdict, e.entries[b].verdict)
				// The root must be the first entry, because the conflict graph orders chains by their roots.
				a, b = min(a, b), max(a, b)
				e.entries[b].parent = a
				e.r.env.Mark(chained)
				e.entries[a].verdict = v
				// An earlier transaction that was re-executed may have written another value than the one read optimistically.
			} else if !e.acrossEpochs || p.Back >= x.place || e.reexecuted(int(x.origin), x.place-p.Back) || !e.current(p) {
				e.r.env.Mark(staleChainMet)
				e.condemn(int32(i), staleChain)
			}
		}
	}
}

// current reports whether the version that was read, uncommitted then, is now the committed version.
func (e *epochs) current(p *optimistic.Point) bool {
	rec, found := e.r.store.Get(p.Key)
	return found && !p.Absent && rec.Writer == p.Writer
}

// reexecuted reports whether the transaction of an earlier epoch at this position of origin's log was re-executed.
func (e *epochs) reexecuted(origin int, place uint64) bool {
	_, found := slices.BinarySearchFunc(e.again[origin], place, func(x reexecution, place uint64) int {
		return int(int64(x.place) - int64(place))
	})
	return found
}

// forget removes origin's re-executed transactions up to the given epoch. The replica had committed that epoch before
// it executed its current transactions, so they cannot have read from the removed ones optimistically.
func (e *epochs) forget(origin int, epoch uint64) {
	done := 0
	// Entries are in epoch order, so the scan may stop at the first newer one.
	for done < len(e.again[origin]) && e.again[origin][done].epoch <= epoch {
		done++
	}
	e.again[origin] = e.again[origin][done:]
}

// findStale condemns the chains that have read rows which earlier epochs have changed since.
func (e *epochs) findStale() {
	for i := range e.entries {
		x := &e.entries[i]
		root := &e.entries[e.root(int32(i))]
		// One stale read condemns the whole chain, so the remaining transactions of the chain need no validation.
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

// findConflicting condemns the chains outside the maximum-weight independent set. Only chains that are not stale take
// part.
func (e *epochs) findConflicting() {
	if heads := e.addChains(); e.conflicts.build(e.r.self) {
		e.solve(heads)
	}
}

// addChains adds the chains that are not stale to the conflict graph, in the order of their first transactions.
// heads[i] is the chain's first entry if entry i is the root of such a chain, and -1 otherwise.
func (e *epochs) addChains() (heads []int32) {
	c := &e.conflicts
	c.reset()
	heads, next := c.order(len(e.entries))
	// Entries are prepended to their chain's list, so walking backwards leaves each list in log order.
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

// solve finds the independent set of the conflict graph and condemns every chain outside of it.
func (e *epochs) solve(heads []int32) {
	e.r.env.Mark(conflictsSolved)
	in := mwis.SolveWithin(&e.conflicts.graph, e.method, e.r.shrink, &e.solved)
	for i := range e.entries {
		if heads[i] < 0 {
			continue
		}
		// A negative vertex is a chain without conflicts; it is valid in any case.
		if v := e.conflicts.vertexOf[e.entries[i].chain]; v >= 0 && !in[v] {
			e.entries[i].verdict = inConflict
			e.r.env.Mark(inConflictMet)
		}
	}
}

// list copies each chain's verdict to its transactions, collects the invalid transactions in rest, and returns the
// number of valid ones.
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

// apply applies the writes of the valid transactions, in entry order.
func (e *epochs) apply() {
	// Valid chains of different replicas do not conflict, so the order of replicas does not matter. Within a replica,
	// entry order is execution order.
	for i := range e.entries {
		if x := &e.entries[i]; x.verdict == valid {
			e.applied += int64(len(x.record.Writes))
			e.write(x.record.Txn.ID, x.record.Writes)
		}
	}
}

// write writes rows into the store. It copies the values first, because the memory of batches is shared.
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

// reexecute executes the invalid transactions in entry order: by replica, then by log position. Each transaction reads
// the writes of its predecessors.
func (e *epochs) reexecute() {
	if e.r.wrong == arrivalOrder {
		slices.SortStableFunc(e.rest, func(a, b int32) int { return int(e.entries[a].arrival - e.entries[b].arrival) })
	}
	clear(e.results)
	e.results = e.results[:0]
	for _, i := range e.rest {
		x := &e.entries[i]
		o := e.execution.Outcome(e.r.procs, x.record.Txn, e.r.placement)
		// A transaction that its procedure aborts writes nothing, but its client still gets this outcome.
		if o.Status == txn.Committed {
			e.reexecutedRows += int64(len(e.execution.Writes()))
			e.write(o.ID, e.execution.Writes())
		}
		// The other replicas compute the same outcome but have no client that waits for it.
		if x.origin == int32(e.r.self) {
			x.result = int32(len(e.results))
			e.results = append(e.results, o)
		}
		if e.acrossEpochs {
			// committed still counts the epochs before this one.
			e.again[x.origin] = append(e.again[x.origin], reexecution{x.place, e.committed + 1})
		}
	}
}

// answer sends the outcomes of this replica's transactions to their clients.
func (e *epochs) answer() {
	own := e.spans[e.r.self]
	if protocol.IncarnationOf(e.tail[e.r.self]) < e.r.incarnation {
		if own.from < own.to {
			e.r.env.Mark(predecessorCommitted)
		}
		return // no client of this incarnation waits for its predecessor's transactions
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

// collect discards the cuts up to number low and their batches, which all replicas have committed. It also discards the
// oldest cuts if the replica keeps too many cuts or bytes.
func (e *epochs) collect(low uint64) {
	forgettable := func() bool {
		// A replica that is behind commits nothing, so committed cannot bound what it discards.
		if e.behind {
			return len(e.cuts) > e.r.logs.keepCuts
		}
		// Epochs that are not committed here still need their batches.
		if e.first >= e.committed || !e.r.rejoin.joined {
			return false
		}
		// A new incarnation that is still catching up may request any of these batches, so the limits do not apply while it
		// is awaited.
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

// snapshot returns the encoded recent cuts, for a replica that lacks some of them.
func (e *epochs) snapshot() []byte {
	b := codec.AppendUvarint(codec.AppendUvarint(nil, e.first), uint64(len(e.cuts)))
	for _, h := range e.cuts {
		b = h.appendTo(b)
	}
	return b
}

// restore appends the cuts of a snapshot that this replica does not have yet.
func (e *epochs) restore(data []byte) {
	r := codec.NewReader(data)
	first, count := r.Uvarint(), r.Uvarint()
	for number := first; number < first+count && r.Err() == nil; number++ {
		cut := readHeads(&r)
		if len(cut) != e.r.nodes {
			return
		}
		// The sender has discarded the cuts in between. A replica with rows can never commit them; a new incarnation
		// without rows skips them, because its rows will be of a later epoch.
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

// fallBehind abandons, because other replicas have discarded the cuts before number. The replica still records the cuts
// from number on. It keeps the batches of later epochs: it has acknowledged them, so other replicas may have to request
// them from it.
func (e *epochs) fallBehind(number uint64, cut Heads) {
	e.abandon()
	e.skip(number)
	for n, head := range cut {
		e.r.logs.drop(geo.NodeID(n), head)
	}
}

// skip discards the recorded cuts and continues at number.
func (e *epochs) skip(number uint64) {
	e.cuts, e.first, e.agreedCuts = nil, number, number-1
}
