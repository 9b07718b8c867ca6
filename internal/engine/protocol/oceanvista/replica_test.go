package oceanvista

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
	"github.com/geobench/geobench/internal/engine/sim"
	"github.com/geobench/geobench/internal/net/wire"
)

// client submits transactions one at a time.
type client struct {
	env     protocol.ClientEnv
	answers []txn.Outcome
}

func (c *client) Start()                    {}
func (c *client) Fire(protocol.Timer)       {}
func (c *client) Complete(o txn.Outcome)    { c.answers = append(c.answers, o) }
func (c *client) submit(n uint64, o string) { c.env.Submit(simload.Txn(txn.MakeID(9, n), o)) }

// newSim returns a database with four rows of 10, and a client in each region.
func newSim(t *testing.T, topology *geo.Topology, e *protocol.Engine, given map[string]string) (*sim.Sim, []*client) {
	t.Helper()
	s := sim.New(sim.Config{
		Topology: topology, Engine: e, Figures: protocoltest.Figures(t), Procedures: simload.Procedures, Params: protocoltest.Params(t, e, given), Seed: 1, CheckCodec: true,
	})
	simload.FillLayout(topology.Full(), 4, 10, s.Store)
	var clients []*client
	for region := range topology.Regions {
		c := &client{}
		s.AddClient(geo.Region(region), func(env protocol.ClientEnv) protocol.Client {
			c.env = env
			return c
		})
		clients = append(clients, c)
	}
	return s, clients
}

func value(s *sim.Sim, n geo.NodeID, row uint64) int64 {
	r, _ := s.Store(n).Get(simload.Key(row))
	return simload.Value(r)
}

// A server receives the promises of the other servers, but they do not receive its functor, and then the server is
// lost. No client may have received a commit of the functor, because a functor must be stable before it is visible.
func TestStableBeforeVisible(t *testing.T) {
	forgotten := func(e *protocol.Engine) bool {
		s, clients := newSim(t, simload.ThreeRegions(1), e, nil)
		s.At(time.Second, func() {
			s.CutNodes(0, 1, true)
			s.CutNodes(0, 2, true)
			clients[0].submit(1, "a1+5")
		})
		s.At(1500*time.Millisecond, func() { s.Crash(0) })
		s.At(2*time.Second, func() { clients[1].submit(2, "r1") })
		s.Run(20 * time.Second)
		if len(clients[1].answers) != 1 || clients[1].answers[0].Status != txn.Committed {
			t.Fatalf("%s: the others answer %v", e.Name, clients[1].answers)
		}
		committed := len(clients[0].answers) == 1 && clients[0].answers[0].Status == txn.Committed
		return committed && string(clients[1].answers[0].Result) != "1=15"
	}
	if forgotten(Engine) {
		t.Error("a committed transaction is forgotten")
	}
	if !forgotten(VisibleBeforeStable) {
		t.Error("the test does not notice that functors are visible before they are stable")
	}
}

// A server that is absent for so long that the other servers cannot keep all functors for it is abandoned. It refuses
// clients, and the other servers continue without it.
func TestAbandoned(t *testing.T) {
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		r := newReplica(c, none)
		r.membership.keepBytes = 1000
		return r
	}
	s, clients := newSim(t, simload.ThreeRegions(1), &e, map[string]string{"failureTimeout": "500ms"})
	s.At(time.Second, func() {
		s.Cut(0, 2)
		s.Cut(1, 2)
	})
	s.At(2*time.Second, func() { clients[2].submit(1, "a2+1") })
	for i := range uint64(200) {
		s.At(3*time.Second+time.Duration(i)*50*time.Millisecond, func() { clients[0].submit(100+i, "a1+1") })
	}
	s.At(20*time.Second, func() {
		s.Heal(0, 2)
		s.Heal(1, 2)
	})
	s.At(25*time.Second, func() { clients[2].submit(2, "r1") })
	s.At(26*time.Second, func() { clients[1].submit(3, "a1+1") })
	s.Run(30 * time.Second)
	if a := clients[2].answers; len(a) != 2 || a[0].Status != txn.Refused || a[1].Status != txn.Refused || a[1].Reason != ReasonBehind {
		t.Errorf("the server that was given up answers %+v", a)
	}
	if len(clients[0].answers) != 200 || len(clients[1].answers) != 1 {
		t.Errorf("the others answer %d and %d transactions", len(clients[0].answers), len(clients[1].answers))
	}
	for n := range geo.NodeID(2) {
		if got := value(s, n, 1); got != 211 {
			t.Errorf("row 1 is %d at node %d, want 211", got, n)
		}
	}
	kept := protocoltest.Counter(s, simload.ThreeRegions(1), "functors_kept")
	if kept > 250 { // the functors of the abandoned server are not discarded
		t.Errorf("%d functors are kept", kept)
	}
}

// A group member that lacks discarded log entries answers all its clients.
func TestRestored(t *testing.T) {
	w := &world{}
	topology, rows := simload.ThreeRegions(1), store.NewHash()
	simload.Fill(topology, 4, 10, func(geo.NodeID) store.Store { return rows })
	r := newReplica(protocol.Config{
		Self: 1, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: w,
	}, none)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+5"))
	r.membership.servers[1].status = closed
	r.Submit(simload.Txn(txn.MakeID(1, 2), "a1+5"))
	r.membership.restore(r.membership.snapshot())
	r.Submit(simload.Txn(txn.MakeID(1, 3), "a1+5"))
	var got []txn.Status
	for _, o := range w.answers {
		got = append(got, o.Status)
	}
	r.Receive(0, &Write{Functor: Functor{makeTimestamp(1, 0), simload.Txn(txn.MakeID(2, 1), "a1+5")}})
	r.Receive(0, &Gossip{Watermark: makeTimestamp(1e9, maxNode), Number: 1})
	r.Receive(2, &Gossip{Watermark: makeTimestamp(1e9, maxNode), Number: 1})
	if r.executor.Executed > 0 {
		t.Error("it evaluates functors although it lacks some")
	}
	if want := []txn.Status{txn.Unknown, txn.Refused, txn.Refused}; fmt.Sprint(got) != fmt.Sprint(want) || r.Pending() != 1 {
		t.Errorf("answers %v, want %v; %d pending, want 1", got, want, r.Pending())
	}
}

// A snapshot restores every field of the agreed state.
func TestMembersRestored(t *testing.T) {
	topology := simload.Topology(2, 1, [][]float64{{0, 9, 9}, {9, 0, 9}, {9, 9, 0}})
	newNode := func(n geo.NodeID) *Replica {
		return newReplica(protocol.Config{
			Self: n, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: store.NewHash(), Env: &world{},
		}, none)
	}
	from := newNode(0)
	m := &from.membership
	m.view = 7
	for n := range m.servers {
		s := &m.servers[n]
		s.status, s.epoch, s.joins, s.pieces = closed, uint64(10+n), 20+n, uint64(30+n)
		s.last, s.incarnation, s.marked, s.incomplete = makeTimestamp(uint64(40+n), 1), uint32(50+n), uint32(60+n), n == 2
	}
	for i := range m.copies {
		m.copies[i].id, m.copies[i].above, m.copies[i].donor = uint64(70+i), makeTimestamp(uint64(80+i), 2), i
		m.copies[i].lacking = []bool{i > 0, true}
	}
	to := newNode(1)
	to.membership.restore(m.snapshot())
	if to.membership.view != 7 {
		t.Errorf("view %d, want 7", to.membership.view)
	}
	for n := range m.servers {
		was, is := m.servers[n], to.membership.servers[n]
		was.reports, is.reports = nil, nil
		if !reflect.DeepEqual(was, is) {
			t.Errorf("server %d was %+v, and is %+v", n, was, is)
		}
	}
	if !reflect.DeepEqual(m.copies, to.membership.copies) {
		t.Errorf("copies were %+v, and are %+v", m.copies, to.membership.copies)
	}
}

// A member that is restored from a snapshot of the group stores functors that other servers write in the snapshot's
// view. It acknowledges them, so that the other servers do not keep them permanently. It discards functors that were
// decided on in the meantime, and does not ask to join.
func TestRestoredStores(t *testing.T) {
	topology := simload.ThreeRegions(1)
	newNode := func(n geo.NodeID, w *world) *Replica {
		rows := store.NewHash()
		simload.Fill(topology, 4, 10, func(geo.NodeID) store.Store { return rows })
		return newReplica(protocol.Config{
			Self: n, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: w,
		}, none)
	}
	leader := newNode(0, &world{})
	for _, e := range []entry{
		&suspicion{server: 2}, &decision{server: 2}, &join{server: 2, epoch: 0, sponsor: 0}, // outdated, because the server is in epoch 1
		&join{server: 2, epoch: 1, sponsor: 0}, &suspicion{server: 1}, &decision{server: 1},
	} {
		leader.membership.apply(e.append(nil))
	}
	w := &world{}
	r := newNode(1, w)
	write := func(from geo.NodeID, view, epoch, us uint64) {
		r.Receive(from, &Write{View: view, Epoch: epoch, Functor: Functor{makeTimestamp(us, from), simload.Txn(txn.MakeID(uint32(from), us), "a1+5")}})
	}
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+5"))
	write(2, 0, 0, 1)
	view := leader.membership.view
	write(0, view, 0, 2) // buffered, because its view is later
	r.membership.restore(leader.membership.snapshot())
	write(2, view, 1, 3)
	r.Receive(0, &Gossip{View: view, Number: 1, Replicated: makeTimestamp(2, 0)})
	r.membership.tick()
	if r.membership.view != view || len(r.watermarks.peers[0].held) > 0 {
		t.Errorf("it is in view %d, want %d, and holds %d messages", r.membership.view, view, len(r.watermarks.peers[0].held))
	}
	var stored []Timestamp
	for _, m := range w.sent {
		switch m := m.(type) {
		case *Stored:
			stored = append(stored, m.Timestamp)
		case *JoinRequest:
			t.Error("it asks to join although it lacks functors")
		}
	}
	if want := []Timestamp{makeTimestamp(1, 2), makeTimestamp(2, 0), makeTimestamp(3, 2)}; !slices.Equal(stored, want) {
		t.Errorf("it says that it has stored %v, want %v", stored, want)
	}
	if r.functors.kept != 1 || r.functors.recent[2].Front().Timestamp != makeTimestamp(3, 2) || r.writes.unreplicated.Len() != 0 {
		t.Errorf("it keeps %d functors, want the last one of server 2 only; %d of its own are open", r.functors.kept, r.writes.unreplicated.Len())
	}
}

// A server receives messages of another server, but not of the group's leader, which abandons the server. The server
// buffers only a bounded number of messages of views later than its own.
func TestHeldIsBounded(t *testing.T) {
	replicas := map[geo.NodeID]*Replica{}
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		r := newReplica(c, none)
		r.membership.keepBytes = 1000
		replicas[c.Self] = r
		return r
	}
	s, clients := newSim(t, simload.ThreeRegions(1), &e, map[string]string{"failureTimeout": "500ms"})
	s.At(time.Second, func() { s.Cut(0, 2) })
	const written = 300
	for i := range uint64(written) {
		s.At(3*time.Second+time.Duration(i)*100*time.Millisecond, func() { clients[1].submit(100+i, "a1+1") })
	}
	early := 0
	s.At(25*time.Second, func() { early = len(replicas[2].watermarks.peers[1].held) })
	s.Run(40 * time.Second)
	if st := replicas[0].membership.servers[2].status; st != abandoned {
		t.Fatalf("the server that the leader does not hear has status %d, want %d", st, abandoned)
	}
	if len(clients[1].answers) != written {
		t.Errorf("%d of %d transactions are answered", len(clients[1].answers), written)
	}
	if held := len(replicas[2].watermarks.peers[1].held); held == 0 || held != early || held > written {
		t.Errorf("%d messages are held, after %d, want some, as many, and no more than %d", held, early, written)
	}
}

// The size that a replica counts for its kept functors is their size in a report. A piece of a report or a decision
// fits into a frame, however many unfinished functors a server has. Half of the frame remains for a functor that
// exceeds the limit of a piece.
func TestPiecesFitFrame(t *testing.T) {
	topology, rows := simload.ThreeRegions(2), store.NewHash()
	simload.Fill(topology, 4, 10, func(geo.NodeID) store.Store { return rows })
	r := newReplica(protocol.Config{
		Self: 0, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: &world{},
	}, none)
	var kept []Functor
	for us := range uint64(100) {
		f := Functor{makeTimestamp(us+1, 1), simload.Txn(txn.MakeID(1, us), "a1+5")}
		r.functors.enter(f)
		kept = append(kept, f)
	}
	if got, want := r.functors.keptBytes, int64(sizeFunctors(kept)-1); got != want {
		t.Errorf("it counts %d bytes, and they have %d in a report", got, want)
	}
	if 2*r.membership.pieceBytes > wire.MaxFrame {
		t.Errorf("a piece may have %d bytes, twice which a frame of %d does not hold", r.membership.pieceBytes, wire.MaxFrame)
	}
}

// A server is lost with many unfinished functors. The reports and the decision about it are sent in pieces. All
// functors that may survive do survive, even if the leader is lost when the first piece of a report has arrived.
func TestPieces(t *testing.T) {
	const bound, written = 60, 60
	for name, leaderLost := range map[string]bool{"the leader stays": false, "the leader is lost": true} {
		t.Run(name, func(t *testing.T) {
			topology := simload.Topology(2, 1, [][]float64{
				{0, 20, 20, 20, 20}, {20, 0, 20, 20, 20}, {20, 20, 0, 20, 20}, {20, 20, 20, 0, 20}, {20, 20, 20, 20, 0},
			})
			largest, pieces := 0, 0
			var simulator *sim.Sim
			replicas := map[geo.NodeID]*Replica{}
			e := *Engine
			e.New = func(c protocol.Config) protocol.Replica {
				r := newReplica(c, none)
				r.membership.pieceBytes = bound
				replicas[c.Self] = r
				return &spying{r, func(m protocol.Message) {
					if rep, is := m.(*Report); is {
						if pieces == 0 && leaderLost {
							simulator.At(simulator.Now(), func() { simulator.Crash(0); simulator.Crash(1) })
						}
						largest, pieces = max(largest, rep.Size()), pieces+1
					}
				}}
			}
			s, clients := newSim(t, topology, &e, map[string]string{"failureTimeout": "500ms"})
			simulator = s
			s.At(time.Second, func() {
				for i := range uint64(written) {
					clients[4].submit(i, "a1+5 a2+5")
				}
			})
			// The server's functors have arrived, but no acknowledgement has returned.
			s.At(1025*time.Millisecond, func() { s.Crash(8); s.Crash(9) })
			s.Run(30 * time.Second)
			if pieces < 20 || largest > bound+50 {
				t.Errorf("%d messages bring reports, the largest has %d bytes; want many, of %d and some", pieces, largest, bound)
			}
			if entries := replicas[2].membership.group.Last(); entries < 20 {
				t.Errorf("the log has %d entries, so the decision is in few pieces", entries)
			}
			for n := geo.NodeID(2); n < 8; n++ {
				row := uint64(1)
				if _, here := s.Store(n).Get(simload.Key(row)); !here {
					row = 2
				}
				if got := value(s, n, row); got != 10+5*written {
					t.Errorf("row %d is %d at node %d, want %d", row, got, n, 10+5*written)
				}
			}
			if got := replicas[2].membership.survived; got != written {
				t.Errorf("%d functors have survived, want %d", got, written)
			}
		})
	}
}

// spying is a replica that reports the messages that it receives.
type spying struct {
	*Replica
	see func(protocol.Message)
}

func (s *spying) Receive(from geo.NodeID, m protocol.Message) {
	s.see(m)
	s.Replica.Receive(from, m)
}

// The pieces of a decision count in their order, for the last leader that has started a decision. A member that is
// restored in between closes the server together with the other members.
func TestPiecesOfTwoLeaders(t *testing.T) {
	topology := simload.ThreeRegions(1)
	newNode := func(n geo.NodeID) *Replica {
		rows := store.NewHash()
		simload.Fill(topology, 4, 10, func(geo.NodeID) store.Store { return rows })
		return newReplica(protocol.Config{
			Self: n, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: &world{},
		}, none)
	}
	functor := func(us uint64) Functor {
		return Functor{makeTimestamp(us, 2), simload.Txn(txn.MakeID(2, us), "a1+5")}
	}
	whole, restored := newNode(0), newNode(1)
	for i, e := range []entry{
		&suspicion{server: 2},
		&decision{server: 2, more: true, survivors: []Functor{functor(1)}},           // decision of an earlier leader
		&decision{server: 2, more: true, survivors: []Functor{functor(2)}},           // the next leader's decision
		&decision{server: 2, piece: 2, survivors: []Functor{functor(9)}},             // out of order
		&decision{server: 2, piece: 1, more: true, survivors: []Functor{functor(3)}}, // restored here
		&decision{server: 2, piece: 2, survivors: []Functor{functor(4)}},
	} {
		if whole.membership.apply(e.append(nil)); i == 4 {
			restored.membership.restore(whole.membership.snapshot())
		} else if i > 4 {
			restored.membership.apply(e.append(nil))
		}
		if got, want := whole.membership.servers[2].status, map[bool]status{true: closed, false: suspected}[i == 5]; got != want {
			t.Fatalf("after entry %d the server has status %d, want %d", i, got, want)
		}
	}
	if got := whole.membership.survived; got != 3 {
		t.Errorf("%d functors have survived, want 3", got)
	}
	a, b := &whole.membership, &restored.membership
	if a.view != b.view || b.servers[2].status != closed || b.servers[2].epoch != a.servers[2].epoch {
		t.Errorf("the restored member is in view %d with %+v, want %d with %+v", b.view, b.servers[2], a.view, a.servers[2])
	}
}

// world is an environment that records replies and messages.
type world struct {
	now     time.Duration
	answers []txn.Outcome
	sent    []protocol.Message
}

func (w *world) Now() time.Duration                    { return w.now }
func (w *world) Send(_ geo.NodeID, m protocol.Message) { w.sent = append(w.sent, m) }
func (w *world) After(time.Duration, protocol.Timer)   {}
func (w *world) Offload(func() int64, protocol.Timer)  {}
func (w *world) Reply(o txn.Outcome)                   { w.answers = append(w.answers, o) }
func (*world) Mark(*coverage.Mark)                     {}
func (*world) Buggify(*buggify.Point) bool             { return false }
func (w *world) Rand() *rand.Rand                      { return rand.New(rand.NewPCG(1, 1)) }

// second returns the second of three servers. Each server is in its own region.
func second(t *testing.T, w *world) *Replica {
	return newReplica(protocol.Config{
		Self: 1, Topology: simload.ThreeRegions(1), Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: store.NewHash(), Env: w,
	}, none)
}

// Timestamps rise regardless of the clock. They stay above the timestamps that the server has promised, and above the
// watermarks that it knows.
func TestTimestampsRise(t *testing.T) {
	w := &world{now: time.Second}
	r := second(t, w)
	var last Timestamp
	issue := func(n uint64) {
		t.Helper()
		promised := r.writes.watermark()
		r.Submit(simload.Txn(txn.MakeID(1, n), "a1+5"))
		if got := r.writes.last; got <= last || got <= promised || got.Server() != 1 {
			t.Errorf("timestamp %v after %v, promised %v", got, last, promised)
		}
		last = r.writes.last
	}
	issue(1)
	first := last
	issue(2) // in the same microsecond
	w.now -= 500 * time.Millisecond
	issue(3)
	heard := makeTimestamp(9_000_000, maxNode)
	r.Receive(0, &Gossip{Watermark: heard, Number: 1})
	issue(4)
	if last <= heard {
		t.Errorf("timestamp %v is not above a watermark that the server has heard of, %v", last, heard)
	}
	if promise := r.writes.watermark(); promise >= first {
		t.Errorf("the watermark is %v although the first functor is not stable", promise)
	}
	r.writes.stored(0, last)
	if promise := r.writes.watermark(); promise < heard || promise < last {
		t.Errorf("the watermark is %v once all is stable", promise)
	}
}

// A server that rejoins issues waiting transactions above all timestamps that may be visible by then, regardless of its
// clock.
func TestJoinsAboveWhatIsVisible(t *testing.T) {
	w := &world{now: time.Second}
	r := second(t, w)
	r.membership.servers[1].status = closed
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+5"))
	if r.writes.last > 0 {
		t.Fatalf("a server that is closed issues %v", r.writes.last)
	}
	above := makeTimestamp(9_000_000, maxNode)
	if e := (&join{server: 1, sponsor: 0, above: above}); !e.apply(&r.membership) {
		t.Fatal("the server does not join")
	}
	if r.writes.last <= above {
		t.Errorf("a server that joins above %v issues %v", above, r.writes.last)
	}
	if promise := r.writes.watermark(); promise < above {
		t.Errorf("its watermark is %v", promise)
	}
}

// The watermark of a sponsor does not move until the sponsored server has joined. The sponsored server may issue all
// timestamps above that watermark.
func TestSponsorsWatermarkStays(t *testing.T) {
	w := &world{now: time.Second}
	r := second(t, w)
	r.membership.servers[2].status = closed
	before := r.writes.watermark()
	w.now += time.Second
	if risen := r.writes.watermark(); risen <= before {
		t.Fatalf("the watermark does not rise with the clock: %v and %v", before, risen)
	}
	capped := r.writes.promised
	r.membership.requested(2, &JoinRequest{})
	w.now += time.Second
	if got := r.writes.watermark(); got != capped || r.membership.sponsored.above != capped {
		t.Errorf("the watermark is %v while the server sponsors another one, want %v, and that one joins above %v", got, capped, r.membership.sponsored.above)
	}
	r.membership.apply((&join{server: 2, sponsor: 1, above: capped}).append(nil))
	if got := r.writes.watermark(); !r.membership.active(2) || got <= capped {
		t.Errorf("the watermark is %v once the other has joined", got)
	}
}

// Servers are suspected only as long as a majority stays active, regardless of the proposer. Active servers must
// remain, so that they can let suspected servers rejoin.
func TestSuspicionsLeaveAMajority(t *testing.T) {
	r := second(t, &world{})
	if e := (&suspicion{server: 0}); !e.apply(&r.membership) || r.membership.active(0) {
		t.Error("the first server is not suspected")
	}
	for range 2 {
		if e := (&suspicion{server: 2}); e.apply(&r.membership) || !r.membership.active(2) {
			t.Error("the second of three servers is suspected, too")
		}
	}
}
