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

	// agreedCuts is the number of agreed cuts, and committed is the number of cuts that this replica has committed. queue
	// holds the agreed cuts that are not committed yet.
	agreedCuts, committed uint64
	queue                 queue.Queue[Heads]
	head                  Heads // the last cut agreed on
	tail                  Heads // the last cut committed
	// cuts are the cuts that other replicas may request; first is the number of the oldest of them. At least the last cut
	// is always kept.
	cuts  []Heads
	first uint64
	// succession is the number of the last cut that first included batches of some new incarnation.
	succession uint64
	// behind is set once other replicas have discarded batches that this replica lacks. This replica then commits no
	// further epochs. It still records the cuts: as a coordinator, it may have to send them to other replicas.
	behind bool

	fetching bool // the fetch timer is set
	// asked is, by origin, the replica that was last asked for a batch. Each origin has its own cursor. Two origins that
	// shared a cursor could alternate, so that each of two replicas would always be asked for batches of the same origin.
	asked []geo.NodeID
	// askedAll is the time at which all replicas were last asked for a batch that all live replicas have discarded.
	askedAll time.Duration
	// discarded holds the number of the last batch that a replica has reported as Forgotten, by replica and origin. It is
	// 0 if there is none.
	discarded [][]uint64

	execution optimistic.Execution
	conflicts conflicts
	solved    mwis.Stats
	// again lists the re-executed transactions of each replica that later transactions of the same replica may have read
	// from. It is used only if acrossEpochs is set.
	again [][]reexecution

	// The following fields belong to the epoch that this replica is committing.
	entries []entry          `checkpoint:"-"`
	spans   []span           `checkpoint:"-"` // by replica
	rest    []int32          `checkpoint:"-"`
	results []txn.Outcome    `checkpoint:"-"` // of this replica's re-executed transactions
	owned   []txn.WriteEntry `checkpoint:"-"`

	transactions, valid, stale, cascading, conflicting, unexecuted int64
	chains, validated, applied, reexecutedRows, requests           int64
}

// entry is a transaction of the epoch that this replica is committing. Entries are sorted by replica, then by log
// position.
type entry struct {
	record  *Record
	place   uint64 // position in the replica's log
	origin  int32
	parent  int32 // parent in the union-find forest whose trees are the chains; the root is the first transaction of its chain
	chain   int32 // number of the chain in the conflict graph; valid at the root only
	verdict verdict
	result  int32 // index in results of a re-executed transaction of this replica
	arrival int32 // arrival number of the entry's batch; used only by a faulty variant
}

// span is the range [from, to) of the entries of one replica.
type span struct {
	from, to int32
	first    uint64 // position of the first entry in the replica's log
}

// reexecution is a re-executed transaction, given by its log position, and the epoch that re-executed it.
type reexecution struct{ place, epoch uint64 }

// verdict is the result of validating a chain. It is stored at the chain's root.
type verdict uint8

const (
	valid verdict = iota
	// staleRead chains have read rows that an earlier epoch has changed after the read.
	staleRead
	// staleChain chains have read from a transaction of an earlier epoch, and this read does not count as valid.
	staleChain
	// inConflict chains were not chosen for the independent set.
	inConflict
	// notExecuted transactions have no optimistic execution, because their replica was in high-contention mode.
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

// agreed appends an agreed cut. Heads must never decrease, but a new coordinator may not know everything that its
// predecessor proposed. Therefore agreed takes the maximum of each head and the head in the previous cut.
func (e *epochs) agreed(h Heads) {
	if len(h) != e.r.nodes {
		return
	}
	cut := slices.Clone(e.head)
	for n := range cut {
		cut[n] = max(cut[n], h[n])
	}
	// Every replica receives the same proposals in the same order and skips the same repetitions, so all replicas number
	// the cuts alike.
	if slices.Equal(cut, e.head) {
		e.r.env.Mark(cutRepeated)
		return
	}
	e.append(cut)
	// Received rows may have waited for this cut.
	e.r.rejoin.install()
	e.advance()
}

// append records a cut. It also queues the cut for commitment, unless this replica is behind or has not rejoined yet.
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
	// A rejoining replica has no rows to apply epochs to. It first installs the rows of another replica.
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
		// append and `begin` have opened a segment for every incarnation in the cut, so of(head) is not nil.
		if e.r.logs.all[n].of(head).received < head {
			return false
		}
	}
	return true
}

// commit validates and commits the epoch that ends at cut.
func (e *epochs) commit(cut Heads) {
	e.gather(cut)
	// gather needs the previous cut in tail; all later steps need this cut.
	e.tail = cut
	// The order follows algorithm 4. A stale transaction invalidates its whole chain, and only chains that are not stale
	// enter the conflict graph.
	e.chain()
	e.findStale()
	e.findConflicting()
	valid := e.list()
	// Apply valid transactions before re-execution changes the rows: their reads were validated against the rows before
	// this epoch.
	e.apply()
	again := len(e.rest) // executed twice: optimistically, and again in this epoch
	for _, i := range e.rest {
		// contention compares failed and successful optimistic executions. These transactions had no optimistic execution.
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

// gather lists the transactions from the last committed cut, exclusive, up to this cut.
func (e *epochs) gather(cut Heads) {
	clear(e.entries)
	e.entries = e.entries[:0]
	for n := range cut {
		g := &e.r.logs.all[n]
		s := span{from: int32(len(e.entries))}
		first := e.tail[n] + 1
		// The predecessor's batches after its last agreed head are void. The cut skips them and continues with the first
		// batch of the new incarnation.
		if i := protocol.IncarnationOf(cut[n]); i > protocol.IncarnationOf(e.tail[n]) {
			if g.end(e.tail[n]) {
				e.r.env.Mark(batchesVoid)
			}
			first = protocol.NumbersBefore(i) + 1
		}
		for number := first; number <= cut[n]; number++ {
			// complete has verified that no batch of the epoch is missing, so b is not nil.
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

// root returns the root of entry i's chain, which is the chain's first entry. It shortens the path along the way.
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

// chain joins transactions of this epoch into chains if one has read from the other. It condemns chains that have read
// from a transaction of an earlier epoch, unless acrossEpochs is set and the read is still correct.
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
			// The transaction that was read from is among the replica's entries of this epoch.
			if s := &e.spans[x.origin]; p.Back <= x.place-s.first {
				a, b := e.root(int32(i)), e.root(int32(i)-int32(p.Back))
				// If either chain is already condemned, the joined chain must be condemned, too.
				v := max(e.entries[a].verdict, e.entries[b].verdict)
				// The root must be the chain's first entry, because the conflict graph orders chains by their roots.
				a, b = min(a, b), max(a, b)
				e.entries[b].parent = a
				e.r.env.Mark(chained)
				e.entries[a].verdict = v
				// The second execution of an earlier transaction may have written a different value from the one read
				// optimistically.
			} else if !e.acrossEpochs || p.Back >= x.place || e.reexecuted(int(x.origin), x.place-p.Back) || !e.current(p) {
				e.r.env.Mark(staleChainMet)
				e.condemn(int32(i), staleChain)
			}
		}
	}
}

// current reports whether the version that was uncommitted when p was read is now the committed version.
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

// forget removes origin's re-executed transactions up to the given epoch. origin had committed that epoch before it
// executed its current transactions. Their optimistic execution therefore cannot have read from the removed
// transactions.
func (e *epochs) forget(origin int, epoch uint64) {
	done := 0
	// Entries are in epoch order, so the scan can stop at the first later epoch.
	for done < len(e.again[origin]) && e.again[origin][done].epoch <= epoch {
		done++
	}
	e.again[origin] = e.again[origin][done:]
}

// findStale condemns the chains that have read rows which an earlier epoch has changed after the read.
func (e *epochs) findStale() {
	for i := range e.entries {
		x := &e.entries[i]
		root := &e.entries[e.root(int32(i))]
		// One stale read condemns the whole chain, so the chain's remaining transactions need no validation.
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

// findConflicting condemns the chains outside the heaviest independent set that the solver finds. Only chains that are
// not stale take part.
func (e *epochs) findConflicting() {
	if heads := e.addChains(); e.conflicts.build(e.r.self) {
		e.solve(heads)
	}
}

// addChains adds the chains that are not stale to the conflict graph, in the order of their first transactions.
// heads[i] is i if entry i is the root of such a chain, and -1 otherwise.
func (e *epochs) addChains() (heads []int32) {
	c := &e.conflicts
	c.reset()
	heads, next := c.order(len(e.entries))
	// Entries are prepended to the list of their chain. The backward iteration therefore leaves each list in log order.
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

// solve finds an independent set of the conflict graph and condemns every chain outside the set.
func (e *epochs) solve(heads []int32) {
	e.r.env.Mark(conflictsSolved)
	in := mwis.SolveWithin(&e.conflicts.graph, e.method, e.r.shrink, &e.solved)
	for i := range e.entries {
		if heads[i] < 0 {
			continue
		}
		// A chain without a vertex has no conflicts and is valid in any case.
		if v := e.conflicts.vertexOf[e.entries[i].chain]; v >= 0 && !in[v] {
			e.entries[i].verdict = inConflict
			e.r.env.Mark(inConflictMet)
		}
	}
}

// list copies each chain's verdict to its transactions, and collects the invalid transactions in rest. It returns the
// number of valid transactions.
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

// write writes rows into the store. It copies the values first, because batches share their memory.
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

// reexecute executes the invalid transactions in entry order: by replica, then by log position. Each transaction sees
// the writes of all earlier ones.
func (e *epochs) reexecute() {
	if e.r.wrong == arrivalOrder {
		slices.SortStableFunc(e.rest, func(a, b int32) int { return int(e.entries[a].arrival - e.entries[b].arrival) })
	}
	clear(e.results)
	e.results = e.results[:0]
	for _, i := range e.rest {
		x := &e.entries[i]
		o := e.execution.Outcome(e.r.procs, x.record.Txn, e.r.placement)
		// A transaction that its procedure aborts writes nothing. Its client still gets the outcome.
		if o.Status == txn.Committed {
			e.reexecutedRows += int64(len(e.execution.Writes()))
			e.write(o.ID, e.execution.Writes())
		}
		// The other replicas compute the same outcome, but no client waits for it there.
		if x.origin == int32(e.r.self) {
			x.result = int32(len(e.results))
			e.results = append(e.results, o)
		}
		if e.acrossEpochs {
			// This epoch has number committed + 1, because committed has not been incremented yet.
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
		// A replica that is behind commits no epochs, so the epochs of the other replicas bound the cuts that it may discard.
		// As a coordinator, it would otherwise make replicas fall behind that have committed more epochs than all others.
		if e.behind {
			return len(e.cuts) > e.r.logs.keepCuts && e.first < e.r.progress.most()
		}
		// Epochs that are not committed here still need their batches.
		if e.first >= e.committed || !e.r.rejoin.joined {
			return false
		}
		// A new incarnation that is still catching up may request any of these batches. The limits therefore do
		// not apply while this replica waits for it.
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
		b = h.AppendTo(b)
	}
	return b
}

// restore appends the cuts of a snapshot that are new to this replica.
func (e *epochs) restore(data []byte) {
	r := codec.NewReader(data)
	first, count := r.Uvarint(), r.Uvarint()
	for number := first; number < first+count && r.Err() == nil; number++ {
		cut := ReadHeads(&r)
		if len(cut) != e.r.nodes {
			return
		}
		// The sender has discarded the cuts before number. A replica with rows can never commit the discarded cuts. A new
		// incarnation without rows skips them, because it will receive rows of a later epoch.
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

// fallBehind stops committing epochs (abandon), because other replicas have discarded the cuts before number. This
// replica still records the cuts from number on. It also keeps the batches of later epochs: it has acknowledged them,
// so other replicas may have to request them from it.
func (e *epochs) fallBehind(number uint64, cut Heads) {
	e.abandon()
	e.skip(number)
	for n, head := range cut {
		e.r.logs.drop(geo.NodeID(n), head)
	}
}

// skip discards the recorded cuts; the next cut that append records has this number.
func (e *epochs) skip(number uint64) {
	e.cuts, e.first, e.agreedCuts = nil, number, number-1
}
