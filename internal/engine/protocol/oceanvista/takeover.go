package oceanvista

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// status is the status of a server, as agreed by the group.
type status uint8

const (
	// active servers issue timestamps.
	active status = iota
	// suspected servers have been silent for too long or are lost. No replica accepts their writes any more, but their
	// last watermark still holds back visibility.
	suspected
	// closed servers have no unfinished functors: the group has decided which of them count as written. A closed server
	// may rejoin.
	closed
	// abandoned servers were absent for so long that the other servers have discarded functors that an abandoned server
	// lacks.
	abandoned
)

// server is the state of a server in this node's view.
type server struct {
	status status
	// epoch is the number of times that the server was closed. Replicas accept only writes of the current epoch.
	epoch uint64
	// joins is the number of times that the server has rejoined, which is its number of false suspicions.
	joins int
	// last is the highest timestamp decided on: no functor that was issued before the server was closed and has survived
	// has a higher timestamp.
	last Timestamp
	// incarnation is the latest incarnation of the server that the group knows. marked is the latest incarnation that has
	// joined: see replacement.
	incarnation, marked uint32
	// incomplete is set if the incarnation has skipped entries of the group's log, so that it lacks functors.
	incomplete bool
	// reports are the reports about the server's current epoch, by node; nil if none has arrived.
	reports []*Report
	// pieces is the number of applied pieces of the decision about the current epoch. survivors are the survivors in these
	// pieces.
	pieces    uint64
	survivors []Functor
	// reportedIn is the term in which this node has last sent its report. proposedIn is the term in which it has last
	// proposed a decision.
	reportedIn, proposedIn uint64
}

// counts reports whether the server's watermark holds back visibility.
func (s *server) counts() bool { return s.status == active || s.status == suspected }

// membership decides which servers are active, in a Raft group of all servers.
type membership struct {
	r       *Replica
	group   *consensus.Group
	servers []server
	copies  []replenished
	// view counts the log entries that have changed the agreed state.
	view     uint64
	silence  time.Duration // silence after which a server is suspected
	interval time.Duration // time between two checks of the servers
	ticked   time.Duration
	// sponsored is the entry with which this server lets another server join, or nil.
	sponsored *join
	asked     int   // number of sponsors tried
	keepBytes int64 // limit for the bytes of functors in recent, beyond which closed servers are abandoned
	// pieceBytes bounds the size of the functors in a report message or a log entry.
	pieceBytes int

	suspected, survived, neverWritten, joined, terms int64
}

const (
	// decisionBytes bounds the functors that are kept for closed servers, in bytes. Each partition may use an equal part
	// of the bound.
	decisionBytes = 16 << 20
	// pieceBytes bounds the functors in one message of a report or a decision, in bytes. It keeps each message smaller
	// than a frame, even if there are many unfinished functors.
	pieceBytes = 8 << 20
	// logBytes is the number of bytes of the group's log that each member keeps.
	logBytes = 64 << 20
)

func (m *membership) init(r *Replica, t *geo.Topology, c protocol.Config) {
	p := c.Params
	timeout, longest := p.Duration("failureTimeout"), t.LongestRTT()
	m.r, m.servers = r, make([]server, t.Nodes())
	m.keepBytes = protocol.Shrunk[int64](c.Shrink, decisionBytes) / int64(t.Partitions)
	m.pieceBytes = protocol.Shrunk(c.Shrink, pieceBytes)
	m.silence, m.interval = silence(p, longest), timeout/4
	m.copies = make([]replenished, len(t.Regions)*t.Replicas)
	for i := range m.copies {
		m.copies[i].lacking = make([]bool, t.Partitions)
	}
	members := make([]geo.NodeID, t.Nodes())
	for n := range members {
		members[n] = geo.NodeID(n)
		m.servers[n].reports = make([]*Report, t.Nodes())
	}
	m.group = consensus.New(consensus.Config{
		Self: r.self, Incarnation: c.Incarnation, Members: members, Preferred: 0, Env: r.env, TimerKind: groupTimer, Heartbeat: m.interval, Election: timeout + 2*longest,
		KeepBytes: protocol.Shrunk(c.Shrink, logBytes), Apply: m.apply, Lead: m.lead, Snapshot: m.snapshot, Restore: m.restore, Lossy: true,
	})
}

// silence returns the silence after which a server is suspected. longest is the longest round trip.
func silence(p protocol.Params, longest time.Duration) time.Duration {
	return p.Duration("failureTimeout") + longest + 2*p.Duration("gossip")
}

// survival is Engine.Tolerates: any minority of the regions may fail. The group elects a leader, which closes the
// silent servers. A member that loses an election doubles its wait before the next election. Each false suspicion of a
// server doubles the silence that this server is allowed.
func survival(t *geo.Topology, p protocol.Params) protocol.Tolerance {
	s := protocol.AnyRegions(t, true)
	rtt := t.LongestRTT()
	s.Settles = 8*(p.Duration("failureTimeout")+2*rtt) + 2*patienceAfter(silence(p, rtt), math.MaxInt) + 10*rtt
	s.Answers = protocol.InTime(rtt + p.Duration("gossip"))
	return s
}

func (m *membership) start() {
	m.ticked = m.r.env.Now()
	m.group.Start()
	m.tickLater()
}

func (m *membership) tickLater() {
	if len(m.servers) > 1 {
		m.r.env.After(m.interval, protocol.Timer{Kind: failureTimer})
	}
}

func (m *membership) active(n geo.NodeID) bool { return m.servers[n].status == active }

// counted reports whether a functor must be stored by node n before it counts as stored by all replicas. An abandoned
// server need not store it, because it never receives the functor. A new incarnation that has not joined need not store
// it either: it receives the relevant functors when it joins.
func (m *membership) counted(n geo.NodeID) bool {
	s := &m.servers[n]
	return s.status != abandoned && s.incarnation == s.marked
}

// inactive returns the number of servers that are not active.
func (m *membership) inactive() (n int) {
	for i := range m.servers {
		if m.servers[i].status != active {
			n++
		}
	}
	return n
}

// laggards returns the number of live servers that have not yet reported this server's view, or a later one.
func (m *membership) laggards() (n int) {
	now := m.r.env.Now()
	for i := range m.r.watermarks.peers {
		if p := &m.r.watermarks.peers[i]; geo.NodeID(i) != m.r.self && p.view < m.view && now-p.heard < 3*m.silence {
			n++
		}
	}
	return n
}

// tick checks the servers: it suspects silent servers, abandons servers that are absent for too long, and repeats the
// proposals and requests of this server.
func (m *membership) tick() {
	now := m.r.env.Now()
	if now-m.ticked > 2*m.interval {
		m.r.env.Mark(stoodStill)
		// This node was paused or its clock jumped, so it must not attribute the silence to the other servers.
		for n := range m.servers {
			m.r.watermarks.hear(geo.NodeID(n))
		}
	}
	m.ticked = now
	inactive := m.inactive()
	for n := range m.servers {
		s := &m.servers[n]
		// inactive includes the suspicions proposed in this loop, so one tick cannot propose more than a minority.
		if m.group.Leading() && s.status == active && m.silent(geo.NodeID(n)) && inactive < m.mayBeInactive() {
			m.r.env.Mark(suspicionProposed)
			m.propose((&suspicion{server: geo.NodeID(n), epoch: s.epoch}).append(nil))
			inactive++
		}
		// Only a closed server has no functors of its own left to decide. Its abandonment allows replicas to discard the
		// functors that they keep for it.
		if s.status == closed && s.incarnation == s.marked && m.r.functors.keptBytes > m.keepBytes && !m.heard(geo.NodeID(n)) {
			m.propose((&abandonment{server: geo.NodeID(n), epoch: s.epoch}).append(nil))
		}
	}
	if m.sponsored != nil {
		m.propose(m.sponsored.append(nil))
	}
	m.join()
	m.reportGap()
	m.r.replace.tick()
	m.tickLater()
}

// mayBeInactive returns the number of servers that may be inactive at the same time: a minority. If a minority of the
// servers is lost, at least one live server is still active, and can let falsely suspected servers rejoin.
func (m *membership) mayBeInactive() int { return (len(m.servers) - 1) / 2 }

// heard reports whether this node has received a message from server n within m.silence.
func (m *membership) heard(n geo.NodeID) bool {
	return n == m.r.self || m.r.env.Now()-m.r.watermarks.peers[n].heard <= m.silence
}

// silent reports whether server n has been silent for long enough to be suspected. The limit doubles with each false
// suspicion of the server, so that false suspicions eventually stop in every network. See Chandra and Toueg, Unreliable
// Failure Detectors for Reliable Distributed Systems, JACM 43(2), 1996, section 3.
func (m *membership) silent(n geo.NodeID) bool {
	patience := patienceAfter(m.silence, m.servers[n].joins)
	return n != m.r.self && (m.r.env.Now()-m.r.watermarks.peers[n].heard > patience || m.r.env.Buggify(impatient))
}

// patienceAfter returns the silence that a server is allowed after the given number of false suspicions.
func patienceAfter(silence time.Duration, times int) time.Duration {
	for ; times > 0 && silence < longestSilence; times-- {
		silence *= 2
	}
	return silence
}

// longestSilence limits the doubling: an allowed silence that has reached it does not double again.
const longestSilence = 10 * time.Second

// propose sends an entry to the group's leader. If the entry is lost, a later tick proposes it again.
func (m *membership) propose(entry []byte) {
	if m.group.Leading() {
		m.group.Propose(entry)
	} else if leader, known := m.group.Leader(); known && leader != m.r.self {
		m.r.env.Mark(proposalSent)
		m.r.env.Send(leader, &Proposal{entry})
	}
}

// lead handles a change of the leader. It reports to the new leader, and proposes decisions if this node leads.
func (m *membership) lead(geo.NodeID, uint64) {
	m.terms++
	for n := range m.servers {
		m.report(geo.NodeID(n))
		m.decide(geo.NodeID(n))
	}
	m.r.replace.proposeLosses()
}

// report sends the leader the recent functors of a suspected server that this node holds, once per term.
func (m *membership) report(n geo.NodeID) {
	s := &m.servers[n]
	leader, known := m.group.Leader()
	// A report of a new incarnation that still lacks functors would make stable functors look as if they had never been
	// written.
	if s.status != suspected || !known || s.reportedIn == m.group.Term() || !m.r.replace.complete(n) {
		return
	}
	s.reportedIn = m.group.Term()
	var held []Functor
	m.r.functors.recent[n].Each(func(f Functor) { held = append(held, f) })
	rep := &Report{Server: n, Epoch: s.epoch, Replicated: m.r.functors.replicated[n], Functors: held}
	if leader == m.r.self {
		m.reported(leader, rep)
		return
	}
	inPieces(held, m.pieceBytes, func(piece []Functor, more bool) {
		part := *rep
		part.Functors, part.More = piece, more
		m.r.env.Send(leader, &part)
		rep.Piece++
	})
}

// reported handles a report. The report may arrive before this node knows that it leads the group, or that the server
// is suspected.
func (m *membership) reported(from geo.NodeID, rep *Report) {
	if int(rep.Server) >= len(m.servers) {
		return
	}
	s := &m.servers[rep.Server]
	// A report about an epoch that was decided in the meantime is useless, and an older report must not replace a newer
	// one.
	if old := s.reports[from]; rep.Epoch < s.epoch || old != nil && old.Epoch > rep.Epoch {
		return
	}
	if rep.Piece > 0 {
		// Pieces arrive in order. The first piece starts a new report.
		old := s.reports[from]
		if old == nil || old.Epoch != rep.Epoch || !old.More || old.Piece+1 != rep.Piece {
			return
		}
		whole := *rep
		whole.Functors = append(slices.Clip(old.Functors), rep.Functors...)
		rep = &whole
	}
	s.reports[from] = rep
	m.decide(rep.Server)
}

// decide proposes which functors of a suspected server survive, once a majority of each partition has reported. A
// stable functor is in at least one report from each partition that it accesses. An unstable functor survives, too, if
// it is in reports from all its partitions. A functor that is missing in one of its partitions is not stable: no
// watermark of the server has passed it, and none will.
func (m *membership) decide(n geo.NodeID) {
	s := &m.servers[n]
	if s.status != suspected || !m.group.Leading() || s.proposedIn == m.group.Term() {
		return
	}
	for _, replicas := range m.r.group {
		have := 0
		for _, from := range replicas {
			if s.reports[from].of(s.epoch) {
				have++
			}
		}
		// Every majority of the partition includes a replica that has stored a given stable functor. A minority may include
		// none.
		if have < m.r.majority {
			m.r.env.Mark(reportsMissing)
			return
		}
	}
	d := &decision{server: n, epoch: s.epoch}
	found := map[Timestamp][]bool{} // by partition
	var all []Functor
	for from, rep := range s.reports {
		if !rep.of(s.epoch) {
			continue
		}
		d.replicated = max(d.replicated, rep.Replicated)
		for _, f := range rep.Functors {
			if found[f.Timestamp] == nil {
				found[f.Timestamp] = make([]bool, m.r.partitions)
				all = append(all, f)
			}
			found[f.Timestamp][m.r.topology.PartitionOf(geo.NodeID(from))] = true
		}
	}
	slices.SortFunc(all, func(a, b Functor) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	for _, f := range all {
		m.r.env.Mark(functorReported)
		missing := slices.ContainsFunc(m.r.partitionsOf(f.T), func(q int) bool { return !found[f.Timestamp][q] })
		// Functors up to replicated are already at all replicas, and visible.
		if f.Timestamp > d.replicated && !missing && m.r.wrong != forgottenFunctors {
			m.r.env.Mark(functorSurvives)
			d.survivors = append(d.survivors, f)
		}
	}
	s.proposedIn = m.group.Term()
	// One leader proposes all pieces in one step, so the log does not interleave the pieces of two leaders' decisions.
	inPieces(d.survivors, m.pieceBytes, func(piece []Functor, more bool) {
		part := *d
		part.survivors, part.more = piece, more
		m.group.Propose(part.append(nil))
		d.piece++
	})
}

// of reports whether m is a complete report about the given epoch. m may be nil.
func (m *Report) of(epoch uint64) bool { return m != nil && m.Epoch == epoch && !m.More }

// join asks an active server to sponsor this server, if this server is closed and the group knows this incarnation.
func (m *membership) join() {
	if s := &m.servers[m.r.self]; s.status != closed || m.r.behind || s.incarnation != m.r.replace.known[m.r.self] {
		return
	}
	for range m.servers {
		m.asked++
		if n := geo.NodeID(m.asked % len(m.servers)); n != m.r.self && m.active(n) && m.heard(n) {
			m.r.env.Mark(sponsorAsked)
			m.r.replace.joining = m.r.env.Now()
			m.r.env.Send(n, &JoinRequest{m.servers[m.r.self].epoch})
			return
		}
	}
}

// requested lets another server join. Everything that is visible anywhere is at or below this server's watermark. This
// watermark stays fixed until the other server has joined or can no longer join. The joining server may therefore issue
// any timestamp above the fixed watermark. A node receives a higher watermark of this server only in a view in which
// the joining server is active. In that view, the joining server's watermark holds back visibility at the node.
func (m *membership) requested(from geo.NodeID, req *JoinRequest) {
	s, own := &m.servers[from], &m.servers[m.r.self]
	// Only one sponsorship at a time, because the capped watermark belongs to a single join entry.
	if m.sponsored != nil || m.r.behind || own.status != active || m.r.replace.unmarked() || s.status != closed || s.epoch != req.Epoch ||
		s.incarnation != m.r.replace.known[from] {
		return
	}
	m.r.writes.capped = true
	m.r.env.Mark(sponsored)
	m.sponsored = &join{server: from, epoch: s.epoch, sponsor: m.r.self, sponsorEpoch: own.epoch, above: m.r.writes.promised}
	if s.incarnation > s.marked {
		m.sponsored.incarnation = s.incarnation
	}
	m.propose(m.sponsored.append(nil))
}

// apply applies an agreed entry. An outdated entry changes nothing.
func (m *membership) apply(data []byte) {
	e, err := readEntry(data, codec.NewTxnArena(m.r.procs))
	if err != nil || !e.apply(m) {
		return
	}
	m.endSponsorship()
	m.r.caughtUp()
}

// endSponsorship lets this server's watermark rise again, once the server that it sponsors has joined or can no longer
// join.
func (m *membership) endSponsorship() {
	if p := m.sponsored; p != nil && !p.possible(&m.servers[p.server]) {
		m.sponsored, m.r.writes.capped = nil, false
	}
}

// find returns the server that an entry refers to. It returns nil if that server is in another epoch by now.
func (m *membership) find(n geo.NodeID, epoch uint64) *server {
	if int(n) >= len(m.servers) || m.servers[n].epoch != epoch {
		return nil
	}
	return &m.servers[n]
}

// become changes the agreed status of a server and increments the view. It must run before the messages that result
// from the change are sent, so that the messages carry the new view.
func (m *membership) become(s *server, st status) {
	s.status = st
	m.view++
}

func (e *suspicion) apply(m *membership) bool {
	s := m.find(e.server, e.epoch)
	return s != nil && s.status == active && m.suspect(e.server)
}

// suspect makes an active server suspected, so that no replica accepts the server's writes. It returns false if too
// many servers are inactive already.
func (m *membership) suspect(n geo.NodeID) bool {
	s := &m.servers[n]
	// The leader checks this before it proposes, too, but two suspicions may be in the log at the same time.
	if m.inactive() >= m.mayBeInactive() {
		return false
	}
	m.become(s, suspected)
	s.reportedIn, s.proposedIn = 0, 0
	s.pieces, s.survivors = 0, nil
	m.suspected++
	m.r.env.Mark(serverSuspected)
	m.report(n)
	return true
}

func (e *decision) apply(m *membership) bool {
	s := m.find(e.server, e.epoch)
	if s == nil || s.status != suspected {
		return false
	}
	// An earlier leader may have lost its term between two pieces. Start again with the new decision.
	if e.piece == 0 {
		s.pieces, s.survivors = 0, nil
	}
	if e.piece != s.pieces {
		return false // earlier pieces were lost with their leader
	}
	s.pieces++
	survivors := append(s.survivors, e.survivors...)
	if s.survivors = survivors; e.more {
		return false
	}
	m.become(s, closed)
	m.r.env.Mark(serverClosed)
	// The new epoch excludes all writes of the server that are still in flight.
	s.epoch++
	s.pieces, s.survivors = 0, nil
	// A new incarnation issues timestamps above last, so that no timestamp is used twice.
	s.last = max(s.last, e.replicated)
	if len(survivors) > 0 {
		s.last = max(s.last, survivors[len(survivors)-1].Timestamp)
	}
	clear(s.reports)
	m.survived += int64(len(survivors))
	m.neverWritten += int64(m.r.functors.decided(e.server, e.replicated, survivors))
	if e.server == m.r.self {
		m.r.env.Mark(closedItself)
		m.closedSelf(survivors)
		m.join()
	}
	return true
}

// closedSelf handles the decision that closes this server. It cancels this server's sponsorship of another server. Of
// this server's unfinished functors, only the survivors count as written.
func (m *membership) closedSelf(survivors []Functor) {
	m.sponsored = nil
	m.r.writes.decided(survivors)
}

// possible reports whether the server can still join with this entry: it is closed in the entry's epoch, and its
// incarnation has not changed.
func (e *join) possible(s *server) bool {
	return s.status == closed && s.epoch == e.epoch && (e.incarnation == 0 && s.incarnation == s.marked || e.incarnation > s.marked && e.incarnation == s.incarnation)
}

func (e *join) apply(m *membership) bool {
	s, sponsor := m.find(e.server, e.epoch), m.find(e.sponsor, e.sponsorEpoch)
	// If the sponsor was closed, its watermark is no longer fixed, so e.above may be lower than something that is visible.
	if s == nil || !e.possible(s) || sponsor == nil || sponsor.status != active {
		return false
	}
	m.become(s, active)
	m.r.replace.begins(e.server)
	if e.incarnation > 0 {
		m.mark(e)
		return true
	}
	m.r.env.Mark(serverJoined)
	m.joined++
	s.joins++
	p := &m.r.watermarks.peers[e.server]
	// The server issues only timestamps above e.above, so this watermark is correct before the server's first gossip.
	p.watermark = max(p.watermark, e.above)
	if e.server == m.r.self {
		m.r.writes.resume(e.above)
	}
	return true
}

func (e *abandonment) apply(m *membership) bool {
	s := m.find(e.server, e.epoch)
	if s == nil || s.status != closed || s.incarnation != s.marked {
		return false
	}
	m.become(s, abandoned)
	if e.server == m.r.self {
		m.r.giveUp()
	}
	// The abandoned server no longer counts, so all counted replicas may have stored more functors.
	m.recount()
	return true
}

// recount recomputes quorum and everywhere of all partitions, after the set of nodes that count has changed.
func (m *membership) recount() {
	for q := range m.r.group {
		m.r.writes.recount(q)
	}
}

// snapshot returns the agreed state for a member that lacks log entries which the other members have discarded. The
// snapshot omits the functors in these entries: see restore.
func (m *membership) snapshot() []byte {
	b := codec.AppendUvarint(nil, m.view)
	for n := range m.servers {
		s := &m.servers[n]
		b = codec.AppendUvarint(codec.AppendUvarint(append(b, byte(s.status)), s.epoch), uint64(s.joins))
		b = codec.AppendUint64(codec.AppendUvarint(b, s.pieces), uint64(s.last))
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(s.incarnation)), uint64(s.marked))
		b = append(b, codec.Flags(s.incomplete, false))
	}
	for i := range m.copies {
		b = m.copies[i].append(b)
	}
	return b
}

// restore installs the agreed state from a snapshot. If this server has state, it stops serving clients, because it
// lacks the functors in the skipped entries. It continues to store and acknowledge functors of other servers. Otherwise
// the other servers would keep these functors for it permanently. A new incarnation starts with a snapshot, and
// receives the functors when it joins.
func (m *membership) restore(data []byte) {
	if !m.r.replace.unmarked() {
		m.r.giveUp()
	}
	r := codec.NewReader(data)
	m.view = r.Uvarint()
	for n := range m.servers {
		s := &m.servers[n]
		was := s.epoch
		s.status, s.epoch, s.joins = status(r.Uint8()), r.Uvarint(), int(r.Uvarint())
		s.pieces, s.survivors = r.Uvarint(), nil
		s.last = Timestamp(r.Uint64())
		s.incarnation, s.marked = uint32(r.UvarintMax(math.MaxUint32)), uint32(r.UvarintMax(math.MaxUint32))
		s.incomplete = r.Flag()
		s.reportedIn, s.proposedIn = 0, 0
		if s.epoch != was {
			// The skipped entries include a decision about the server's functors that this node holds.
			clear(s.reports)
			m.r.functors.clear(geo.NodeID(n))
			if geo.NodeID(n) == m.r.self {
				m.closedSelf(nil)
			}
		}
		m.report(geo.NodeID(n))
	}
	for i := range m.copies {
		m.copies[i].read(&r)
	}
	if m.r.replace.unmarked() && m.servers[m.r.self].marked == m.r.replace.known[m.r.self] {
		m.r.giveUp() // this incarnation has joined in a skipped entry, and lacks the functors after that entry
	}
	m.endSponsorship()
	m.r.caughtUp()
	m.join()
	m.reportGap()
}

// reportGap proposes that the group records the gap of this server, if it has skipped entries. No copy can be restored
// from the rows of an incomplete server. The group knows of an abandoned server anyway.
func (m *membership) reportGap() {
	if s := &m.servers[m.r.self]; m.r.behind && !s.incomplete && s.status != abandoned {
		m.propose((&gap{m.r.self, s.incarnation}).append(nil))
	}
}

func (e *gap) apply(m *membership) bool {
	if int(e.server) >= len(m.servers) || m.servers[e.server].incarnation != e.incarnation {
		return false // another incarnation has replaced it
	}
	m.servers[e.server].incomplete = true
	return true
}

// giveUp stops serving clients, because this server lacks functors that the other servers have discarded. It answers
// all waiting transactions.
func (r *Replica) giveUp() {
	r.behind = true
	// Rows that lack functors must not reach another copy.
	r.replace.stops = nil
	r.functors.invisible, r.writes.waiting, r.replace.held = nil, nil, nil
	ids := make([]txn.ID, 0, len(r.unanswered))
	for id := range r.unanswered {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		o := txn.Outcome{ID: id, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonBehind}
		// Other servers may have the functor and evaluate it, so the outcome is unknown instead of refused.
		if r.unanswered[id] {
			o.Status = txn.Unknown
		}
		r.reply(o)
	}
}
