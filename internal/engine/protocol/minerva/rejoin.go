package minerva

import (
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/queue"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// A replica that has lost its state rejoins as a new incarnation, which has acknowledged and proven nothing that its
// predecessor did.
//
// Its log continues after all batches that any replica may have of its predecessor: the numbers of its batches and of
// its transactions start at 2^40 times the incarnation. A replica that learns of the incarnation takes the number
// before its first batch for proven, so that a cut soon contains it. Cuts only grow. So batches of the predecessor that
// are in no cut by then never will be, even with proofs: they are void at all replicas.
//
// The new incarnation receives the cuts from the Raft group, or from the coordinator that makes them alone. It receives
// the rows of an epoch from another replica. Then it follows the other replicas' logs: it asks each for the batches
// after that epoch, including batches that its predecessor has acknowledged.
//
// All copies exist again when three conditions hold. The new incarnation has these batches, so that f + 1 replicas
// again have all proven batches. All replicas have committed the epoch that it started with, so no replica asks it for
// batches whose effects alone it has. All replicas have committed the cuts that void its predecessor's batches, so no
// replica asks for these any more.

const (
	// followBytes is the number of bytes of its log that a replica sends for one Follow.
	followBytes = 4 << 20
	// installRows is the number of rows that a new incarnation installs in one step, during which it receives no messages.
	installRows = 500
)

// rejoin is a replica's state of new incarnations, including its own.
type rejoin struct {
	r            *Replica
	incarnations []uint32 // by replica
	// goals are, by replica, the epoch with which a new incarnation has caught up: unknown before it has rows, 0 when it
	// has.
	goals  []uint64
	sender *statetransfer.Sender

	// The following fields are used if this replica is not its first incarnation. It has joined once it has the rows of
	// epoch began. It has caught up once it has committed the epochs up to ready, which were agreed on at that time.
	joined   bool
	began    uint64
	ready    uint64
	followed []bool // by replica: all is here that its log had when it heard of this incarnation
	asked    geo.NodeID
	asks     int           // how often it has asked
	at       time.Duration // when it last asked, or received a piece
	coming   bool          // a piece has arrived since it asked
	receiver statetransfer.Receiver
	rows     *rows // received, and not all in the store
	stepping bool  // a timer is set
}

// The meanings of joinTimer, in Timer.Arg.
const (
	askTimer = iota
	installTimer
)

const unknownGoal = math.MaxUint64

// rows are a replica's rows after an epoch, with all else that the next epochs depend on.
type rows struct {
	epoch uint64
	tail  Heads
	again [][]reexecution
	rest  codec.Reader // keys, writers and values
	begun bool         // some of them are in the store
}

func (j *rejoin) init(r *Replica) {
	j.r, j.asked, j.joined = r, r.self, r.incarnation == 0
	j.incarnations, j.goals, j.followed = make([]uint32, r.nodes), make([]uint64, r.nodes), make([]bool, r.nodes)
	j.incarnations[r.self] = r.incarnation
	j.sender = statetransfer.NewSender(r.env, transferTimer)
}

func (j *rejoin) start() {
	if !j.joined {
		j.r.logs.prove(j.r.self, protocol.NumbersBefore(j.r.incarnation))
		j.later()
	}
}

// Replaced implements protocol.Rejoiner.
func (r *Replica) Replaced(n geo.NodeID, incarnation uint32) {
	if n == r.self || incarnation <= r.rejoin.incarnations[n] {
		return
	}
	r.rejoin.replaced(n, incarnation)
}

// replaced discards the reports of a replica's predecessor, and repeats the reports to the predecessor for the new
// incarnation.
func (j *rejoin) replaced(n geo.NodeID, incarnation uint32) {
	r := j.r
	j.incarnations[n], j.goals[n], j.followed[n] = incarnation, unknownGoal, true
	j.sender.Cancel(n)
	r.logs.acknowledgements[n] = 0
	clear(r.epochs.discarded[n])
	r.progress.replaced(n)
	r.coordinator.replaced(n, incarnation)
	r.logs.prove(n, protocol.NumbersBefore(incarnation))
}

// reported learns how far another replica is.
func (j *rejoin) reported(n geo.NodeID, epoch uint64) {
	if epoch == 0 || j.goals[n] == 0 {
		return
	}
	if j.goals[n] == unknownGoal {
		j.goals[n] = j.r.epochs.committed
	}
	if epoch >= j.goals[n] {
		j.goals[n] = 0
	}
}

// awaited reports whether a new incarnation that lives has not caught up.
func (j *rejoin) awaited() bool {
	for n, goal := range j.goals {
		if goal > 0 && j.r.progress.lives(geo.NodeID(n)) {
			return true
		}
	}
	return false
}

// FullyReplicated implements protocol.Rejoiner.
func (r *Replica) FullyReplicated() bool { return r.rejoin.whole() && r.coordinator.whole() }

// whole reports whether all logs and rows have as many copies as at first.
func (j *rejoin) whole() bool {
	r, e := j.r, &j.r.epochs
	if !j.joined || e.behind {
		return false
	}
	least := max(j.began, e.succession)
	for n, i := range j.incarnations {
		switch {
		case e.head[n] < protocol.NumbersBefore(i), j.goals[n] > 0:
			return false
		case geo.NodeID(n) == r.self:
			if e.committed < least {
				return false
			}
		case r.progress.epochs[n] < least, r.incarnation > 0 && !j.followed[n]:
			return false
		}
	}
	return true
}

// fire handles a timer of a new incarnation.
func (j *rejoin) fire(what uint64) {
	if what == askTimer {
		j.ask()
		return
	}
	j.stepping = false
	j.install()
}

// refuses reports whether this replica cannot execute transactions yet, or would take long to commit them.
func (j *rejoin) refuses() bool { return !j.joined || j.r.epochs.committed < j.ready }

// later sets the timer after which a new incarnation without rows asks for them.
func (j *rejoin) later() {
	j.r.env.After(j.r.longest+fetchAfter, protocol.Timer{Kind: joinTimer})
}

// ask asks the next replica for rows, if none are in flight. Rows are useless before the later cuts are known.
func (j *rejoin) ask() {
	if j.joined {
		return
	}
	j.later()
	if j.r.coordinator.joined() && j.due() {
		j.askNext()
	}
}

// due reports whether no replica has been asked, or the replica that was asked is silent.
func (j *rejoin) due() bool {
	if j.rows != nil {
		return false
	}
	patience := j.r.longest + fetchAfter
	if j.coming {
		patience = statetransfer.Patience
	}
	return j.asked == j.r.self || j.r.env.Now()-j.at >= patience
}

// askNext asks the other replicas in turn, the coordinator last: while it prepares a large state no replica commits
// anything.
func (j *rejoin) askNext() {
	var order []geo.NodeID
	leader, known := j.r.coordinator.leader()
	for i := 1; i < j.r.nodes; i++ {
		if n := (j.r.self + geo.NodeID(i)) % geo.NodeID(j.r.nodes); !known || n != leader {
			order = append(order, n)
		}
	}
	if known && leader != j.r.self {
		order = append(order, leader)
	}
	j.asked, j.at, j.coming = order[j.asks%len(order)], j.r.env.Now(), false
	j.asks++
	j.r.env.Send(j.asked, &Join{max(j.r.epochs.first, 1) - 1})
}

// join takes another replica's request for rows.
func (j *rejoin) join(from geo.NodeID, m *Join) {
	if e := &j.r.epochs; !j.joined || e.behind || e.committed < m.Epoch {
		j.r.env.Mark(rowsRefused)
	} else if !j.sender.Busy(from) {
		j.sender.Send(from, e.committed, e.appendState(nil))
	}
}

// piece takes a piece of another replica's rows.
func (j *rejoin) piece(from geo.NodeID, m *statetransfer.Piece) {
	if j.joined || j.rows != nil {
		return
	}
	j.at, j.coming = j.r.env.Now(), true
	_, data, whole := j.receiver.Receive(j.r.env, from, m)
	if !whole {
		return
	}
	j.coming = false
	s, err := readState(data, j.r.nodes)
	if err != nil || s.epoch+1 < j.r.epochs.first {
		return // the next replica is asked
	}
	if j.rows = s; s.epoch > j.r.epochs.agreedCuts {
		j.r.env.Mark(rowsEarly)
	}
	j.install()
}

// install installs the received rows in portions, once their cut is known.
func (j *rejoin) install() {
	s, e := j.rows, &j.r.epochs
	switch {
	case s == nil || s.epoch > e.agreedCuts:
		return
	case s.epoch+1 < e.first: // later cuts are discarded
		j.rows = nil
		return
	case j.stepping:
		return
	}
	if s.put(j.r.store) {
		j.stepping = true
		j.r.env.After(0, protocol.Timer{Kind: joinTimer, Arg: installTimer})
		return
	}
	j.rows = nil
	j.joined, j.began, j.ready = true, s.epoch, e.agreedCuts
	e.begin(s)
	clear(j.followed)
	j.r.others(func(n geo.NodeID) { j.r.env.Send(n, &Follow{e.tail[n] + 1}) })
	j.r.progress.expect()
	e.advance()
}

// follow sends a new incarnation this replica's log from a number on.
func (l *logs) follow(from geo.NodeID, m *Follow) {
	g, size, most := &l.all[l.r.self].segment, 0, protocol.Shrunk(l.r.shrink, followBytes)
	n := max(m.From, g.first)
	for ; n <= g.received && size < most; n++ {
		b := g.batches[n-g.first]
		l.r.env.Send(from, b)
		if size += b.size; l.r.env.Buggify(followsSlowly) {
			size = most
		}
	}
	l.r.env.Send(from, &Followed{Number: n - 1, Last: g.received})
}

// follows records that batches of a log have arrived, and asks for the batches after them.
func (j *rejoin) follows(from geo.NodeID, m *Followed) {
	if j.followed[from] = m.Number >= m.Last; !j.followed[from] {
		j.r.env.Send(from, &Follow{m.Number + 1})
	}
}

// appendState appends the rows after the last epoch, and all other state that the next epochs depend on.
func (e *epochs) appendState(b []byte) []byte {
	b = e.tail.appendTo(codec.AppendUvarint(b, e.committed))
	for _, again := range e.again {
		b = codec.AppendUvarint(b, uint64(len(again)))
		for _, x := range again {
			b = codec.AppendUvarint(codec.AppendUvarint(b, x.place), x.epoch)
		}
	}
	for _, row := range store.Placed(e.r.store) {
		b = codec.AppendBytes(codec.AppendID(codec.AppendString(b, string(row.Key)), row.Writer), row.Value)
	}
	return b
}

// readState reads what appendState has appended, but for the rows.
func readState(data []byte, nodes int) (*rows, error) {
	r := codec.NewReader(data)
	s := &rows{epoch: r.UvarintMax(maxNumber), tail: readHeads(&r), again: make([][]reexecution, nodes)}
	if len(s.tail) != nodes {
		r.Fail(errNodes)
	}
	for n := range s.again {
		for range r.Count(2) {
			s.again[n] = append(s.again[n], reexecution{r.UvarintMax(maxNumber), r.UvarintMax(maxNumber)})
		}
	}
	s.rest = r
	return s, r.Err()
}

// put puts the next rows into a store, and reports whether there are more. First it deletes the rows of an abandoned
// installation.
func (s *rows) put(to *store.Hash) (more bool) {
	if !s.begun {
		s.begun = true
		for _, row := range store.Placed(to) {
			to.Delete(row.Key)
		}
	}
	for n := 0; n < installRows && s.rest.Len() > 0 && s.rest.Err() == nil; n++ {
		k, writer, value := txn.Key(s.rest.String()), s.rest.ID(), slices.Clone(s.rest.Bytes())
		to.Put(k, value, writer)
	}
	return s.rest.Len() > 0 && s.rest.Err() == nil
}

// begin starts after the epoch of the rows in the store. The later cuts are known.
func (e *epochs) begin(s *rows) {
	e.committed, e.tail, e.again = s.epoch, s.tail, s.again
	e.queue = queue.Queue[Heads]{}
	for n, head := range s.tail {
		e.r.logs.all[n].restart(head)
	}
	for i, cut := range e.cuts {
		if e.first+uint64(i) <= e.committed {
			continue
		}
		e.queue.Push(cut)
		for n, head := range cut {
			e.r.logs.all[n].open(protocol.IncarnationOf(head))
		}
	}
}

// of returns the part of the log that a number belongs to; nil when that is forgotten.
func (g *batchLog) of(number uint64) *segment {
	i := protocol.IncarnationOf(number)
	if protocol.IncarnationOf(g.received) == i {
		return &g.segment
	}
	for at := range g.earlier {
		if s := &g.earlier[at]; protocol.IncarnationOf(s.received) == i {
			return s
		}
	}
	return nil
}

// succeed begins the part of the log that a new incarnation appends, if it has not begun.
func (g *batchLog) succeed(incarnation uint32) {
	if incarnation > protocol.IncarnationOf(g.received) {
		g.earlier = append(g.earlier, g.segment)
		g.segment = segment{first: protocol.NumbersBefore(incarnation) + 1, received: protocol.NumbersBefore(incarnation)}
	}
}

// open makes sure that there is the part of the log that an incarnation has appended, and a cut names.
func (g *batchLog) open(incarnation uint32) {
	g.succeed(incarnation)
	if g.of(protocol.NumbersBefore(incarnation)) != nil {
		return
	}
	at := 0
	for at < len(g.earlier) && protocol.IncarnationOf(g.earlier[at].received) < incarnation {
		at++
	}
	g.earlier = slices.Insert(g.earlier, at, segment{first: protocol.NumbersBefore(incarnation) + 1, received: protocol.NumbersBefore(incarnation)})
}

// end ends the part of the log that a batch belongs to with that batch. It reports whether there were others.
func (g *batchLog) end(last uint64) bool {
	s := g.of(last)
	s.ended, s.last, s.received = true, last, min(s.received, last)
	keep := min(len(s.batches), int(max(last+1, s.first)-s.first))
	void := keep < len(s.batches)
	clear(s.batches[keep:])
	s.batches = s.batches[:keep]
	return void
}

// restart restarts the log after a batch.
func (g *batchLog) restart(last uint64) {
	known := protocol.IncarnationOf(g.received)
	g.earlier, g.segment = nil, segment{first: last + 1, received: last}
	g.succeed(known)
}
