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

// A replica that has lost its state rejoins as a new incarnation. It starts without the acknowledgements and proofs of
// its predecessor.
//
// Its log continues after all batches of its predecessor that any replica may have. The numbers of its batches and
// transactions start at 2^40 times the incarnation. A replica that learns of the incarnation treats the number before
// the incarnation's first batch as proven, so that a cut soon contains that number. Cuts only grow. Batches of the
// predecessor that are in no cut by then will never be in one, even with proofs: they are void at all replicas.
//
// The new incarnation receives the cuts from the Raft group, or from the coordinator that decides cuts without
// consensus. Another replica sends it the rows as of some epoch. After that, the new incarnation follows the other
// replicas' logs. It asks each replica for that replica's batches after the epoch, including batches that the lost
// predecessor has acknowledged.
//
// All copies are complete again when three conditions hold:
//
//   - The new incarnation has these batches, so that f + 1 replicas have all proven batches again.
//   - All replicas have committed the epoch of the new incarnation's initial rows, so no replica asks it for earlier
//     batches, which it does not have.
//   - All replicas have committed the cuts that void its predecessor's batches, so no replica asks for void batches any
//     more.

const (
	// followBytes bounds the bytes of its log that a replica sends in response to one Follow.
	followBytes = 4 << 20
	// installRows is the number of rows that a new incarnation installs per step. It handles messages between steps.
	installRows = 500
)

// rejoin tracks the new incarnations of all replicas, including this one.
type rejoin struct {
	r            *Replica
	incarnations []uint32 // by replica
	// goals holds, by replica, the epoch at which a new incarnation has caught up. It is unknownGoal until the
	// incarnation has rows, and 0 once the incarnation has caught up.
	goals  []uint64
	sender *statetransfer.Sender

	// The following fields are used only if this replica is a new incarnation. joined is set once it has installed the
	// rows of epoch began. ready is the last epoch that was agreed on at that time: the replica has caught up once it has
	// committed ready.
	joined   bool
	began    uint64
	ready    uint64
	followed []bool // by replica: its log was received up to the end that its last Followed reported
	asked    geo.NodeID
	asks     int           // number of requests sent
	at       time.Duration // time of the last request or received piece
	coming   bool          // a piece has arrived since the last request
	receiver statetransfer.Receiver
	rows     *rows // received, but not yet all installed
	stepping bool  // the install timer is set
}

// The meanings of joinTimer, in Timer.Arg.
const (
	askTimer = iota
	installTimer
)

const unknownGoal = math.MaxUint64

// rows are the rows of a replica after an epoch, with all other state that later epochs depend on.
type rows struct {
	epoch uint64
	tail  Heads
	again [][]reexecution
	rest  codec.Reader // keys, writers and values
	begun bool         // some rows are in the store
}

func (j *rejoin) init(r *Replica) {
	j.r, j.asked, j.joined = r, r.self, r.incarnation == 0
	j.incarnations, j.goals, j.followed = make([]uint32, r.nodes), make([]uint64, r.nodes), make([]bool, r.nodes)
	j.incarnations[r.self] = r.incarnation
	j.sender = statetransfer.NewSender(r.env, transferTimer)
}

func (j *rejoin) start() {
	if !j.joined {
		// The next cut ends the predecessor's log even if this incarnation sends no batch.
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

// replaced discards the reports of replica n's predecessor. It repeats to the new incarnation the reports that the
// predecessor has received from this replica.
func (j *rejoin) replaced(n geo.NodeID, incarnation uint32) {
	r := j.r
	j.incarnations[n], j.goals[n], j.followed[n] = incarnation, unknownGoal, true
	j.sender.Cancel(n)
	// The new incarnation has none of the batches that its predecessor has acknowledged, so they no longer count towards a
	// proof.
	r.logs.acknowledgements[n] = 0
	clear(r.epochs.discarded[n])
	r.progress.replaced(n)
	r.coordinator.replaced(n, incarnation)
	// This makes the next cut end the predecessor's log, even if the new incarnation sends no batch.
	r.logs.prove(n, protocol.NumbersBefore(incarnation))
}

// reported records the last epoch that replica n has committed, to detect when a new incarnation has caught up.
func (j *rejoin) reported(n geo.NodeID, epoch uint64) {
	// A new incarnation reports epoch 0 until it has rows.
	if epoch == 0 || j.goals[n] == 0 {
		return
	}
	if j.goals[n] == unknownGoal {
		// The first report with an epoch shows that the new incarnation has rows. It has caught up once it has committed all
		// epochs that this replica has committed now.
		j.goals[n] = j.r.epochs.committed
	}
	if epoch >= j.goals[n] {
		j.goals[n] = 0
	}
}

// awaited reports whether this replica waits for a live new incarnation that has not caught up.
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

// whole reports whether all logs and rows have their full number of copies again, as far as this replica knows. See the
// three conditions at the top of this file.
func (j *rejoin) whole() bool {
	r, e := j.r, &j.r.epochs
	if !j.joined || e.behind {
		return false
	}
	// This replica cannot send batches of epochs before began. A replica that has not committed epoch succession may still
	// request void batches.
	least := max(j.began, e.succession)
	for n, i := range j.incarnations {
		switch {
		// Either the cut that voids the predecessor's batches is not agreed on yet, or the new incarnation has not caught up.
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

// fire handles joinTimer with the given Arg.
func (j *rejoin) fire(what uint64) {
	if what == askTimer {
		j.ask()
		return
	}
	j.stepping = false
	j.install()
}

// refuses reports whether this replica must refuse transactions. It must if it has no rows yet, or if it is so far
// behind that commits would take long.
func (j *rejoin) refuses() bool { return !j.joined || j.r.epochs.committed < j.ready }

// later sets the timer for the next request for rows.
func (j *rejoin) later() {
	j.r.env.After(j.r.longest+fetchAfter, protocol.Timer{Kind: joinTimer})
}

// ask requests rows from the next replica, unless a transfer is in progress. It does so only once this replica is
// certain to receive all later cuts, because rows are useless without them.
func (j *rejoin) ask() {
	if j.joined {
		return
	}
	j.later()
	if j.r.coordinator.joined() && j.due() {
		j.askNext()
	}
}

// due reports whether to send a request. It returns true if no rows are being installed, and either no replica was
// asked before or the last one asked is silent.
func (j *rejoin) due() bool {
	if j.rows != nil {
		return false
	}
	patience := j.r.longest + fetchAfter
	// A started transfer gets more time than a request without any reply.
	if j.coming {
		patience = statetransfer.Patience
	}
	return j.asked == j.r.self || j.r.env.Now()-j.at >= patience
}

// askNext requests rows from the other replicas in turn, and from the coordinator last: while the coordinator prepares
// a large state, no replica can commit.
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
	// The rows must be of the epoch before this replica's first cut, or of a later epoch. With older rows, a cut would be
	// missing in between.
	j.r.env.Send(j.asked, &Join{max(j.r.epochs.first, 1) - 1})
}

// join handles another replica's request for rows.
func (j *rejoin) join(from geo.NodeID, m *Join) {
	// Rows older than the requester's first cut are useless: the requester could not commit the epochs in between.
	if e := &j.r.epochs; !j.joined || e.behind || e.committed < m.Epoch {
		j.r.env.Mark(rowsRefused)
	} else if !j.sender.Busy(from) {
		j.sender.Send(from, e.committed, e.appendState(nil))
	}
}

// piece handles a piece of another replica's rows.
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
		return // the timer asks the next replica
	}
	if j.rows = s; s.epoch > j.r.epochs.agreedCuts {
		j.r.env.Mark(rowsEarly)
	}
	j.install()
}

// install installs the next portion of the received rows, once the cut of their epoch is known. After the last portion,
// the replica has joined.
func (j *rejoin) install() {
	s, e := j.rows, &j.r.epochs
	switch {
	case s == nil || s.epoch > e.agreedCuts:
		return
	case s.epoch+1 < e.first: // this replica does not have the cuts that follow the rows
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
	// This replica must receive every log after the epoch again, because senders do not resend batches that the
	// predecessor acknowledged.
	clear(j.followed)
	j.r.others(func(n geo.NodeID) { j.r.env.Send(n, &Follow{e.tail[n] + 1}) })
	j.r.progress.expect()
	e.advance()
}

// follow sends a new incarnation the batches of this replica's log starting with number m.From, up to followBytes.
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

// follows records the number up to which a log was received, and requests the following batches if there are any.
func (j *rejoin) follows(from geo.NodeID, m *Followed) {
	if j.followed[from] = m.Number >= m.Last; !j.followed[from] {
		j.r.env.Send(from, &Follow{m.Number + 1})
	}
}

// appendState appends the rows after the last committed epoch and all other state that the next epochs depend on.
func (e *epochs) appendState(b []byte) []byte {
	b = e.tail.AppendTo(codec.AppendUvarint(b, e.committed))
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

// readState decodes the output of appendState, except for the rows, which stay encoded in rest.
func readState(data []byte, nodes int) (*rows, error) {
	r := codec.NewReader(data)
	s := &rows{epoch: r.UvarintMax(maxNumber), again: make([][]reexecution, nodes)}
	if s.tail.read(&r); len(s.tail) != nodes {
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

// put puts the next rows into a store, at most installRows, and reports whether more rows follow. The first call
// deletes all rows of the store, which may stem from an abandoned installation.
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

// begin continues with the epoch after the installed rows. It queues all later cuts that are known.
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

// of returns the segment that contains number. It returns nil if there is no such segment.
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

// succeed starts a segment for a new incarnation, unless the log has a segment for that incarnation or a later one.
func (g *batchLog) succeed(incarnation uint32) {
	if incarnation > protocol.IncarnationOf(g.received) {
		g.earlier = append(g.earlier, g.segment)
		g.segment = segment{first: protocol.NumbersBefore(incarnation) + 1, received: protocol.NumbersBefore(incarnation)}
	}
}

// open ensures that the log has a segment for an incarnation that a cut contains.
func (g *batchLog) open(incarnation uint32) {
	g.succeed(incarnation)
	if g.of(protocol.NumbersBefore(incarnation)) != nil {
		return
	}
	// The log may have skipped the incarnation because this replica learned of a later incarnation first. Segments stay
	// sorted by incarnation.
	at := 0
	for at < len(g.earlier) && protocol.IncarnationOf(g.earlier[at].received) < incarnation {
		at++
	}
	g.earlier = slices.Insert(g.earlier, at, segment{first: protocol.NumbersBefore(incarnation) + 1, received: protocol.NumbersBefore(incarnation)})
}

// end makes batch last the final batch of its segment. It reports whether it has discarded later batches.
func (g *batchLog) end(last uint64) bool {
	s := g.of(last)
	s.ended, s.last, s.received = true, last, min(s.received, last)
	// If all batches of the segment were dropped, the segment may already start after last. Then nothing is kept.
	keep := min(len(s.batches), int(max(last+1, s.first)-s.first))
	void := keep < len(s.batches)
	clear(s.batches[keep:])
	s.batches = s.batches[:keep]
	return void
}

// restart discards all batches. The log then continues after batch last.
func (g *batchLog) restart(last uint64) {
	known := protocol.IncarnationOf(g.received)
	g.earlier, g.segment = nil, segment{first: last + 1, received: last}
	// last may belong to an earlier incarnation than the latest known one. Batches of the latest incarnation are still
	// accepted.
	g.succeed(known)
}
