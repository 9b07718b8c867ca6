package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// logs are the logs of all replicas, as far as this replica has received them (section 3.3, algorithm 2). This replica
// appends to its own log.
type logs struct {
	r       *Replica
	timeout time.Duration // the parameter batchTimeout
	full    int           // the parameter batchSize

	batch  *Batch // the batch being filled, or nil
	size   int    // bytes of the records in batch
	number uint64 // number of the next batch to send
	sent   time.Duration
	timed  uint64 // number of the batch that the timer was last set for

	all []batchLog // by replica
	// acknowledgements holds, by replica, the number up to which the replica has acknowledged the batches of this replica.
	acknowledgements []uint64
	// kept is the size in bytes of the committed batches that other replicas may still request.
	kept     int
	passedOn int64
	// keepBytes bounds kept, and keepCuts bounds the number of cuts that are kept.
	keepBytes, keepCuts int
	arrivals            map[*Batch]int32 // arrival order of batches; used only by a faulty variant
}

// batchLog is the log of one replica. The embedded segment is the part that the latest known incarnation has appended.
type batchLog struct {
	segment
	// earlier are the remaining segments of earlier incarnations, oldest first.
	earlier []segment
	// proven is the number of the last batch with a proof of availability. cut is the number of the last batch in an
	// agreed cut.
	proven, cut uint64
}

// segment is the part of a log that a single incarnation has appended.
type segment struct {
	// batches are the batches with consecutive numbers, starting at first. Missing batches are nil.
	batches []*Batch
	first   uint64
	// received is the number up to which this replica has all batches of the segment. If the first batch of the
	// incarnation is missing, it is the number before that batch.
	received uint64
	// ended is set once an epoch contains batches of a later incarnation. last is then the last batch of this segment that
	// is in an epoch. No later batch of the segment will ever be in an epoch.
	ended bool
	last  uint64
}

// keepBytes bounds the committed batches that a replica keeps for replicas that have not committed them yet. A lost
// replica commits nothing, so the bound takes effect while a replica is lost. Within the bound, a replica that lacks
// the last batches of the lost replica can still request them.
const keepBytes = 64 << 20

func (l *logs) init(r *Replica, p protocol.Params) {
	l.r, l.timeout, l.full = r, p.Duration("batchTimeout"), int(p.Int("batchSize"))
	// The first batch is sent without delay, as if the last batch had been sent one timeout ago.
	l.number, l.sent = protocol.NumbersBefore(r.incarnation)+1, -l.timeout
	l.all = make([]batchLog, r.nodes)
	for i := range l.all {
		l.all[i].first = 1
	}
	l.all[r.self].succeed(r.incarnation)
	l.acknowledgements = make([]uint64, r.nodes)
	l.arrivals = map[*Batch]int32{}
	l.keepBytes, l.keepCuts = protocol.Shrunk(r.shrink, keepBytes), protocol.Shrunk(r.shrink, keepCuts)
}

// append adds a record to the current batch. It sends the batch if the batch is full, or if batchTimeout has passed
// after the last batch was sent.
func (l *logs) append(rec *Record, place uint64) {
	if l.batch == nil {
		// Later transactions of the batch may execute after later epochs. Epoch is a lower bound for all of them, and
		// epochs.forget depends on that.
		l.batch = &Batch{Origin: l.r.self, Number: l.number, First: place, Epoch: l.r.epochs.committed}
		l.size = 0
		if l.r.wrong == cutWithoutProof {
			l.available(l.number)
		}
	}
	l.batch.Records = append(l.batch.Records, *rec)
	l.size += rec.size()
	wait := l.sent + l.timeout - l.r.env.Now()
	switch {
	case l.size >= l.full || wait <= 0 || l.r.env.Buggify(sendsEarly):
		l.r.env.Mark(batchFull)
		l.send()
	// Timers cannot be cancelled, so each batch sets only one timer. Arg identifies the batch.
	case l.timed != l.number:
		l.timed = l.number
		l.r.env.After(wait, protocol.Timer{Kind: batchTimer, Arg: l.number})
	}
}

// expire sends batch number when its timer fires, unless the batch was sent already.
func (l *logs) expire(number uint64) {
	if l.batch != nil && l.batch.Number == number {
		l.send()
	}
}

// send broadcasts the current batch.
func (l *logs) send() {
	m := l.batch.seal()
	l.batch = nil
	l.number++
	l.sent = l.r.env.Now()
	l.r.contention.sent()
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, m) })
	l.put(m)
	// This replica itself counts towards f + 1.
	l.acknowledged(l.r.self, m.Number)
}

// put stores a batch in the log of its origin, unless the batch is committed or void.
func (l *logs) put(m *Batch) {
	all := &l.all[m.Origin]
	all.succeed(protocol.IncarnationOf(m.Number))
	g := all.of(m.Number)
	if g == nil || g.ended || m.Number < g.first {
		l.r.env.Mark(batchLate)
		return // the batch was committed, or never will be
	}
	at := int(m.Number - g.first)
	for len(g.batches) <= at {
		g.batches = append(g.batches, nil)
	}
	// A batch can arrive twice: from its origin, and from another replica that passes it on.
	if g.batches[at] == nil {
		g.batches[at] = m
		if l.r.wrong == arrivalOrder {
			l.arrivals[m] = int32(len(l.arrivals))
		}
	}
	// Discarded batches count as received, so received may have to pass them first.
	for g.received < g.first-1+uint64(len(g.batches)) && (g.received+1 < g.first || g.batches[g.received+1-g.first] != nil) {
		g.received++
	}
}

// get returns a batch, or nil.
func (g *batchLog) get(number uint64) *Batch {
	s := g.of(number)
	if s == nil || number < s.first || number-s.first >= uint64(len(s.batches)) {
		return nil
	}
	return s.batches[number-s.first]
}

// receive handles a batch, sent by its origin or passed on by another replica. A replica that is behind ignores the
// batch: it will never commit it, and would keep it without a limit on bytes.
func (l *logs) receive(from geo.NodeID, m *Batch) {
	// This replica must not acknowledge a batch before it has joined. rejoin.install discards all logs, and requests the
	// batches again with Follow.
	if int(m.Origin) >= l.r.nodes || m.Number == protocol.NumbersBefore(protocol.IncarnationOf(m.Number)) || l.r.epochs.behind || !l.r.rejoin.joined {
		return
	}
	// A replica has all batches of its own incarnation. Only its predecessor's batches can be missing.
	if m.Origin == l.r.self && protocol.IncarnationOf(m.Number) >= l.r.incarnation {
		return
	}
	l.put(m)
	// Acknowledge only a contiguous prefix, so that a proof covers all earlier batches (section 3.3).
	if from == m.Origin {
		l.r.env.Send(from, &Acknowledgement{l.all[from].received})
	}
	l.r.epochs.advance()
}

// acknowledged records that a replica has this replica's batches up to number. The batches are available once f + 1
// replicas have them, including this replica.
func (l *logs) acknowledged(from geo.NodeID, number uint64) {
	own := &l.all[l.r.self]
	if number >= l.number {
		return // no such batch was sent, so the acknowledgement is invalid
	}
	l.acknowledgements[from] = max(l.acknowledgements[from], number)
	// A proof covers all earlier batches, so these batches have a proof already.
	if number <= own.proven {
		return
	}
	have := 0
	for _, a := range l.acknowledgements {
		if a >= number {
			have++
		}
	}
	// With f + 1 copies, at least one survives the loss of f replicas.
	if have > l.r.faults {
		l.available(number)
	}
}

// available broadcasts a proof that f + 1 replicas have this replica's batches up to number.
func (l *logs) available(number uint64) {
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, &Proof{number}) })
	l.prove(l.r.self, number)
}

// prove records a proof: the batches of origin up to number are available.
func (l *logs) prove(origin geo.NodeID, number uint64) {
	g := &l.all[origin]
	if number <= g.proven {
		return
	}
	g.succeed(protocol.IncarnationOf(number))
	g.proven = number
	// A progress report will repeat the proof, unless a cut contains these batches by then.
	l.r.progress.expect()
	l.r.coordinator.propose()
}

// uncut reports whether a batch with a proof is in no cut yet.
func (l *logs) uncut() bool {
	for i := range l.all {
		if l.all[i].proven > l.all[i].cut {
			return true
		}
	}
	return false
}

// requested sends a replica the batches that it has requested. If this replica will never have the first of them, it
// reports that instead.
func (l *logs) requested(from geo.NodeID, m *Request) {
	if int(m.Origin) >= l.r.nodes {
		return
	}
	// A check of the first batch suffices, because the requester can commit nothing without it.
	if l.r.epochs.never(m.Origin, m.From) {
		l.r.env.Send(from, &Forgotten{m.Origin, m.From})
		return
	}
	g := l.all[m.Origin].of(m.To)
	if g == nil {
		return
	}
	for n := max(m.From, g.first); n <= min(m.To, g.received); n++ {
		if b := g.batches[n-g.first]; b != nil {
			l.passedOn++
			l.r.env.Mark(batchPassedOn)
			l.r.env.Send(from, b)
		}
	}
}

// drop discards the batches of a log up to number.
func (l *logs) drop(origin geo.NodeID, number uint64) {
	g := &l.all[origin]
	// A cut that contains batches of a later incarnation has ended the earlier segments, so all their batches can be
	// dropped.
	for len(g.earlier) > 0 && protocol.IncarnationOf(g.earlier[0].received) < protocol.IncarnationOf(number) {
		l.dropFrom(&g.earlier[0], number)
		g.earlier = g.earlier[1:]
	}
	if s := g.of(number); s != nil {
		l.dropFrom(s, number)
	}
}

func (l *logs) dropFrom(g *segment, number uint64) {
	for g.first <= number && len(g.batches) > 0 {
		if b := g.batches[0]; b != nil { // a replica that is behind may lack batches
			l.kept -= b.size
		}
		g.batches[0] = nil
		g.batches = g.batches[1:]
		g.first++
	}
}
