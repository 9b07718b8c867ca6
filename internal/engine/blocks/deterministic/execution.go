package deterministic

import (
	"slices"
	"unsafe"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
)

// execution is a transaction at one of its participants. It reads locally and sends its reads to the active
// participants, which are the ones that write. An active participant collects the reads of all participants and runs
// the procedure. All active participants run it with the same reads, so they reach the same decision.
//
// It is the procedure's view of the database. Writes wait in slots until the procedure has decided.
type execution struct {
	x     *Executor
	t     *txn.Transaction // nil until the whole transaction is here
	at    Place
	slots []slot // one per access
	hint  int    // the access used last

	parts     int // that have arrived
	needed    int // parts, once the whole transaction is here
	answering int // the active partition that answers for the others
	waitLocks int // local locks not granted
	waitReads int // participants that have not sent the reads it needs, or with KeepLocks their locks
	deferred  int // requests that wait for a row to come

	coordinator geo.NodeID // where the client waits
	vertex      int32      // its number in Executor.Reorder

	multi     bool // has participants other than this node
	active    bool // runs the procedure here
	listed    bool // is in Executor.running
	parted    bool // arrives in parts
	queued    bool // in Executor.ready
	holding   bool // has all its locks and its local reads
	reordered bool // a change of the queues has given it its turn
	stale     bool // was sent to a home that a row has left: no node runs it
	stray     bool // the procedure has used a row that its footprint does not name
	named     bool // Executor.Graph has named it
	sound     bool // can't be in a deadlock
	member    bool // of the component that Reorder works on

	groups   *groupWork // its accesses to rows of groups, in addition to slots; nil: none yet
	unlocked []txn.Key  // local keys that it has asked no lock for, since it is stale
	early    []reads    // arrived before the transaction's turn
	told     []int      // the partitions whose reads have arrived, with a Keeper
	next     *execution // in the free list
	requests *request   // the execution's own requests, linked as siblings
}

// groupWork is what an execution does to rows of groups.
type groupWork struct {
	writes txn.WriteSet
	ranges []rows // rows received from other participants, one element for each range of the footprint
}

// group returns the execution's work on rows of groups, and creates it if necessary.
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

// slot is the state of one access. For a group it holds only the location.
type slot struct {
	value     []byte
	partition int32
	local     bool
	loaded    bool
	found     bool
	written   bool
	deleted   bool
}

// reads holds the reads of another participant.
type reads struct {
	partition int
	values    []Value
	reordered bool
	stale     bool
}

// begin prepares the execution of t; t's client waits at coordinator.
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
	// The lowest active participant in the coordinator's region answers, if a copy spans regions and that region has one.
	nobody := 2 * x.partitions
	lowest, writer := nobody, nobody
	region := x.c.Layout.Topology.RegionOf(coordinator)
	for i := range e.slots {
		p := int(e.slots[i].partition)
		if x.c.Layout.ByHome && x.c.Layout.Topology.RegionOf(x.copy[p]) != region {
			p += x.partitions
		}
		lowest = min(lowest, p)
		if t.Accesses[i].Mode&txn.Write != 0 {
			writer = min(writer, p)
			e.active = e.active || e.slots[i].local
		}
	}
	e.answering = writer % x.partitions
	if writer == nobody {
		e.answering = lowest % x.partitions
		e.active = e.answering == x.partition
	}
	e.awaitReads()
}

// awaitReads counts the participants to hear of.
func (e *execution) awaitReads() {
	e.waitReads = 0
	mode := txn.Read
	if e.x.c.KeepLocks {
		mode = txn.ReadWrite
	} else if !e.active {
		return
	}
	for i := range e.slots {
		if !e.slots[i].local && e.first(i, mode) {
			e.waitReads++
		}
	}
}

// first reports whether access i is the first of its partition with one of these modes.
func (e *execution) first(i int, mode txn.Mode) bool {
	if e.t.Accesses[i].Mode&mode == 0 {
		return false
	}
	for j := range e.slots[:i] {
		if e.slots[j].partition == e.slots[i].partition && e.t.Accesses[j].Mode&mode != 0 {
			return false
		}
	}
	return true
}

// participants returns the number of partitions that the transaction touches.
func (e *execution) participants() (n int) {
	for i := range e.slots {
		if e.first(i, txn.ReadWrite) {
			n++
		}
	}
	return n
}

// homes returns the number of regions to which the transaction was sent for its local keys.
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

// complete reports whether the transaction and all its parts at this partition have arrived.
func (e *execution) complete() bool { return e.t != nil && e.parts == e.needed && e.deferred == 0 }

// take assigns reads that arrived early, and keeps those that are still early.
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

// assign takes the reads of another participant.
func (e *execution) assign(r reads) {
	e.waitReads--
	e.stale = e.stale || r.stale
	values := r.values
	for i := range e.slots {
		sl := &e.slots[i]
		if int(sl.partition) == r.partition && e.readsRow(i) && len(values) > 0 {
			sl.value, sl.found, sl.loaded = values[0].Bytes, values[0].Found, true
			values = values[1:]
		}
	}
	for i := range e.t.Ranges {
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

// readsRow reports whether access i reads a row, and not in a group.
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

// end ends a transaction that needs nothing any more.
func (e *execution) end() {
	if e.active {
		e.execute()
	}
	e.release()
}

// serveReads reads the local keys and sends their values to the other active participants, or to all.
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
	if e.x.c.KeepLocks {
		for i := range e.slots {
			if !e.slots[i].local && e.first(i, txn.ReadWrite) {
				e.x.sendReads(int(e.slots[i].partition), e, values)
			}
		}
		return
	}
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
	if !writes && !e.active {
		e.x.sendReads(e.answering, e, values)
	}
}

func (e *execution) load(i int) {
	sl := &e.slots[i]
	sl.value, sl.found = e.x.c.Store.Value(e.t.Accesses[i].Key)
	sl.loaded = true
}

// execute runs the procedure, applies the local part of its writes and answers the client if it waits in this copy.
func (e *execution) execute() {
	x := e.x
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
	if !e.multi { // else the local keys have been read
		x.c.Store.Warm(e.t.Accesses)
	}
	result, err := x.c.Procedures.Lookup(e.t.Proc).Run(e, e.t.Args)
	switch {
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
// message in memory. So apply copies such values, all into one buffer.
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

// applyGroups puts the local writes to rows of groups into the store.
func (e *execution) applyGroups() {
	for _, w := range e.groups.writes.Entries() {
		switch {
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

// borrowed returns the number of bytes that the local writes from access i on share with the arguments.
func (e *execution) borrowed(i int) (n int) {
	for _, sl := range e.slots[i:] {
		if sl.local && sl.written && within(sl.value, e.t.Args) {
			n += len(sl.value)
		}
	}
	return n
}

// within reports whether v is a part of b.
func within(v, b []byte) bool {
	if len(v) == 0 || len(b) == 0 {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(v)))
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return at >= from && at < from+uintptr(len(b))
}

// answer replies to the client if it waits at this node. Otherwise it sends the outcome to the client's node if that
// node runs nothing itself and this node is the lowest active participant of the same copy.
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

// answersElsewhere reports whether this node sends the outcome to another node, where the client waits.
func (e *execution) answersElsewhere() bool {
	partition := e.x.c.Layout.ShardOf(e.coordinator)
	return e.x.copy[partition] == e.coordinator && e.answering == e.x.partition && !e.activeAt(int32(partition))
}

// activeAt reports whether partition q is an active participant.
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

// release passes the locks to waiting transactions and finishes the execution.
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
	if e.named {
		x.over = append(x.over, e.at)
	}
	clear(e.slots)
	clear(e.early)
	e.groups.reset()
	*e = execution{slots: e.slots, early: e.early[:0], told: e.told[:0], groups: e.groups, next: x.free}
	x.free = e
}

// finish counts the end of a transaction.
func (e *execution) finish() {
	if e.coordinator != e.x.c.Self {
		e.x.Finished++
	}
	if k := e.x.c.Keeper; k != nil {
		k.Ended(e.at)
	}
}

// find returns the access of k. Procedures mostly use keys in the declared order, and a key's write follows its read.
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

// undeclared notes that the procedure uses a row that its footprint does not name.
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
	if !sl.loaded {
		e.load(i)
	}
	if !sl.found {
		return nil, txn.ErrNotFound
	}
	return sl.value, nil
}

// getMarked returns a row of a group, or a row that every partition stores.
func (e *execution) getMarked(k txn.Key) (value []byte, err error) {
	r := txn.Point(k)
	if !e.t.Reads(&r) {
		return nil, e.undeclared()
	}
	if e.groups != nil {
		if w := e.groups.writes.Get(k); w != nil {
			if w.Deleted {
				return nil, txn.ErrNotFound
			}
			return w.Value, nil
		}
	}
	found := false
	if k.Everywhere() || e.x.local(k) {
		value, found = e.x.c.Store.Value(k)
	} else {
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

// scan calls f for the database's rows of a range that the footprint covers.
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

// writes returns the slot of a row that the footprint names as written, else nil.
func (e *execution) writes(k txn.Key) *slot {
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Write == 0 {
		e.stray = true
		return nil
	}
	return &e.slots[i]
}

// writesGroup reports whether the footprint names a write of the group of the row k.
func (e *execution) writesGroup(k txn.Key) bool {
	if !e.t.Writes(k) {
		e.stray = true
		return false
	}
	return true
}
