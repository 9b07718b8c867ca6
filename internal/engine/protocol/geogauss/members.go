package geogauss

import (
	"slices"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// members tracks which servers are members, so that their write sets count. The servers agree on membership changes by
// Raft. View n is the membership after n changes.
//
// The change by which a silent server leaves contains the server's last epoch that counts. To determine this epoch, the
// leader asks a majority for the last epoch received. A server that answers counts no later epochs in this view. An
// epoch is merged only after a majority has declared it complete in a single view. The two majorities intersect, so
// every merged epoch counts. A change that was proposed in an earlier view has no effect.
//
// A server that recovers asks to join again. It counts after the epochs at whose end all counting members know that it
// has joined. So no server has merged a later epoch without it.
type members struct {
	r *Replica
	// silence is the time after which a server that delays an epoch leaves. It is longer than a live server takes to end
	// two epochs.
	silence time.Duration
	group   *consensus.Group
	view    uint64
	// changes are the changes that took effect, for snapshots. Each carries the epochs that are not merged here. laden is
	// set if there are such epochs.
	changes []*Change
	laden   bool
	// redeclare is set after a view has started, because earlier declarations of complete epochs no longer count.
	redeclare bool

	round round
	// proposed is the term and the view in which this leader has proposed a change.
	proposed struct{ term, view uint64 }

	watching bool // a timer is set
	// asked is the server that received the last request for missing epochs. missed and frontier are the awaited server
	// and the frontier at the last call of look.
	asked, missed geo.NodeID
	frontier      uint64

	requests, left, joined, terms int64
}

// tenure is an interval of membership: it starts in view from, and epoch last is its last epoch.
type tenure struct{ from, last uint64 }

// round is the leader's attempt to find out which epoch of a silent server is the last that counts.
type round struct {
	server  geo.NodeID // the silent server, or nobody
	reports []uint64
	have    []bool
}

// fetchAfter is the time, in addition to the longest round trip, after which a server requests a missing epoch from
// another server.
const fetchAfter = 10 * time.Millisecond

// maxCarried bounds the write sets that a change carries, in bytes, so that several changes fit into a snapshot in a
// single network frame.
const maxCarried = 16 << 20

// electionAfter returns the minimum silence of a leader before another leader is elected.
func electionAfter(p protocol.Params, rtt time.Duration) time.Duration {
	return p.Duration("heartbeat")*3/2 + 2*rtt
}

// silentAfter returns how long a server that delays an epoch must be silent before it leaves.
func silentAfter(p protocol.Params, rtt time.Duration) time.Duration {
	return electionAfter(p, rtt) + 2*p.Duration("epoch")
}

func (m *members) init(r *Replica, p protocol.Params, incarnation uint32) {
	election := electionAfter(p, r.longest)
	m.r, m.silence = r, silentAfter(p, r.longest)
	m.round.server, m.missed = nobody, nobody
	// Without acknowledgements, a single server may have merged an epoch, so the others could not agree on the last epoch
	// that counts.
	if r.epochs.acks == acksNone {
		return
	}
	all := make([]geo.NodeID, r.nodes)
	for n := range all {
		all[n] = geo.NodeID(n)
	}
	m.group = consensus.New(consensus.Config{
		Self: r.self, Incarnation: incarnation, Members: all, Preferred: 0, Env: r.env, TimerKind: groupTimer, Heartbeat: p.Duration("heartbeat"), Election: election,
		Apply: m.apply, Lead: m.lead, Snapshot: m.snapshot, Restore: m.restore,
	})
}

func (m *members) start() {
	if m.group != nil {
		m.group.Start()
	}
}

// leads reports whether this server is the leader, as far as it knows.
func (m *members) leads() bool { return m.group != nil && m.group.Leading() }

func (m *members) lead(geo.NodeID, uint64) {
	m.terms++
	// Reports to an earlier leader are not known here; this leader must ask again.
	m.round = round{server: nobody}
}

// counts reports whether a server's write sets count in the next epoch.
func (m *members) counts(n geo.NodeID) bool { return m.r.epochs.counts(n, m.r.epochs.frontier+1) }

// current reports whether a server is a member after all known changes.
func (m *members) current(n geo.NodeID) bool { return m.r.epochs.servers[n].current() }

// unsettled reports whether a membership change is outstanding.
func (m *members) unsettled() bool {
	return m.group != nil && (m.limiting() != nobody || !m.current(m.r.self) || m.r.replace.lacking || m.r.replace.unsettled() != nobody)
}

// limiting returns a server with a limit on the epochs that count, or nobody.
func (m *members) limiting() geo.NodeID {
	for n := range m.r.epochs.servers {
		if m.r.epochs.servers[n].limited {
			return geo.NodeID(n)
		}
	}
	return nobody
}

// watch sets the timer for look while epochs or membership changes are outstanding.
func (m *members) watch() {
	if !m.watching && m.r.nodes > 1 && (m.r.local.awake() || m.unsettled()) {
		m.watching = true
		m.r.env.After(m.r.longest+fetchAfter, protocol.Timer{Kind: watchTimer})
	}
}

// look requests an epoch that was already missing at the last call. It also starts, repeats or reports membership
// changes.
func (m *members) look() {
	m.watching = false
	e := &m.r.epochs
	if m.r.replace.lacking {
		m.r.replace.ask()
	} else if e.awaited != nobody && e.awaited == m.missed && e.frontier == m.frontier {
		m.requests++
		m.r.env.Mark(epochsMissed)
		m.r.env.Send(m.next(), &Request{e.awaited, e.has(e.awaited)})
	}
	m.missed, m.frontier = e.awaited, e.frontier
	if m.group == nil {
		return
	}
	if m.leads() {
		m.suspect()
		return
	}
	leader, known := m.group.Leader()
	if !known {
		return
	}
	// The leader that asked may have been lost, so the server reports its limit to the current leader.
	if n := m.limiting(); n != nobody {
		m.r.env.Mark(reportedAgain)
		m.r.env.Send(leader, &Report{m.view, n, e.servers[n].limit})
	}
	// A new incarnation asks to join only once it has a state from which it can end epochs.
	if !m.current(m.r.self) && !m.r.replace.lacking {
		m.r.env.Mark(rejoinAsked)
		m.r.env.Send(leader, &Rejoin{m.view})
	}
}

// next returns the server that this server asks next for the epochs of the awaited server. It skips the awaited server,
// which has already sent all its epochs, unless there is no other server. In two cases it includes the awaited server,
// because the sent epochs may not have arrived here:
//   - The epochs were sent to this server's predecessor. Write sets that were sent before an incarnation existed are
//     lost with the predecessor. If all other servers that had the epoch are lost, too, only the awaited server has it.
//   - A new incarnation of the awaited server sent the epochs, and this server refused them. They arrived before the
//     change that determines which of the predecessor's epochs count.
func (m *members) next() geo.NodeID {
	servers, n := m.r.epochs.servers, geo.NodeID(m.r.nodes)
	for range n {
		m.asked = (m.asked + 1) % n
		if m.asked == m.r.self {
			continue
		}
		if m.asked != m.r.epochs.awaited || servers[m.asked].settled > 0 || servers[m.r.self].incarnation > 0 {
			return m.asked
		}
	}
	return m.r.epochs.awaited
}

// suspect starts a round for a silent server that holds up an epoch, or for a server that a new incarnation has
// replaced. It also starts a round if an earlier leader's round is unfinished. The server of an unfinished round may be
// this server. If a round is running, suspect repeats its inquiry.
func (m *members) suspect() {
	e := &m.r.epochs
	if m.round.server != nobody {
		m.inquire()
		// The leader may have received the missing epochs since its last attempt to propose the departure.
		m.propose()
		return
	}
	n := m.limiting()
	if n == nobody {
		n = m.r.replace.unsettled()
	}
	// Silence counts from the later of two times: when the wait for the server started, and when the server's epochs last
	// advanced.
	if n == nobody && e.awaited != nobody && e.awaited != m.r.self && m.current(e.awaited) &&
		(m.r.env.Now()-max(e.since, e.servers[e.awaited].since) >= m.silence || m.r.env.Buggify(impatient)) {
		n = e.awaited
	}
	switch {
	case n != nobody && m.current(n):
		m.r.env.Mark(serverSuspected)
		m.begin(n)
	case n != nobody:
		m.change(func() *Change { return m.departure(n, 0) }) // n has left before, so its last epoch is known
	case !m.current(m.r.self) && !m.r.replace.lacking:
		m.r.env.Mark(leaderRejoins)
		m.rejoin(m.r.self, &Rejoin{m.view})
	}
}

// begin starts a round for server n.
func (m *members) begin(n geo.NodeID) {
	m.round = round{server: n, reports: make([]uint64, m.r.nodes), have: make([]bool, m.r.nodes)}
	m.inquire()
	// A leader without state does not know which epochs its predecessor declared complete, so it reports nothing itself.
	if !m.r.replace.lacking {
		m.report(m.r.self, m.limitTo(n))
	}
	m.propose()
}

func (m *members) inquire() {
	q := &Inquiry{m.view, m.round.server}
	m.r.others(func(n geo.NodeID) {
		if !m.round.have[n] {
			m.r.env.Send(n, q)
		}
	})
}

// limitTo stops counting a server's epochs in this view after the last epoch received so far, and returns that epoch.
func (m *members) limitTo(n geo.NodeID) uint64 {
	s := &m.r.epochs.servers[n]
	// The limit must stay the same for the whole view, because an earlier leader may have used it.
	if !s.limited {
		m.r.env.Mark(limited)
		s.limited, s.limit = true, s.ended
	}
	return s.limit
}

// inquired answers the leader's inquiry about a silent server.
func (m *members) inquired(from geo.NodeID, q *Inquiry) {
	if q.View != m.view || int(q.Server) >= m.r.nodes || m.group == nil {
		m.r.env.Mark(inquiryOfAnotherView)
		return // the leader repeats the inquiry once both servers are in the same view
	}
	if m.r.replace.lacking {
		m.r.env.Mark(inquiryWithoutState)
		return // this server does not know its predecessor's declarations
	}
	m.r.env.Send(from, &Report{m.view, q.Server, m.limitTo(q.Server)})
}

// reported handles a report for the running round, or for a round that an earlier leader has not finished.
func (m *members) reported(from geo.NodeID, p *Report) {
	// A report counts only in the view of its limit. The last epoch of a server that has left is already known.
	if p.View != m.view || int(p.Server) >= m.r.nodes || !m.leads() || !m.current(p.Server) {
		return
	}
	if m.round.server == nobody {
		m.r.env.Mark(roundInherited)
		m.begin(p.Server)
	}
	if p.Server == m.round.server {
		m.report(from, p.Last)
		m.propose()
	}
}

func (m *members) report(n geo.NodeID, last uint64) {
	m.round.have[n], m.round.reports[n] = true, last
}

// propose proposes that the silent server leaves, once a majority has reported and the leader has the epochs that
// count. A leader without state relies on the servers that have reported: a server that is missing the epochs requests
// them from these servers.
func (m *members) propose() {
	q, have, last, holder := &m.round, 0, uint64(0), m.r.self
	for n := range q.have {
		if !q.have[n] {
			continue
		}
		// The largest report is the last epoch that any member of the majority may have counted.
		if have++; q.reports[n] > last {
			last, holder = q.reports[n], geo.NodeID(n)
		}
	}
	// A majority intersects the majority that has declared an epoch complete.
	if have <= m.r.nodes/2 {
		return
	}
	if has := m.r.epochs.has(q.server); has < last && !m.r.replace.lacking {
		m.r.env.Mark(leaderLacksEpochs)
		m.r.env.Send(holder, &Request{q.server, has})
		return
	}
	m.change(func() *Change { return m.departure(q.server, last) })
}

// change proposes a change, once in a view. Only the first change of a view takes effect, and the leader's log keeps it
// until the next term. A departure may carry megabytes: without this rule every further report would send them again.
func (m *members) change(of func() *Change) {
	now := m.proposed
	now.term, now.view = m.group.Term(), m.view
	if m.proposed != now && m.group.Propose(of().append()) {
		m.proposed = now
	}
}

// departure returns the change by which a server leaves, with the server's epochs that are not merged here. The change
// includes the incarnation that has replaced the server, if there is one.
func (m *members) departure(n geo.NodeID, last uint64) *Change {
	c := &Change{View: m.view, Server: n, Last: last}
	if s := &m.r.epochs.servers[n]; s.incarnation > s.settled {
		c.Incarnation = s.incarnation
	}
	// Before the state arrives, the log may lack earlier epochs of the server, so the change carries none.
	if m.r.replace.lacking {
		return c
	}
	carried := 0
	for _, epoch := range m.r.epochs.servers[n].log {
		if epoch.Epoch <= m.r.epochs.base || epoch.Epoch > last {
			continue
		}
		if carried += epoch.Size(); carried > protocol.Shrunk(m.r.shrink, maxCarried) {
			break // servers request the remaining epochs
		}
		c.Epochs = append(c.Epochs, epoch)
	}
	return c
}

// rejoin handles a server's request to become a member again.
func (m *members) rejoin(from geo.NodeID, q *Rejoin) {
	// The request is repeated until it is granted, so it may arrive after the server has joined.
	if m.leads() && q.View == m.view && !m.current(from) {
		m.change(func() *Change { return &Change{View: m.view, Server: from, Joins: true} })
	}
}

// apply applies a change from the Raft log.
func (m *members) apply(entry []byte) {
	r := codec.NewReader(entry)
	c := readChange(&r)
	// Only the first change of a view takes effect. Later proposals of the view rest on outdated reports.
	if r.Done() != nil || c.View != m.view || int(c.Server) >= m.r.nodes {
		return
	}
	m.view++
	m.redeclare = true
	// Reports of the previous view rest on limits that are lifted below.
	m.round = round{server: nobody}
	e := &m.r.epochs
	s := &e.servers[c.Server]
	if c.Joins {
		m.joined++
		m.r.env.Mark(joined)
		s.tenures = append(s.tenures, tenure{m.view, forever})
	} else {
		// A server that had left before keeps its last epoch; the change only names its new incarnation.
		if s.current() {
			m.left++
			m.r.env.Mark(left)
			last := c.Last
			if m.r.wrong == ownLast && s.limited {
				last = s.limit
			}
			s.tenures[len(s.tenures)-1].last = last
		}
		if c.Incarnation > s.settled {
			m.r.replace.settle(c.Server, c.Incarnation)
		}
		// put must follow settle, which discards epochs of the lost incarnation and sets the boundary that put checks.
		for _, epoch := range c.Epochs {
			e.put(epoch)
		}
	}
	m.changes, m.laden = append(m.changes, c), true
	m.forget()
	for n := range e.servers {
		// Limits apply to a single view.
		e.servers[n].limited = false
	}
	e.rewind()
}

// forget removes epochs from changes once they are merged here. A server that has not merged these epochs has them
// already, or requests them.
func (m *members) forget() {
	if !m.laden {
		return
	}
	m.laden = false
	for _, c := range m.changes {
		c.Epochs = slices.DeleteFunc(c.Epochs, func(epoch *Closed) bool { return epoch.Epoch <= m.r.epochs.base })
		m.laden = m.laden || len(c.Epochs) > 0
	}
}

// snapshot encodes all changes that took effect.
func (m *members) snapshot() []byte {
	b := codec.AppendUvarint(nil, uint64(len(m.changes)))
	for _, c := range m.changes {
		b = codec.AppendBytes(b, c.append())
	}
	return b
}

// restore applies the changes of a snapshot that this server does not have.
func (m *members) restore(data []byte) {
	r := codec.NewReader(data)
	for range r.Count(1) {
		// apply ignores the changes that this server has applied before, since their views are in the past.
		m.apply(r.Bytes())
	}
}
