package janus

import (
	"errors"
	"unsafe"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
)

// reasonProcedure is the reason of a transaction whose procedure failed other than by its own decision.
const reasonProcedure = "procedure-error"

// executor runs the transactions whose turn has come, one after the other. One that spans partitions reads locally, sends
// what it read to the active participants of its copy, those that write, and collects their reads if it is one itself, as
// in Calvin (Thomson 2012, section 3.4). All run the procedure with the same reads, so they decide alike. Those that
// depend on it here wait; the others pass. Nobody can wait in a circle, since all partitions follow one order.
type executor struct {
	r      *Replica
	inline execution // for transactions without remote parts
	free   *execution

	// outReads and outAnswers gather what the current step has for other nodes of the copy, by partition or node.
	outReads   []*Reads
	outAnswers map[geo.NodeID]*Answers
	readsTo    []int
	answersTo  []geo.NodeID
}

// execution is a transaction that is being executed, and its procedure's view of the database. Writes wait in slots until
// the procedure has decided.
type execution struct {
	r     *Replica
	rec   *record
	t     *txn.Transaction
	slots []slot // one per access
	hint  int    // the access used last

	multi     bool // has participants other than this node
	active    bool // runs the procedure here
	answering int  // the lowest active partition
	waitReads int  // reading participants not heard of
	stray     bool // the procedure has used a key against its declaration
	next      *execution
}

// slot is the state of one access.
type slot struct {
	value     []byte
	partition int32
	local     bool
	loaded    bool
	found     bool
	written   bool
	deleted   bool
}

type earlyReads struct {
	partition int
	values    []Value
}

func (x *executor) init(r *Replica) {
	x.r = r
	x.outReads = make([]*Reads, r.partitions)
	x.outAnswers = map[geo.NodeID]*Answers{}
}

// start begins an instance whose predecessors have been executed.
func (x *executor) start(rec *record) {
	r := x.r
	if rec.noop {
		r.graph.executed(rec)
		return
	}
	e := &x.inline
	e.begin(r, rec)
	if !e.multi {
		e.execute()
		r.graph.executed(rec)
		return
	}
	r.counters.multiPartition++
	e = x.alloc()
	slots := e.slots
	*e = x.inline
	e.slots = append(slots[:0], x.inline.slots...)
	for _, m := range rec.early {
		e.assign(m.partition, m.values)
	}
	rec.early = nil
	e.serveReads()
	if e.active && e.waitReads > 0 {
		rec.exec = e
		return
	}
	x.end(e)
}

// end executes what has all its reads, and forgets it.
func (x *executor) end(e *execution) {
	rec := e.rec
	if e.active {
		e.execute()
	}
	rec.exec = nil
	clear(e.slots)
	e.rec, e.t = nil, nil
	e.next, x.free = x.free, e
	x.r.graph.executed(rec)
}

func (x *executor) alloc() *execution {
	e := x.free
	if e == nil {
		return &execution{}
	}
	x.free, e.next = e.next, nil
	return e
}

// begin prepares the execution of rec.
func (e *execution) begin(r *Replica, rec *record) {
	t := rec.t
	e.r, e.rec, e.t = r, rec, t
	e.hint, e.waitReads, e.stray = 0, 0, false
	e.multi, e.active, e.answering = false, true, r.partition
	n := len(t.Accesses)
	if cap(e.slots) < n {
		e.slots = make([]slot, n, max(16, n))
	}
	e.slots = e.slots[:n]
	if r.partitions == 1 {
		for i := range e.slots {
			e.slots[i] = slot{local: true}
		}
		return
	}
	own := int32(r.partition)
	for i := range t.Accesses {
		p := int32(r.placement.Partition(t.Accesses[i].Key))
		e.slots[i] = slot{partition: p, local: p == own}
		e.multi = e.multi || p != own
	}
	if !e.multi {
		return
	}
	e.active = false
	lowest, writer := r.partitions, r.partitions
	for i := range e.slots {
		p := int(e.slots[i].partition)
		lowest = min(lowest, p)
		if t.Accesses[i].Mode&txn.Write != 0 {
			writer = min(writer, p)
			e.active = e.active || e.slots[i].local
		}
	}
	e.answering = writer
	if writer == r.partitions { // nobody writes
		e.answering = lowest
		e.active = lowest == r.partition
	}
	if !e.active {
		return
	}
	for i := range e.slots {
		if !e.slots[i].local && e.first(i, txn.Read) {
			e.waitReads++
		}
	}
}

// first reports whether access i is the first of its partition with this mode.
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

// assign takes the reads of another participant.
func (e *execution) assign(partition int, values []Value) {
	e.waitReads--
	for i := range e.slots {
		sl := &e.slots[i]
		if int(sl.partition) == partition && e.t.Accesses[i].Mode&txn.Read != 0 && len(values) > 0 {
			sl.value, sl.found, sl.loaded = values[0].Bytes, values[0].Found, true
			values = values[1:]
		}
	}
}

// serveReads reads the local keys and sends their values to the other active participants.
func (e *execution) serveReads() {
	var room [16]Value
	values := room[:0]
	for i := range e.slots {
		if sl := &e.slots[i]; sl.local && e.t.Accesses[i].Mode&txn.Read != 0 {
			e.load(i)
			values = append(values, Value{sl.value, sl.found})
		}
	}
	if len(values) == 0 {
		return
	}
	x := &e.r.executor
	writes := false
	for i := range e.slots {
		if e.t.Accesses[i].Mode&txn.Write == 0 {
			continue
		}
		writes = true
		if !e.slots[i].local && e.first(i, txn.Write) {
			x.sendReads(int(e.slots[i].partition), e.rec.id, values)
		}
	}
	if !writes && !e.active {
		x.sendReads(e.answering, e.rec.id, values)
	}
}

func (e *execution) load(i int) {
	rec, found := e.r.store.Get(e.t.Accesses[i].Key)
	sl := &e.slots[i]
	sl.value, sl.found, sl.loaded = rec.Value, found, true
}

// execute runs the procedure, applies the local part of its writes and answers the client if it waits in this copy.
func (e *execution) execute() {
	r := e.r
	r.counters.executed++
	o := txn.Outcome{ID: e.t.ID, Status: txn.Committed}
	result, err := r.procs.Lookup(e.t.Proc).Run(e, e.t.Args)
	if err != nil || e.stray {
		r.counters.aborts++
		o.Status, o.Reason = txn.Aborted, reasonProcedure
		var abort txn.Abort
		if !e.stray && errors.As(err, &abort) {
			o.Reason = string(abort)
		}
	} else {
		o.Result = result
		e.apply()
	}
	e.answer(o)
}

// apply puts the local writes into the store. A value that is a part of the arguments would keep the whole message in
// memory that brought them, so those are copied, all into one piece.
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
			e.r.store.Put(e.t.Accesses[i].Key, v, e.t.ID)
		} else if sl.deleted {
			e.r.store.Delete(e.t.Accesses[i].Key)
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

// answer replies to the client when it waits at this node, or sends the outcome there when its node runs nothing
// itself and this one is the lowest active participant of the same copy.
func (e *execution) answer(o txn.Outcome) {
	r := e.r
	node := e.rec.id.Node()
	if node == r.self {
		r.coordinator.answer(o)
		return
	}
	partition := r.topology.PartitionOf(node)
	if r.copy[partition] != node || e.answering != r.partition || e.activeAt(int32(partition)) {
		return
	}
	r.executor.sendAnswer(node, o)
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

// Get implements txn.Ctx.
func (e *execution) Get(k txn.Key) (value []byte, found bool) {
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Read == 0 {
		e.stray = true
		return nil, false
	}
	sl := &e.slots[i]
	if !sl.loaded {
		if !sl.local {
			return nil, false
		}
		e.load(i)
	}
	return sl.value, sl.found
}

// Put implements txn.Ctx.
func (e *execution) Put(k txn.Key, value []byte) {
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Write == 0 {
		e.stray = true
		return
	}
	sl := &e.slots[i]
	sl.value, sl.found, sl.loaded = value, true, true
	sl.written, sl.deleted = true, false
}

// Delete implements txn.Ctx.
func (e *execution) Delete(k txn.Key) {
	i, ok := e.find(k)
	if !ok || e.t.Accesses[i].Mode&txn.Write == 0 {
		e.stray = true
		return
	}
	sl := &e.slots[i]
	sl.value, sl.found, sl.loaded = nil, false, true
	sl.written, sl.deleted = false, true
}

// reads takes what another participant of this copy has read.
func (x *executor) reads(from geo.NodeID, m *Reads) {
	partition := x.r.topology.PartitionOf(from)
	at := 0
	for _, q := range m.Reads {
		values := m.Values[at : at+q.Values]
		at += q.Values
		if int(q.ID.Node()) >= x.r.nodes {
			continue
		}
		rec := x.r.know(q.ID)
		if rec.exec == nil {
			rec.early = append(rec.early, earlyReads{partition, values})
			continue
		}
		rec.exec.assign(partition, values)
		if rec.exec.waitReads == 0 {
			x.end(rec.exec)
		}
	}
}

// sendReads adds the values to the message for partition q of this copy.
func (x *executor) sendReads(q int, id Instance, values []Value) {
	m := x.outReads[q]
	if m == nil {
		m = &Reads{}
		x.outReads[q] = m
		x.readsTo = append(x.readsTo, q)
	}
	m.Reads = append(m.Reads, Read{id, len(values)})
	m.Values = append(m.Values, values...)
	x.r.counters.remoteReads++
}

// sendAnswer adds the outcome to the message for the coordinator.
func (x *executor) sendAnswer(to geo.NodeID, o txn.Outcome) {
	m := x.outAnswers[to]
	if m == nil {
		m = &Answers{}
		x.outAnswers[to] = m
		x.answersTo = append(x.answersTo, to)
	}
	m.Outcomes = append(m.Outcomes, o)
}

// flush sends what the step has gathered, one message per node.
func (x *executor) flush() {
	for _, q := range x.readsTo {
		x.r.env.Send(x.r.copy[q], x.outReads[q])
		x.outReads[q] = nil
	}
	x.readsTo = x.readsTo[:0]
	for _, n := range x.answersTo {
		x.r.env.Send(n, x.outAnswers[n])
		delete(x.outAnswers, n)
	}
	x.answersTo = x.answersTo[:0]
}
