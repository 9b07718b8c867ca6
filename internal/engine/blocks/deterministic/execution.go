package deterministic

import (
	"slices"
	"unsafe"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// execution is a transaction at one of its participants. Each participant reads its local rows and sends them to the
// active participants, which are the participants that write. An active participant collects the reads of all
// participants and runs the procedure. All active participants use the same reads, so they reach the same result.
//
// execution implements txn.Ctx for the procedure. Writes are buffered until the procedure has returned without an
// error.
type execution struct {
	x     *Executor
	t     *txn.Transaction // nil until the whole transaction has arrived
	at    Place
	slots []slot // one for each access of the transaction
	hint  int    // index of the last access that find has found

	parts     int // number of parts that have arrived here
	needed    int // number of parts that must arrive here; valid once the whole transaction has arrived
	answering int // the active partition that sends the outcome if the client's node does not run the procedure
	waitLocks int // number of requested local locks that are not granted
	waitReads int // number of participants whose reads are outstanding; with KeepLocks, participants whose locks are outstanding
	deferred  int // number of lock requests that wait until a row moves here

	coordinator geo.NodeID // the node where the client waits
	vertex      int32      // position in the component that Executor.Reorder works on

	multi     bool // has participants other than this node
	active    bool // this node runs the procedure
	listed    bool // is in Executor.running
	parted    bool // arrives in parts
	queued    bool // in Executor.ready
	holding   bool // all local locks are granted and the local rows read
	reordered bool // Executor.Reorder has changed its position in the lock queues
	stale     bool // was sent to a former home of a row, so no node runs it
	stray     bool // the procedure has used a row outside its footprint
	named     bool // Executor.Graph has reported it
	sound     bool // cannot be in a deadlock
	member    bool // belongs to the component that Reorder works on

	groups   *groupWork // accesses to rows of groups, in addition to slots; nil if there are none yet
	unlocked []txn.Key  // local keys without a lock request, because their rows have moved away
	early    []reads    // reads that arrived before the transaction itself, or before its reordering
	told     []int      // partitions whose reads have arrived; used with a Keeper
	next     *execution // in the free list
	requests *request   // the transaction's lock requests, linked by sibling
}

// groupWork holds an execution's accesses to rows of groups.
type groupWork struct {
	writes txn.WriteSet
	ranges []rows // rows received from other participants, by range of the footprint
}

// group returns e.groups and allocates it if necessary.
func (e *execution) group() *groupWork {
	if e.groups == nil {
		e.groups = &groupWork{}
	}
	return e.groups
}

func (g *groupWork) reset() {
	if g != nil {
		g.writes.Reset()
		g.ranges = nil
	}
}

// slot is the state of an access. For an access to a group, only partition and local are used.
type slot struct {
	value     []byte
	partition int32
	local     bool
	loaded    bool
	found     bool
	written   bool
	deleted   bool
}

// reads are the reads of another participant.
type reads struct {
	partition int
	values    []Value
	reordered bool
	stale     bool
}

// begin prepares the execution of t, whose client waits at coordinator.
func (e *execution) begin(x *Executor, t *txn.Transaction, coordinator geo.NodeID) {
	e.x, e.t, e.coordinator = x, t, coordinator
	e.hint, e.waitLocks, e.waitReads, e.holding, e.stray = 0, 0, 0, false, false
	e.groups.reset()
	e.multi, e.active, e.answering = false, true, x.partition
	n := len(t.Accesses)
	if cap(e.slots) < n {
		e.slots = make([]slot, n, max(4, n))
	}
	e.slots = e.slots[:n]
	// With a single partition, all keys are local, so there is no need to look up their partitions.
	if x.partitions == 1 {
		for i := range e.slots {
			e.slots[i] = slot{local: true}
		}
		return
	}
	own := int32(x.partition)
	for i := range t.Accesses {
		p := int32(x.c.Layout.Shard(t.Accesses[i].Key))
		e.slots[i] = slot{partition: p, local: p == own}
		e.multi = e.multi || p != own
	}
	if !e.multi {
		return
	}
	e.active = false
	// The active participant with the lowest number answers. If the copy spans regions, active participants in the
	// coordinator's region take precedence.
	nobody := 2 * x.partitions
	lowest, writer := nobody, nobody
	region := x.c.Layout.Topology.RegionOf(coordinator)
	for i := range e.slots {
		p := int(e.slots[i].partition)
		if x.c.Layout.ByHome && x.c.Layout.Topology.RegionOf(x.copy[p]) != region {
			// The offset places participants of other regions after all participants of the coordinator's region.
			p += x.partitions
		}
		lowest = min(lowest, p)
		if t.Accesses[i].Mode&txn.Write != 0 {
			writer = min(writer, p)
			// A participant with writes is active: it runs the procedure and applies its own writes.
			e.active = e.active || e.slots[i].local
		}
	}
	// The remainder removes the offset of partitions in other regions.
	e.answering = writer % x.partitions
	// A read-only transaction has no writers. Its participant with the lowest number runs the procedure.
	if writer == nobody {
		e.answering = lowest % x.partitions
		e.active = e.answering == x.partition
	}
	e.awaitReads()
}

// awaitReads sets waitReads to the number of participants whose reads this node must receive.
func (e *execution) awaitReads() {
	e.waitReads = 0
	mode := txn.Read
	// With KeepLocks, even a participant without reads reports that it has its locks.
	if e.x.c.KeepLocks {
		mode = txn.ReadWrite
		// A passive participant only sends its reads, so it waits for no other participant.
	} else if !e.active {
		return
	}
	for i := range e.slots {
		if !e.slots[i].local && e.first(i, mode) {
			e.waitReads++
		}
	}
}

// first reports whether access i is the first access of its partition that has a mode in common with mode.
func (e *execution) first(i int, mode txn.Mode) bool {
	if e.t.Accesses[i].Mode&mode == 0 {
		return false
	}
	// Each participant sends a single message, so a partition counts only at its first access with such a mode.
	for j := range e.slots[:i] {
		if e.slots[j].partition == e.slots[i].partition && e.t.Accesses[j].Mode&mode != 0 {
			return false
		}
	}
	return true
}

// participants returns the number of partitions that the transaction accesses.
func (e *execution) participants() (n int) {
	for i := range e.slots {
		if e.first(i, txn.ReadWrite) {
			n++
		}
	}
	return n
}

// homes returns the number of different home regions of the transaction's local keys. The transaction arrives here in
// that number of parts, one from each home.
func (e *execution) homes(moved Homes) (n int) {
	home := func(i int) geo.Region {
		h, _ := moved.Of(e.x.placement, e.t.Accesses, i)
		return h
	}
next:
	for i := range e.slots {
		if !e.slots[i].local {
			continue
		}
		for j := range e.slots[:i] {
			if e.slots[j].local && home(j) == home(i) {
				continue next
			}
		}
		n++
	}
	return n
}

// complete reports whether the transaction and all its parts for this partition have arrived, and no lock request waits
// until a row moves here.
func (e *execution) complete() bool { return e.t != nil && e.parts == e.needed && e.deferred == 0 }

// take assigns the reads that arrived early. It keeps reads that wait for a reordering, and drops reads from before a
// reordering.
func (e *execution) take(early []reads) {
	kept := early[:0]
	for _, r := range early {
		if r.reordered == e.reordered {
			e.assign(r)
		} else if r.reordered {
			kept = append(kept, r)
		}
	}
	clear(early[len(kept):])
	e.early = kept
}

// assign stores the reads of another participant.
func (e *execution) assign(r reads) {
	e.waitReads--
	// If a row has moved away at any participant, all participants must refuse the transaction.
	e.stale = e.stale || r.stale
	values := r.values
	for i := range e.slots {
		sl := &e.slots[i]
		// The sender lists values in the order of the footprint, which is the same at all participants.
		if int(sl.partition) == r.partition && e.readsRow(i) && len(values) > 0 {
			sl.value, sl.found, sl.loaded = values[0].Bytes, values[0].Found, true
			values = values[1:]
		}
	}
	for i := range e.t.Ranges {
		// All keys of a range are in the partition of the first key.
		if e.x.c.Layout.Shard(e.t.Ranges[i].From) == r.partition && len(values) > 0 {
			g := e.group()
			if len(g.ranges) == 0 {
				g.ranges = make([]rows, len(e.t.Ranges))
			}
			g.ranges[i] = values[0].rows
			values = values[1:]
		}
	}
}

// readsRow reports whether access i reads a row that is not in a group.
func (e *execution) readsRow(i int) bool {
	a := &e.t.Accesses[i]
	return a.Mode&txn.Read != 0 && !a.Key.Ordered()
}

// locked continues a transaction that has all its local locks.
func (e *execution) locked() {
	e.holding = true
	if e.multi {
		e.serveReads()
		if e.waitReads > 0 {
			return
		}
	}
	e.end()
}

// end executes the transaction if this node is active, and releases the transaction's locks.
func (e *execution) end() {
	// A passive participant has already sent its reads, and does nothing else.
	if e.active {
		e.execute()
	}
	e.release()
}

// serveReads reads the local rows and sends them to the other active participants. With KeepLocks, it sends them to all
// other participants.
func (e *execution) serveReads() {
	var room [16]Value
	values := room[:0]
	for i := range e.slots {
		if sl := &e.slots[i]; sl.local && e.readsRow(i) {
			e.load(i)
			values = append(values, Value{Bytes: sl.value, Found: sl.found})
		}
	}
	for i := range e.t.Ranges {
		if e.x.local(e.t.Ranges[i].From) {
			values = append(values, Value{rows: e.readRange(&e.t.Ranges[i]), Range: true})
		}
	}
	// All participants must learn that the locks here are granted, even participants that need no reads.
	if e.x.c.KeepLocks {
		for i := range e.slots {
			if !e.slots[i].local && e.first(i, txn.ReadWrite) {
				e.x.sendReads(int(e.slots[i].partition), e, values)
			}
		}
		return
	}
	// No node waits for a participant that reads nothing: see awaitReads.
	if len(values) == 0 {
		return
	}
	writes := false
	for i := range e.slots {
		if e.t.Accesses[i].Mode&txn.Write == 0 {
			continue
		}
		writes = true
		if !e.slots[i].local && e.first(i, txn.Write) {
			e.x.sendReads(int(e.slots[i].partition), e, values)
		}
	}
	// A read-only transaction runs only at its answering participant.
	if !writes && !e.active {
		e.x.sendReads(e.answering, e, values)
	}
}

func (e *execution) load(i int) {
	sl := &e.slots[i]
	sl.value, sl.found = e.x.c.Store.Value(e.t.Accesses[i].Key)
	sl.loaded = true
}

// execute runs the procedure, applies the local writes, and answers the client if the client waits in this copy.
func (e *execution) execute() {
	x := e.x
	// By now, every active participant knows whether any row has moved away, so either all copies refuse the transaction
	// or none does.
	if e.stale {
		x.Stale++
		e.answer(txn.Outcome{ID: e.t.ID, Status: txn.Refused, Cause: txn.CauseMoved, Reason: ReasonMoved})
		return
	}
	x.Executed++
	if e.multi {
		x.MultiPartition++
	}
	if e.parted {
		x.MultiHome++
	}
	o := txn.Outcome{ID: e.t.ID, Status: txn.Committed}
	if !e.multi { // otherwise serveReads has read the local rows
		x.c.Store.Warm(e.t.Accesses)
	}
	result, err := x.c.Procedures.Lookup(e.t.Proc).Run(e, e.t.Args)
	switch {
	// A footprint from a reconnaissance may be stale, and another reconnaissance may succeed. A wrong declared footprint
	// is an error of the procedure.
	case e.stray && e.t.Found:
		x.StaleFootprints++
		o.Status, o.Cause, o.Reason = txn.Refused, txn.CauseStale, ReasonStaleFootprint
	case e.stray:
		x.Aborts++
		o.Status, o.Cause, o.Reason = txn.Aborted, txn.CauseProcedure, txn.ReasonUndeclared
	case err != nil:
		x.Aborts++
		o = txn.AbortOutcome(e.t.ID, err)
	default:
		o.Result = result
		e.apply()
	}
	if e.t.Found {
		o.Class = x.placement.Class(e.t.Accesses)
	}
	e.answer(o)
}

// apply writes the local writes to the store. A value that is a slice of the arguments would keep the whole received
// message in memory. Therefore apply copies all such values into one buffer.
func (e *execution) apply() {
	var room []byte
	for i := range e.slots {
		sl := &e.slots[i]
		if !sl.local {
			continue
		}
		if sl.written {
			v := sl.value
			if within(v, e.t.Args) {
				if room == nil {
					room = make([]byte, 0, e.borrowed(i))
				}
				room = append(room, v...)
				v = room[len(room)-len(v) : len(room) : len(room)]
			}
			e.x.c.Store.Put(e.t.Accesses[i].Key, v, e.t.ID)
		} else if sl.deleted {
			e.x.c.Store.Delete(e.t.Accesses[i].Key)
		}
	}
	if e.groups != nil {
		e.applyGroups()
	}
}

// applyGroups writes the local writes to rows of groups into the store.
func (e *execution) applyGroups() {
	for _, w := range e.groups.writes.Entries() {
		switch {
		// Every active participant computes all writes, but applies only the writes to its own partition.
		case !e.x.local(w.Key):
		case w.Deleted:
			e.x.c.Store.Delete(w.Key)
		case within(w.Value, e.t.Args):
			e.x.c.Store.Put(w.Key, slices.Clone(w.Value), e.t.ID)
		default:
			e.x.c.Store.Put(w.Key, w.Value, e.t.ID)
		}
	}
}

// borrowed returns the total size of those local writes that are slices of the arguments, starting at access i.
func (e *execution) borrowed(i int) (n int) {
	for _, sl := range e.slots[i:] {
		if sl.local && sl.written && within(sl.value, e.t.Args) {
			n += len(sl.value)
		}
	}
	return n
}

// within reports whether v points into b.
func within(v, b []byte) bool {
	if len(v) == 0 || len(b) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(v)))
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= from && at < from+uintptr(len(b))
}

// answer replies to the client if the client waits at this node. Otherwise the answering participant of this node's
// copy sends the outcome to the client's node, unless that node computes the outcome itself.
func (e *execution) answer(o txn.Outcome) {
	x := e.x
	if e.coordinator == x.c.Self {
		x.c.Answer(o)
		return
	}
	if e.answersElsewhere() {
		x.sendAnswer(e.coordinator, o)
	}
}

// answersElsewhere reports whether this node sends the outcome to the client's node.
func (e *execution) answersElsewhere() bool {
	partition := e.x.c.Layout.ShardOf(e.coordinator)
	// If the client's node is active, it computes the same outcome itself.
	return e.x.copy[partition] == e.coordinator && e.answering == e.x.partition && !e.activeAt(int32(partition))
}

// activeAt reports whether partition q runs the procedure.
func (e *execution) activeAt(q int32) bool {
	if int(q) == e.answering {
		return true
	}
	for i := range e.slots {
		if e.slots[i].partition == q && e.t.Accesses[i].Mode&txn.Write != 0 {
			return true
		}
	}
	return false
}

// release releases the local locks, and returns the execution to the free list.
func (e *execution) release() {
	x := e.x
	for i := range e.slots {
		if e.slots[i].local && e.requested(e.t.Accesses[i].Key) {
			x.locks.release(e, e.t.Accesses[i].Key, x.granted)
		}
	}
	e.finish()
	if e.listed {
		delete(x.running, e.at)
	}
	if e.parted {
		x.parted--
	}
	if e.coordinator != x.c.Self {
		x.foreign--
	}
	// Graph has reported this transaction, so the resolver must learn that it has finished.
	if e.named {
		x.over = append(x.over, e.at)
	}
	// An execution in the free list must not keep values in memory.
	clear(e.slots)
	clear(e.early)
	e.groups.reset()
	*e = execution{slots: e.slots, early: e.early[:0], told: e.told[:0], groups: e.groups, next: x.free}
	x.free = e
}

// finish records that the transaction has finished here.
func (e *execution) finish() {
	if e.coordinator != e.x.c.Self {
		e.x.Finished++
	}
	if k := e.x.c.Keeper; k != nil {
		k.Ended(e.at)
	}
}

// find returns the index of the access to k. Procedures mostly use keys in the declared order, and write a key after
// they have read it. The search therefore starts at the last result.
func (e *execution) find(k txn.Key) (i int, ok bool) {
	acc := e.t.Accesses
	if acc[e.hint].Key == k {
		return e.hint, true
	}
	for range acc {
		if e.hint++; e.hint == len(acc) {
			e.hint = 0
		}
		if acc[e.hint].Key == k {
			return e.hint, true
		}
	}
	return 0, false
}

// undeclared records that the procedure has used a row outside its footprint, and returns the error for this case.
func (e *execution) undeclared() error {
	e.stray = true
	return txn.ErrUndeclared
}

// Get implements txn.Ctx.
func (e *execution) Get(k txn.Key) (value []byte, err error) {
	if k.Marked() {
		return e.getMarked(k)
	}
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Read == 0 {
		return nil, e.undeclared()
	}
	sl := &e.slots[i]
	// A transaction on a single partition reads lazily, because serveReads does not run for it.
	if !sl.loaded {
		e.load(i)
	}
	if !sl.found {
		return nil, txn.ErrNotFound
	}
	return sl.value, nil
}

// getMarked reads a row of a group, or a row that every partition stores.
func (e *execution) getMarked(k txn.Key) (value []byte, err error) {
	r := txn.Point(k)
	if !e.t.Reads(&r) {
		return nil, e.undeclared()
	}
	// A transaction sees its own writes.
	if e.groups != nil {
		if w := e.groups.writes.Get(k); w != nil {
			if w.Deleted {
				return nil, txn.ErrNotFound
			}
			return w.Value, nil
		}
	}
	found := false
	// Every partition stores the rows of Everywhere keys.
	if k.Everywhere() || e.x.local(k) {
		value, found = e.x.c.Store.Value(k)
	} else {
		// The row is in a range that the row's partition has sent.
		e.scan(r, func(_ txn.Key, v []byte) bool {
			value, found = v, true
			return false
		})
	}
	if !found {
		return nil, txn.ErrNotFound
	}
	return value, nil
}

// GetAll implements txn.Ctx.
func (e *execution) GetAll(keys []txn.Key) ([][]byte, error) { return txn.GetEach(e, keys) }

// Scan implements txn.Ctx.
func (e *execution) Scan(r txn.Range, f func(k txn.Key, value []byte) bool) error {
	if r.Point() || !r.Valid() || !e.t.Reads(&r) {
		return e.undeclared()
	}
	return e.group().writes.Scan(r, func(r txn.Range, f func(txn.Key, []byte) bool) error {
		e.scan(r, f)
		return nil
	}, f)
}

// scan calls f for the stored rows of a range that the footprint covers. It ignores the transaction's own writes.
func (e *execution) scan(r txn.Range, f func(txn.Key, []byte) bool) {
	if e.x.local(r.From) {
		e.x.c.Store.Scan(r, func(k txn.Key, rec store.Record) bool { return f(k, rec.Value) })
		return
	}
	for i := range e.t.Ranges {
		if ranges := e.group().ranges; i < len(ranges) && e.t.Ranges[i].Covers(&r) {
			txn.ScanRows(ranges[i], (*txn.Row).KeyValue, r, f)
			return
		}
	}
}

// readRange returns the local rows of a range.
func (e *execution) readRange(r *txn.Range) (read rows) {
	e.x.c.Store.Scan(*r, func(k txn.Key, rec store.Record) bool {
		read = append(read, txn.Row{Key: k, Value: rec.Value})
		return true
	})
	return read
}

// Put implements txn.Ctx.
func (e *execution) Put(k txn.Key, value []byte) {
	if k.Ordered() {
		if e.writesGroup(k) {
			e.group().writes.Put(k, value)
		}
		return
	}
	if sl := e.writes(k); sl != nil {
		// Later reads of the transaction must return this value instead of the stored row.
		sl.value, sl.found, sl.loaded = value, true, true
		sl.written, sl.deleted = true, false
	}
}

// Delete implements txn.Ctx.
func (e *execution) Delete(k txn.Key) {
	if k.Ordered() {
		if e.writesGroup(k) {
			e.group().writes.Delete(k)
		}
		return
	}
	if sl := e.writes(k); sl != nil {
		sl.value, sl.found, sl.loaded = nil, false, true
		sl.written, sl.deleted = false, true
	}
}

// writes returns the slot of a row that the footprint declares as written. If the footprint does not, it returns nil
// and marks the execution as stray.
func (e *execution) writes(k txn.Key) *slot {
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Write == 0 {
		// Put and Delete return no error, so execute checks stray after the procedure.
		e.stray = true
		return nil
	}
	return &e.slots[i]
}

// writesGroup reports whether the footprint declares writes to the group of k. If the footprint does not, it marks the
// execution as stray.
func (e *execution) writesGroup(k txn.Key) bool {
	if !e.t.Writes(k) {
		e.stray = true
		return false
	}
	return true
}
