package calvin

import (
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/txn"
)

// scheduler takes the batches in the order of the log and runs their transactions (Thomson 2012, section 3.4).
type scheduler struct {
	r *Replica

	// inbox[s] holds the sub-batches of sequencer s that have not run, ascending: links keep their order.
	inbox []fifo[*SubBatch]
	// log holds the known entries from position on, the next to run.
	log      fifo[Ordered]
	position uint64
	// asked is the term in which missing positions were last asked for.
	asked uint64

	locks lockTable
	// running are the multi-partition transactions that wait for locks or reads, and those that reads have arrived
	// for before their own turn in the log.
	running map[place]*execution
	// ready have all their locks, in the order in which they got them.
	ready  fifo[*execution]
	inline execution // for transactions that run at once
	free   *execution

	// outReads and outAnswers gather what the current step has for other nodes of the copy, by partition or node.
	outReads   []*Reads
	outAnswers map[geo.NodeID]*Answers
	readsTo    []int
	answersTo  []geo.NodeID

	foreign                                                           int // other sequencers' transactions that have not finished
	executed, multiPartition, aborts, lockWaits, remoteReads, fetches int64
}

// place names a transaction by the position of its batch in the log and its index there.
type place struct {
	position uint64
	index    uint32
}

func (s *scheduler) init(r *Replica) {
	s.r = r
	s.inbox = make([]fifo[*SubBatch], r.nodes)
	s.locks = newLockTable()
	s.running = map[place]*execution{}
	s.outReads = make([]*Reads, r.partitions)
	s.outAnswers = map[geo.NodeID]*Answers{}
}

// arrive takes a sub-batch of a sequencer.
func (s *scheduler) arrive(from geo.NodeID, m *SubBatch) {
	if from != s.r.self {
		s.foreign += len(m.Txns)
	}
	s.inbox[from].push(m)
}

// ordered takes entries of the log from position first on, told by a leader.
func (s *scheduler) ordered(from geo.NodeID, term, first uint64, entries []Ordered) {
	known := s.position + uint64(s.log.len())
	if first > known {
		// The last leader died with some positions still under way. Everything from here on comes again.
		if s.asked < term {
			s.asked = term
			s.fetches++
			if from == s.r.self {
				s.r.order.fetch(from, known)
			} else {
				s.r.env.Send(from, &Fetch{known})
			}
		}
		return
	}
	if first+uint64(len(entries)) <= known {
		return
	}
	for _, o := range entries[known-first:] {
		if int(o.Batch.Sequencer) >= s.r.nodes {
			return // no such node: a corrupt message
		}
		s.log.push(o)
		if o.Batch.Sequencer == s.r.self {
			s.r.sequencer.placed(o.Batch.Number)
		}
	}
	s.advance()
}

// advance runs the batches whose turn has come and whose data has arrived.
func (s *scheduler) advance() {
	for s.log.len() > 0 {
		o := s.log.front()
		if o.Partitions.Has(s.r.partition) {
			inbox := &s.inbox[o.Batch.Sequencer]
			m := inbox.front()
			if m == nil || m.Batch != o.Batch.Number {
				return
			}
			inbox.pop()
			s.schedule(o.Batch.Sequencer, m)
		}
		s.log.pop()
		s.position++
	}
}

// schedule runs the transactions of the batch at the current position, or queues them for their locks.
func (s *scheduler) schedule(sequencer geo.NodeID, m *SubBatch) {
	for i, t := range m.Txns {
		e := &s.inline
		e.begin(s, t, sequencer)
		if !e.multi && !s.conflicts(e) {
			e.execute()
			e.finish()
			continue
		}
		at := place{s.position, m.Indexes[i]}
		e = s.enlist(at, e)
		for i, a := range t.Accesses {
			if e.slots[i].local && !s.locks.acquire(e, a.Key, a.Mode&txn.Write != 0) {
				e.waitLocks++
			}
		}
		if e.waitLocks > 0 {
			s.lockWaits++
			continue
		}
		e.locked()
		s.drain()
	}
}

// conflicts reports whether anybody holds or wants one of the locks of e, a transaction without remote parts.
func (s *scheduler) conflicts(e *execution) bool {
	if s.locks.empty() {
		return false
	}
	for i := range e.t.Accesses {
		if s.locks.locked(e.t.Accesses[i].Key) {
			return true
		}
	}
	return false
}

// enlist turns the execution that begin has prepared into one that can wait. Reads may have arrived for it before.
func (s *scheduler) enlist(at place, prepared *execution) *execution {
	var e *execution
	if prepared.multi {
		e = s.running[at]
	}
	if e == nil {
		e = s.alloc()
	}
	if prepared.multi {
		s.running[at] = e
	}
	early := e.early
	slots := e.slots
	*e = *prepared
	e.at, e.early = at, nil
	e.slots = append(slots[:0], prepared.slots...)
	prepared.t = nil
	for _, m := range early {
		e.assign(m.partition, m.values)
	}
	e.early = early[:0]
	return e
}

func (s *scheduler) alloc() *execution {
	e := s.free
	if e == nil {
		return &execution{}
	}
	s.free, e.next = e.next, nil
	return e
}

// drain runs the executions that have become ready.
func (s *scheduler) drain() {
	for s.ready.len() > 0 {
		e := s.ready.front()
		s.ready.pop()
		e.locked()
	}
}

// granted counts a lock that an execution has been waiting for.
func (s *scheduler) granted(e *execution) {
	e.waitLocks--
	if e.waitLocks == 0 {
		s.ready.push(e)
	}
}

// reads takes what another participant of this copy has read.
func (s *scheduler) reads(from geo.NodeID, m *Reads) {
	partition := s.r.topology.PartitionOf(from)
	at := 0
	for _, q := range m.Reads {
		values := m.Values[at : at+q.Values]
		at += q.Values
		p := place{q.Position, q.Index}
		e := s.running[p]
		if e == nil {
			e = s.alloc()
			e.t = nil
			s.running[p] = e
		}
		if e.t == nil {
			e.early = append(e.early, earlyReads{partition, values})
			continue
		}
		e.assign(partition, values)
		if e.holding && e.waitReads == 0 {
			e.execute()
			e.release()
		}
	}
	s.drain()
}

// sendReads adds the values to the message for partition q of this copy.
func (s *scheduler) sendReads(q int, at place, values []Value) {
	m := s.outReads[q]
	if m == nil {
		m = &Reads{}
		s.outReads[q] = m
		s.readsTo = append(s.readsTo, q)
	}
	m.Reads = append(m.Reads, Read{at.position, at.index, len(values)})
	m.Values = append(m.Values, values...)
	s.remoteReads++
}

// sendAnswer adds the outcome to the message for the coordinator.
func (s *scheduler) sendAnswer(to geo.NodeID, o txn.Outcome) {
	m := s.outAnswers[to]
	if m == nil {
		m = &Answers{}
		s.outAnswers[to] = m
		s.answersTo = append(s.answersTo, to)
	}
	m.Outcomes = append(m.Outcomes, o)
}

// flush sends what the step has gathered, one message per node.
func (s *scheduler) flush() {
	for _, q := range s.readsTo {
		s.r.env.Send(s.r.copy[q], s.outReads[q])
		s.outReads[q] = nil
	}
	s.readsTo = s.readsTo[:0]
	for _, n := range s.answersTo {
		s.r.env.Send(n, s.outAnswers[n])
		delete(s.outAnswers, n)
	}
	s.answersTo = s.answersTo[:0]
}

// fifo is a queue that reuses its memory.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

// front returns the oldest element, or a zero value.
func (q *fifo[T]) front() (v T) {
	if q.head < len(q.items) {
		v = q.items[q.head]
	}
	return v
}

func (q *fifo[T]) pop() {
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}
