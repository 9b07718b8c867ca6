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

// status is the group's agreed status of a server.
type status uint8

const (
	// active servers issue timestamps.
	active status = iota
	// suspected servers have been silent. No replica accepts their writes any more, and their last watermark holds back
	// all servers.
	suspected
	// closed servers have no unfinished functors: it is decided which of them were written. They may rejoin.
	closed
	// abandoned servers were away for so long that the functors that they lack are discarded.
	abandoned
)

// server is this node's state of a server as of its view.
type server struct {
	status status
	// epoch counts how often the server was closed: the ballot under which replicas take its writes.
	epoch uint64
	// joins is the number of times that it has rejoined, which is the number of false suspicions.
	joins int
	// last is the highest timestamp that was decided on: no functor that the server wrote before it was closed is above
	// it.
	last Timestamp
	// incarnation is the latest incarnation of the server that the group knows, marked the incarnation that has joined:
	// see replacement.
	incarnation, marked uint32
	// reports are those about the epoch, by node, nil where there is none.
	reports []*Report
	// pieces is the number of pieces of a decision about the epoch that have arrived, and survivors are their survivors.
	pieces    uint64
	survivors []Functor
	// reportedIn is the leader's term for which this node has reported, proposedIn that in which it has proposed a
	// decision.
	reportedIn, proposedIn uint64
}

// counts reports whether the server's watermark holds others.
func (s *server) counts() bool { return s.status == active || s.status == suspected }

// membership decides which servers are active, in a Raft group of all.
type membership struct {
	r       *Replica
	group   *consensus.Group
	servers []server
	copies  []replenished
	// view counts the entries of the group's log that have changed anything.
	view     uint64
	silence  time.Duration // after which a server is suspected
	interval time.Duration // at which servers are looked at
	ticked   time.Duration
	// sponsored is the entry by which this server lets another server join, nil for none.
	sponsored *join
	asked     int   // how often this server has asked for a sponsor
	keepBytes int64 // of functors that a closed server may lack
	// pieceBytes bounds the functors of a report and of an entry.
	pieceBytes int

	suspected, survived, neverWritten, joined, terms int64
}

const (
	// decisionBytes is the number of bytes that the replicas of all partitions together keep for closed servers.
	decisionBytes = 16 << 20
	// pieceBytes is the number of bytes of a report or a decision in one message: less than a frame, for any number of
	// unfinished functors.
	pieceBytes = 8 << 20
	// logBytes is the number of bytes of the group's log that a member keeps.
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

// silence is after how long a server that says nothing is suspected.
func silence(p protocol.Params, longest time.Duration) time.Duration {
	return p.Duration("failureTimeout") + longest + 2*p.Duration("gossip")
}

// survival is Engine.Tolerates: any minority of the regions. The group elects a leader, which closes the silent
// servers. A member that loses an election doubles its wait for the next election. False suspicions double the silence
// that a server is allowed.
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

// counted reports whether a functor only counts as stored by all replicas once the node has it. An abandoned server
// never receives it, and a new incarnation receives the functors that count when it joins.
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

// laggards returns the number of live servers that have not reported that they know all decisions that this server
// knows.
func (m *membership) laggards() (n int) {
	now := m.r.env.Now()
	for i := range m.r.watermarks.peers {
		if p := &m.r.watermarks.peers[i]; geo.NodeID(i) != m.r.self && p.view < m.view && now-p.heard < 3*m.silence {
			n++
		}
	}
	return n
}

// tick checks the servers: silent servers, servers to let join, and this server if it is closed.
func (m *membership) tick() {
	now := m.r.env.Now()
	if now-m.ticked > 2*m.interval {
		m.r.env.Mark(stoodStill)
		// The other servers were not silent: this node stood still, or its clock has jumped.
		for n := range m.servers {
			m.r.watermarks.hear(geo.NodeID(n))
		}
	}
	m.ticked = now
	inactive := m.inactive()
	for n := range m.servers {
		s := &m.servers[n]
		if m.group.Leading() && s.status == active && m.silent(geo.NodeID(n)) && inactive < m.mayBeInactive() {
			m.r.env.Mark(suspicionProposed)
			m.propose((&suspicion{server: geo.NodeID(n), epoch: s.epoch}).append(nil))
			inactive++
		}
		if s.status == closed && s.incarnation == s.marked && m.r.functors.keptBytes > m.keepBytes && !m.heard(geo.NodeID(n)) {
			m.propose((&abandonment{server: geo.NodeID(n), epoch: s.epoch}).append(nil))
		}
	}
	if m.sponsored != nil {
		m.propose(m.sponsored.append(nil))
	}
	m.join()
	m.r.replace.tick()
	m.tickLater()
}

// mayBeInactive returns the number of servers that may be inactive at a time: a minority. So if a minority is lost, a
// live active server remains that can let falsely suspected servers rejoin.
func (m *membership) mayBeInactive() int { return (len(m.servers) - 1) / 2 }

// heard reports whether a server was heard of lately.
func (m *membership) heard(n geo.NodeID) bool {
	return n == m.r.self || m.r.env.Now()-m.r.watermarks.peers[n].heard <= m.silence
}

// silent reports whether an active server has been silent for long enough to be suspected. The time doubles with each
// false suspicion, so that suspicions stop eventually in every network. See Chandra and Toueg, Unreliable Failure
// Detectors for Reliable Distributed Systems, JACM 43(2), 1996, section 3.
func (m *membership) silent(n geo.NodeID) bool {
	patience := patienceAfter(m.silence, m.servers[n].joins)
	return n != m.r.self && (m.r.env.Now()-m.r.watermarks.peers[n].heard > patience || m.r.env.Buggify(impatient))
}

// patienceAfter returns the time for which a server may be silent after a number of false suspicions.
func patienceAfter(silence time.Duration, times int) time.Duration {
	for ; times > 0 && silence < longestSilence; times-- {
		silence *= 2
	}
	return silence
}

// longestSilence ends the doubling.
const longestSilence = 10 * time.Second

// propose hands an entry to the group's leader. One that is lost is proposed again at a later tick.
func (m *membership) propose(entry []byte) {
	if m.group.Leading() {
		m.group.Propose(entry)
	} else if leader, known := m.group.Leader(); known && leader != m.r.self {
		m.r.env.Mark(proposalSent)
		m.r.env.Send(leader, &Proposal{entry})
	}
}

// lead handles a change of the leader: it sends reports to the new leader.
func (m *membership) lead(geo.NodeID, uint64) {
	m.terms++
	for n := range m.servers {
		m.report(geo.NodeID(n))
		m.decide(geo.NodeID(n))
	}
	m.r.replace.proposeLosses()
}

// report sends the leader the functors of a suspected server that this node holds.
func (m *membership) report(n geo.NodeID) {
	s := &m.servers[n]
	leader, known := m.group.Leader()
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

// reported takes a report. It may come before this node knows that it leads, or that the server is suspected.
func (m *membership) reported(from geo.NodeID, rep *Report) {
	if int(rep.Server) >= len(m.servers) {
		return
	}
	s := &m.servers[rep.Server]
	if old := s.reports[from]; rep.Epoch < s.epoch || old != nil && old.Epoch > rep.Epoch {
		return
	}
	if rep.Piece > 0 {
		// Pieces arrive in order; the first piece starts a new report.
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
// stable functor is in the report of some replica of each partition that it touches. An unstable functor that the
// reports contain may survive as well. A functor that is missing in a partition is not stable: no watermark of the
// server has passed it, and none will.
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
		if f.Timestamp > d.replicated && !missing && m.r.wrong != forgottenFunctors {
			m.r.env.Mark(functorSurvives)
			d.survivors = append(d.survivors, f)
		}
	}
	s.proposedIn = m.group.Term()
	// All pieces in one step, and by this leader alone: pieces of two leaders' decisions do not mix in the log.
	inPieces(d.survivors, m.pieceBytes, func(piece []Functor, more bool) {
		part := *d
		part.survivors, part.more = piece, more
		m.group.Propose(part.append(nil))
		d.piece++
	})
}

// of reports whether there is a whole report about an epoch.
func (m *Report) of(epoch uint64) bool { return m != nil && m.Epoch == epoch && !m.More }

// join asks an active server to let this server join, if this server is closed and has all that was decided on.
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

// requested lets another server join. Everything that is visible anywhere is below this server's watermark. The
// watermark does not move until the joining server has joined or cannot join any more. So the joining server may issue
// all timestamps above it. A node that receives a higher watermark of this server does so in a view in which the server
// has joined. From then on, the joined server's watermark holds that node back.
func (m *membership) requested(from geo.NodeID, req *JoinRequest) {
	s, own := &m.servers[from], &m.servers[m.r.self]
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

// apply takes an entry that was agreed on. One that was overtaken by another changes nothing.
func (m *membership) apply(data []byte) {
	e, err := readEntry(data, m.r.procs)
	if err != nil || !e.apply(m) {
		return
	}
	m.endSponsorship()
	m.r.caughtUp()
}

// endSponsorship lets this server's watermark rise again once the server that it sponsors has joined or cannot join any
// more.
func (m *membership) endSponsorship() {
	if p := m.sponsored; p != nil && !p.possible(&m.servers[p.server]) {
		m.sponsored, m.r.writes.capped = nil, false
	}
}

// find returns the server of an entry, nil if it is in another epoch by now.
func (m *membership) find(n geo.NodeID, epoch uint64) *server {
	if int(n) >= len(m.servers) || m.servers[n].epoch != epoch {
		return nil
	}
	return &m.servers[n]
}

// become changes the agreed status of a server, and with it the view: messages that follow from the change are sent in
// the new view.
func (m *membership) become(s *server, st status) {
	s.status = st
	m.view++
}

func (e *suspicion) apply(m *membership) bool {
	s := m.find(e.server, e.epoch)
	return s != nil && s.status == active && m.suspect(e.server)
}

// suspect closes the replicas to an active server, unless too many are inactive already.
func (m *membership) suspect(n geo.NodeID) bool {
	s := &m.servers[n]
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
	if e.piece == 0 {
		s.pieces, s.survivors = 0, nil
	}
	if e.piece != s.pieces {
		return false // the earlier pieces are lost, with their leader
	}
	s.pieces++
	survivors := append(s.survivors, e.survivors...)
	if s.survivors = survivors; e.more {
		return false
	}
	m.become(s, closed)
	m.r.env.Mark(serverClosed)
	s.epoch++
	s.pieces, s.survivors = 0, nil
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

// closedSelf handles a decision about this server, which no longer sponsors any server.
func (m *membership) closedSelf(survivors []Functor) {
	m.sponsored = nil
	m.r.writes.decided(survivors)
}

// possible reports whether the server can join still: it is closed, in the same epoch, and the same incarnation is in
// its place.
func (e *join) possible(s *server) bool {
	return s.status == closed && s.epoch == e.epoch && (e.incarnation == 0 && s.incarnation == s.marked || e.incarnation > s.marked && e.incarnation == s.incarnation)
}

func (e *join) apply(m *membership) bool {
	s, sponsor := m.find(e.server, e.epoch), m.find(e.sponsor, e.sponsorEpoch)
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
	m.recount()
	return true
}

// recount recomputes the positions that a majority and all replicas have reached, after a change of the replicas that
// count.
func (m *membership) recount() {
	for q := range m.r.group {
		m.r.writes.recount(q)
	}
}

// snapshot returns the agreed state, for a member that lacks entries which the other members have discarded. It does
// not contain the functors of these entries: see restore.
func (m *membership) snapshot() []byte {
	b := codec.AppendUvarint(nil, m.view)
	for n := range m.servers {
		s := &m.servers[n]
		b = codec.AppendUvarint(codec.AppendUvarint(append(b, byte(s.status)), s.epoch), uint64(s.joins))
		b = codec.AppendUint64(codec.AppendUvarint(b, s.pieces), uint64(s.last))
		b = codec.AppendUvarint(codec.AppendUvarint(b, uint64(s.incarnation)), uint64(s.marked))
	}
	for i := range m.copies {
		b = m.copies[i].append(b)
	}
	return b
}

// restore installs the agreed state from a snapshot. This server no longer serves clients, since it lacks functors. It
// continues to store and acknowledge functors of other servers, or they would keep them for it permanently. A new
// incarnation starts with a snapshot, and receives functors when it joins.
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
		s.last, s.incarnation, s.marked = readTimestamp(&r), readIncarnation(&r), readIncarnation(&r)
		s.reportedIn, s.proposedIn = 0, 0
		if s.epoch != was {
			// The server's functors that this node holds were decided on in the meantime.
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
		m.r.giveUp() // it has joined without knowing of it
	}
	m.endSponsorship()
	m.r.caughtUp()
	m.join()
}

// giveUp ends the service of a server that lacks discarded functors, and answers its clients.
func (r *Replica) giveUp() {
	r.behind = true
	r.functors.invisible, r.writes.waiting, r.replace.held = nil, nil, nil
	ids := make([]txn.ID, 0, len(r.unanswered))
	for id := range r.unanswered {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		o := txn.Outcome{ID: id, Status: txn.Refused, Cause: txn.CauseNode, Reason: ReasonBehind}
		if r.unanswered[id] {
			o.Status = txn.Unknown
		}
		r.reply(o)
	}
}
