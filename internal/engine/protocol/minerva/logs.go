package minerva

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// logs are the logs of all replicas, as far as this replica knows them (section 3.3, algorithm 2). It appends to its
// own log.
type logs struct {
	r       *Replica
	timeout time.Duration // the parameter batchTimeout
	full    int           // the parameter batchSize

	batch  *Batch // being collected, nil for none
	size   int    // of its records
	number uint64 // of the next batch
	sent   time.Duration
	timed  uint64 // the batch that a timer is set for

	all []batchLog // by replica
	// acknowledgements are, by replica, the last of this replica's batches that it has.
	acknowledgements []uint64
	// kept are the bytes of committed batches that others may ask for.
	kept     int
	passedOn int64
	// keepBytes bounds kept, and keepCuts the cuts that go with them.
	keepBytes, keepCuts int
	arrivals            map[*Batch]int32 // the order in which batches have arrived, for a mistake
}

// batchLog is one replica's log: the part that the replica's latest known incarnation has appended.
type batchLog struct {
	segment
	// earlier are the remaining parts of earlier incarnations, in their order.
	earlier []segment
	// proven is the last batch with a proof of availability, cut the last batch in an epoch.
	proven, cut uint64
}

// segment is the part of a log that a single incarnation has appended.
type segment struct {
	// batches are the batches from number first on; nil where a batch is missing.
	batches []*Batch
	first   uint64
	// received is the last batch that is here together with all batches before it. If the incarnation's first batch is
	// missing, it is the number before that batch.
	received uint64
	// ended reports that an epoch has started the next incarnation's part. last is then the last batch of this part in an
	// epoch: no later batch ever will be in an epoch.
	ended bool
	last  uint64
}

// keepBytes bounds the committed batches that a replica keeps for replicas that have not committed them. The bound
// matters when a replica is lost, since it commits nothing. A replica that was disconnected from the lost replica's
// last batches must request them before they are discarded.
const keepBytes = 64 << 20

func (l *logs) init(r *Replica, p protocol.Params) {
	l.r, l.timeout, l.full = r, p.Duration("batchTimeout"), int(p.Int("batchSize"))
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

// append adds a record to the batch. It sends the batch if it is full or the last batch was sent long enough ago.
func (l *logs) append(rec *Record, place uint64) {
	if l.batch == nil {
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
	case l.timed != l.number:
		l.timed = l.number
		l.r.env.After(wait, protocol.Timer{Kind: batchTimer, Arg: l.number})
	}
}

// expire sends the batch whose timeout has passed.
func (l *logs) expire(number uint64) {
	if l.batch != nil && l.batch.Number == number {
		l.send()
	}
}

// send broadcasts the batch.
func (l *logs) send() {
	m := l.batch.seal()
	l.batch = nil
	l.number++
	l.sent = l.r.env.Now()
	l.r.contention.sent()
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, m) })
	l.put(m)
	l.acknowledged(l.r.self, m.Number)
}

// put takes a batch into its log.
func (l *logs) put(m *Batch) {
	all := &l.all[m.Origin]
	all.succeed(protocol.IncarnationOf(m.Number))
	g := all.of(m.Number)
	if g == nil || g.ended || m.Number < g.first {
		l.r.env.Mark(batchLate)
		return // it was committed, or never will be
	}
	at := int(m.Number - g.first)
	for len(g.batches) <= at {
		g.batches = append(g.batches, nil)
	}
	if g.batches[at] == nil {
		g.batches[at] = m
		if l.r.wrong == arrivalOrder {
			l.arrivals[m] = int32(len(l.arrivals))
		}
	}
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

// receive handles a batch of another replica, from that replica or from a replica that passes it on. A replica that is
// too far behind would keep the batch permanently, so it neither stores nor acknowledges it.
func (l *logs) receive(from geo.NodeID, m *Batch) {
	if int(m.Origin) >= l.r.nodes || m.Number == protocol.NumbersBefore(protocol.IncarnationOf(m.Number)) || l.r.epochs.behind || !l.r.rejoin.joined {
		return
	}
	if m.Origin == l.r.self && protocol.IncarnationOf(m.Number) >= l.r.incarnation {
		return
	}
	l.put(m)
	if from == m.Origin {
		l.r.env.Send(from, &Acknowledgement{l.all[from].received})
	}
	l.r.epochs.advance()
}

// acknowledged records that a replica has this replica's batches up to number. Once f other replicas have them, they
// are available.
func (l *logs) acknowledged(from geo.NodeID, number uint64) {
	own := &l.all[l.r.self]
	if number >= l.number {
		return // no such batch was sent
	}
	l.acknowledgements[from] = max(l.acknowledgements[from], number)
	if number <= own.proven {
		return
	}
	have := 0
	for _, a := range l.acknowledgements {
		if a >= number {
			have++
		}
	}
	if have > l.r.faults {
		l.available(number)
	}
}

// available notifies all replicas that f + 1 have this replica's batches up to number.
func (l *logs) available(number uint64) {
	l.r.others(func(n geo.NodeID) { l.r.env.Send(n, &Proof{number}) })
	l.prove(l.r.self, number)
}

// prove learns that a replica's batches up to number are available.
func (l *logs) prove(origin geo.NodeID, number uint64) {
	g := &l.all[origin]
	if number <= g.proven {
		return
	}
	g.succeed(protocol.IncarnationOf(number))
	g.proven = number
	l.r.progress.expect()
	l.r.coordinator.propose()
}

// uncut reports whether there are batches with proofs that are in no epoch.
func (l *logs) uncut() bool {
	for i := range l.all {
		if l.all[i].proven > l.all[i].cut {
			return true
		}
	}
	return false
}

// requested passes on batches that another replica lacks, or reports that this replica will never have the first one.
func (l *logs) requested(from geo.NodeID, m *Request) {
	if int(m.Origin) >= l.r.nodes {
		return
	}
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

// drop forgets the batches of a log up to a number.
func (l *logs) drop(origin geo.NodeID, number uint64) {
	g := &l.all[origin]
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
		if b := g.batches[0]; b != nil { // a replica that is too far behind may lack some
			l.kept -= b.size
		}
		g.batches[0] = nil
		g.batches = g.batches[1:]
		g.first++
	}
}
