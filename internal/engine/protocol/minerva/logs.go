package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// logs are the logs of all replicas, as far as this replica has received them (section 3.3, algorithm 2). The replica
// appends to its own log.
type logs struct {
	r       *Replica
	timeout time.Duration // the parameter batchTimeout
	full    int           // the parameter batchSize

	batch  *Batch // being filled, or nil
	size   int    // bytes of the records in batch
	number uint64 // of the next batch
	sent   time.Duration
	timed  uint64 // number of the batch that the timer was last set for

	all []batchLog // by replica
	// acknowledgements are, by replica, the last batch of this replica that it has received, with all batches before.
	acknowledgements []uint64
	// kept is the size in bytes of the committed batches that other replicas may still request.
	kept     int
	passedOn int64
	// keepBytes bounds kept, and keepCuts bounds the number of cuts.
	keepBytes, keepCuts int
	arrivals            map[*Batch]int32 // arrival order of batches; used only by a faulty variant
}

// batchLog is the log of one replica. The embedded segment is the part appended by the latest known incarnation.
type batchLog struct {
	segment
	// earlier are the segments of earlier incarnations that are not discarded, oldest first.
	earlier []segment
	// proven is the last batch with a proof of availability, cut the last batch in an agreed cut.
	proven, cut uint64
}

// segment is the part of a log that a single incarnation has appended.
type segment struct {
	// batches are the batches from number first on, with nil for missing batches.
	batches []*Batch
	first   uint64
	// received is the last batch of the contiguous prefix that this replica has. If the first batch of the incarnation is
	// missing, it is the number before that batch.
	received uint64
	// ended is set once an epoch has started the segment of a later incarnation. last is then the last batch of this
	// segment that is in an epoch; later batches never will be.
	ended bool
	last  uint64
}

// keepBytes bounds the committed batches that a replica keeps for replicas that have not committed them yet. The bound
// takes effect while a replica is lost, because a lost replica commits nothing. A replica that never received the last
// batches of the lost replica must request them before they are discarded.
const keepBytes = 64 << 20

func (l *logs) init(r *Replica, p protocol.Params) {
	l.r, l.timeout, l.full = r, p.Duration("batchTimeout"), int(p.Int("batchSize"))
	// The first batch does not wait: a full timeout counts as passed before it.
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

// append adds a record to the current batch. It sends the batch if it is full, or if batchTimeout has passed since the
// last batch was sent.
func (l *logs) append(rec *Record, place uint64) {
	if l.batch == nil {
		// Later transactions of the batch may execute after later epochs. Epoch is a lower bound for all of them, which
		// forget depends on.
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
	// Timers cannot be cancelled, so set only one timer for each batch. Its Arg identifies the batch.
	case l.timed != l.number:
		l.timed = l.number
		l.r.env.After(wait, protocol.Timer{Kind: batchTimer, Arg: l.number})
	}
}

// expire sends batch number when its timer fires, unless it was sent already.
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
	// The replica itself counts towards f + 1.
	l.acknowledged(l.r.self, m.Number)
}

// put stores a batch in its log, unless the batch was committed or is void.
func (l *logs) put(m *Batch) {
	all := &l.all[m.Origin]
	all.succeed(protocol.IncarnationOf(m.Number))
	g := all.of(m.Number)
	if g == nil || g.ended || m.Number < g.first {
		l.r.env.Mark(batchLate)
		return // it was committed, or will never be
	}
	at := int(m.Number - g.first)
	for len(g.batches) <= at {
		g.batches = append(g.batches, nil)
	}
	// A batch can arrive twice: from its origin, and from a replica that passes it on.
	if g.batches[at] == nil {
		g.batches[at] = m
		if l.r.wrong == arrivalOrder {
			l.arrivals[m] = int32(len(l.arrivals))
		}
	}
	// Dropped batches count as received: the prefix may have to skip over them first.
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

// receive handles a batch, sent by its origin or passed on by another replica. A replica that is behind neither stores
// nor acknowledges it, because it would keep the batch permanently.
func (l *logs) receive(from geo.NodeID, m *Batch) {
	// A batch must not be acknowledged before this replica has joined: `begin` discards all logs, and Follow then requests
	// the batches again.
	if int(m.Origin) >= l.r.nodes || m.Number == protocol.NumbersBefore(protocol.IncarnationOf(m.Number)) || l.r.epochs.behind || !l.r.rejoin.joined {
		return
	}
	// The replica has every batch of its own incarnation; only its predecessor's batches can be missing.
	if m.Origin == l.r.self && protocol.IncarnationOf(m.Number) >= l.r.incarnation {
		return
	}
	l.put(m)
	// Only a contiguous prefix is acknowledged, so that a proof covers all earlier batches (section 3.3).
	if from == m.Origin {
		l.r.env.Send(from, &Acknowledgement{l.all[from].received})
	}
	l.r.epochs.advance()
}

// acknowledged records that a replica has this replica's batches up to number. Once f + 1 replicas, including this one,
// have them, they are available.
func (l *logs) acknowledged(from geo.NodeID, number uint64) {
	own := &l.all[l.r.self]
	if number >= l.number {
		return // no such batch was sent; the acknowledgement is invalid
	}
	l.acknowledgements[from] = max(l.acknowledgements[from], number)
	// A proof covers all earlier batches; these have one already.
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
	// A progress report will repeat the proof if no cut contains it by then.
	l.r.progress.expect()
	l.r.coordinator.propose()
}

// uncut reports whether any batch with a proof is not in a cut yet.
func (l *logs) uncut() bool {
	for i := range l.all {
		if l.all[i].proven > l.all[i].cut {
			return true
		}
	}
	return false
}

// requested sends a replica the batches that it lacks, or reports that this replica will never have the first of them.
func (l *logs) requested(from geo.NodeID, m *Request) {
	if int(m.Origin) >= l.r.nodes {
		return
	}
	// It is enough to check the first batch: the requester can commit nothing without it.
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
	// A cut that reaches a later incarnation has ended the earlier segments, so they are dropped completely.
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
		if b := g.batches[0]; b != nil { // a replica that is behind may lack some
			l.kept -= b.size
		}
		g.batches[0] = nil
		g.batches = g.batches[1:]
		g.first++
	}
}
