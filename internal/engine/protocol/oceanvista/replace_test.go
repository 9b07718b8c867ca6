package oceanvista

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/statetransfer"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// post is an environment that records the receivers of messages, too.
type post struct {
	world
	to []geo.NodeID
}

func (p *post) Send(to geo.NodeID, m protocol.Message) {
	p.world.Send(to, m)
	p.to = append(p.to, to)
}

// take returns the messages that were sent to a node after the last call, as text and without gossip.
func (p *post) take(to geo.NodeID) string {
	var all []string
	for i, m := range p.sent {
		if _, gossip := m.(*Gossip); p.to[i] == to && !gossip {
			all = append(all, fmt.Sprint(m))
		}
	}
	p.sent, p.to = nil, nil
	return strings.Join(all, "; ")
}

// node returns a node of a database with three regions and the given number of partitions. If it is a first
// incarnation, it has four rows of 10.
func node(t *testing.T, self geo.NodeID, incarnation uint32, partitions int, given map[string]string) (*Replica, *post) {
	t.Helper()
	topology, rows, w := simload.ThreeRegions(partitions), store.NewHash(), &post{world: world{now: time.Second}}
	if incarnation == 0 {
		simload.Fill(topology, 4, 10, func(n geo.NodeID) store.Store {
			if n == self {
				return rows
			}
			return store.NewHash()
		})
	}
	return newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: topology, Params: protocoltest.Params(t, Engine, given), Procedures: simload.Procedures, Store: rows, Env: w,
	}, none), w
}

// at returns a timestamp at one second plus the given number of milliseconds.
func at(ms uint64, server geo.NodeID) Timestamp {
	return makeTimestamp(1_000_000+1000*ms, server)
}

func functorOf(f Timestamp, ops string) Functor {
	return Functor{f, simload.Txn(txn.MakeID(uint32(f.Server()), f.micros()), ops)}
}

// applies makes a replica apply entries of the group's log.
func (r *Replica) applies(entries ...entry) {
	for _, e := range entries {
		r.membership.apply(e.append(nil))
	}
	r.finishStep()
}

// closes returns the entries that close a lost server in its first epoch. joins returns the entry with which the
// server's new incarnation joins.
func closes(n geo.NodeID, survivors ...Functor) []entry {
	return []entry{&loss{n, 1}, &decision{server: n, survivors: survivors}}
}

func joins(n, sponsor geo.NodeID, above Timestamp) entry {
	return &join{server: n, epoch: 1, sponsor: sponsor, above: above, incarnation: 1}
}

// takes delivers functors to a replica, as sent by their servers in the replica's current view.
func (r *Replica) takes(functors ...Functor) {
	for _, f := range functors {
		r.Receive(f.Server(), &Write{View: r.membership.view, Epoch: r.membership.servers[f.Server()].epoch, Functor: f})
	}
}

// hears delivers a server's watermark to a replica, as sent in the replica's current view.
func (r *Replica) hears(n geo.NodeID, up Timestamp) {
	r.Receive(n, &Gossip{View: r.membership.view, Epoch: r.membership.servers[n].epoch, Watermark: up})
}

func (r *Replica) row(n uint64) int64 {
	rec, _ := r.replace.rows.Get(simload.Key(n))
	return simload.Value(rec)
}

// Before it has joined, a new incarnation sends nothing as a server, and reports nothing as a replica. Its view is
// still the initial one, in which all servers are active. It issues waiting transactions above its mark and above
// everything that was decided about its predecessor.
func TestUnmarked(t *testing.T) {
	r, w := node(t, 1, 1, 1, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 9), "a1+5"))
	if r.writes.last != 0 || r.writes.watermark() != 0 || r.FullyReplicated() || r.Pending() == 0 {
		t.Errorf("it issues %v and promises %v", r.writes.last, r.writes.promised)
	}
	r.takes(functorOf(at(5, 0), "a1+1"))
	r.hears(2, at(900, maxNode))
	if got := w.take(0); got != "" || r.watermarks.highest != 0 {
		t.Errorf("it answers %q as if it had what its predecessor had, and has heard of %v", got, r.watermarks.highest)
	}
	if r.replace.complete(0) || r.replace.complete(1) {
		t.Error("it reports on servers as if it had what its predecessor had")
	}
}

func TestTimestampsOfANewIncarnation(t *testing.T) {
	r, _ := node(t, 1, 1, 1, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 9), "a1+5"))
	survivor := functorOf(at(700, 1), "a1+1")
	r.applies(closes(1, survivor)...)
	if r.writes.last != 0 {
		t.Fatalf("it issues %v before it has joined", r.writes.last)
	}
	r.applies(joins(1, 0, at(300, maxNode)))
	if r.writes.last <= survivor.Timestamp || r.writes.issued != 1 {
		t.Errorf("it issues %v, and its predecessor has issued %v", r.writes.last, survivor.Timestamp)
	}
	if got := r.writes.watermark(); got < at(300, maxNode) {
		t.Errorf("it promises %v", got)
	}
}

// A loss closes the server immediately. A join of the predecessor does not apply to the new incarnation, which has none
// of its predecessor's state.
func TestLoss(t *testing.T) {
	r, _ := node(t, 0, 0, 1, nil)
	s := &r.membership.servers[1]
	r.applies(&loss{1, 1})
	if s.status != suspected || r.membership.counted(1) {
		t.Fatalf("a lost server has status %d, and counts: %v", s.status, r.membership.counted(1))
	}
	r.applies(&loss{2, 1})
	if r.membership.servers[2].status != active || r.membership.servers[2].incarnation != 0 {
		t.Error("more than a minority is inactive")
	}
	r.applies(&decision{server: 1}, &join{server: 1, epoch: 1, sponsor: 0, above: at(1, maxNode)})
	if s.status != closed {
		t.Fatalf("the predecessor's join is taken for the new incarnation's: status %d", s.status)
	}
	r.applies(&abandonment{1, 1})
	if s.status != closed {
		t.Error("a new incarnation is given up before it has joined")
	}
	r.applies(&join{server: 1, epoch: 1, sponsor: 0, above: at(1, maxNode), incarnation: 2})
	if s.status != closed {
		t.Error("an incarnation joins of which nobody was told")
	}
	r.applies(joins(1, 0, at(1, maxNode)), joins(1, 0, at(2, maxNode)))
	if s.status != active || s.marked != 1 || r.membership.copies[1].above != at(1, maxNode) {
		t.Errorf("the new incarnation has status %d, mark %v", s.status, r.membership.copies[1])
	}
	s.status = abandoned
	if r.applies(&loss{1, 2}); s.status != closed || s.incarnation != 2 {
		t.Errorf("one that was given up and is lost then has status %d", s.status)
	}
}

// A sponsor proposes a join only for the incarnation that it knows. It cancels the join of a predecessor when it learns
// of the loss.
func TestSponsorOfANewIncarnation(t *testing.T) {
	for name, tc := range map[string]struct {
		told, agreed uint32
		want         uint32
		sponsors     bool
	}{
		"nobody was lost":     {0, 0, 0, true},
		"a new incarnation":   {1, 1, 1, true},
		"not told of it yet":  {0, 1, 0, false},
		"not agreed on yet":   {1, 0, 0, false},
		"another one by then": {2, 1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := node(t, 0, 0, 1, nil)
			r.applies(&suspicion{1, 0}, &decision{server: 1})
			r.membership.servers[1].incarnation, r.replace.known[1] = tc.agreed, tc.told
			r.membership.requested(1, &JoinRequest{1})
			if p := r.membership.sponsored; (p != nil) != tc.sponsors || p != nil && p.incarnation != tc.want {
				t.Errorf("it sponsors %+v", p)
			}
		})
	}
	r, _ := node(t, 0, 0, 1, nil)
	r.applies(&suspicion{1, 0}, &decision{server: 1})
	r.membership.requested(1, &JoinRequest{1})
	if r.applies(&loss{1, 1}); r.membership.sponsored != nil || r.writes.capped {
		t.Error("it waits for ever for a join that is not possible any more")
	}
}

// From the mark on, all nodes use the mark as the new incarnation's only promise, regardless of its predecessor's
// promises. They assume that the new incarnation has stored nothing. The new incarnation receives all functors for
// which its predecessor may have been counted as a replica. A server sends its functors as soon as it knows both the
// new incarnation and the mark.
func TestMark(t *testing.T) {
	for name, toldFirst := range map[string]bool{"told first": true, "marked first": false} {
		t.Run(name, func(t *testing.T) {
			r, w := node(t, 0, 0, 1, nil)
			r.hears(1, at(5000, maxNode))
			r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+5"))
			issued := r.writes.last
			r.Receive(1, &Stored{issued})
			if r.writes.unstable.Len() != 0 || r.writes.unreplicated.Len() != 1 {
				t.Fatal("two of three are no majority")
			}
			if toldFirst {
				r.Replaced(1, 1)
			}
			r.applies(closes(1)...)
			above := at(300, maxNode)
			w.take(1)
			r.applies(joins(1, 2, above))
			if got := r.watermarks.peers[1].watermark; got != above {
				t.Errorf("its watermark is %v, want %v: its predecessor has promised more", got, above)
			}
			r.Receive(1, &Stored{issued + 1<<nodeBits}) // from the predecessor, unless this node knows of the loss
			wantHas := Timestamp(0)
			if toldFirst {
				wantHas = issued + 1<<nodeBits
			}
			if r.writes.has[1] != wantHas {
				t.Errorf("it has functors up to %v, want %v", r.writes.has[1], wantHas)
			}
			if !toldFirst {
				if got := w.take(1); strings.Contains(got, "write") {
					t.Fatalf("%q is sent to the predecessor", got)
				}
				r.Replaced(1, 1)
			}
			if got, want := w.take(1), fmt.Sprintf("write t1.1@%v", issued); got != want {
				t.Errorf("it gets %q, want %q", got, want)
			}
		})
	}
}

// A functor does not count as stored at all replicas before it is visible. A new incarnation therefore receives the
// functor from the functor's server. If that server is lost, the new incarnation receives the functor from the other
// replicas.
func TestReplicatedWhenVisible(t *testing.T) {
	r, w := node(t, 0, 0, 1, nil)
	r.Submit(simload.Txn(txn.MakeID(1, 1), "a1+5"))
	for n := range geo.NodeID(3) {
		r.Receive(n, &Stored{r.writes.last})
	}
	if r.writes.replicated != 0 || r.functors.kept != 1 {
		t.Fatalf("%v is known to be everywhere, and is visible up to %v", r.writes.replicated, r.watermarks.visible)
	}
	r.Replaced(2, 1)
	r.applies(closes(2)...)
	w.take(2)
	if r.applies(joins(2, 1, at(0, maxNode)-1<<nodeBits)); w.take(2) == "" {
		t.Error("the new incarnation is not sent a functor that its predecessor had, and that it will evaluate")
	}
	r.Receive(2, &Stored{r.writes.last})
	r.hears(1, at(900, maxNode))
	r.hears(2, at(900, maxNode))
	if r.writes.replicated != r.writes.last || r.functors.kept != 0 {
		t.Errorf("%v is known to be everywhere once it is visible, want %v", r.writes.replicated, r.writes.last)
	}
}

// A new incarnation ignores a node's messages until that node knows the incarnation's mark. It reports on that node's
// functors once it has received all of them. It also reports on the functors of nodes that join later.
func TestFunctorsOfANewIncarnation(t *testing.T) {
	r, w := node(t, 1, 1, 1, nil)
	r.applies(closes(1)...)
	before := r.membership.view
	r.applies(joins(1, 0, at(300, maxNode)))
	w.take(0)
	f := functorOf(at(400, 0), "a1+1")
	r.Receive(0, &Write{View: before, Functor: f})
	r.Receive(0, &Gossip{View: before, Watermark: at(500, maxNode)})
	if got := w.take(0); got != "" || r.replace.complete(0) {
		t.Errorf("it answers %q to what was sent before its mark", got)
	}
	r.takes(f)
	if got, want := w.take(0), fmt.Sprintf("has stored %v", f.Timestamp); got != want || r.replace.complete(0) {
		t.Errorf("it answers %q, want %q; it has all: %v", got, want, r.replace.complete(0))
	}
	if r.hears(0, at(500, maxNode)); !r.replace.complete(0) || r.replace.complete(2) {
		t.Error("whose functors it has does not follow from whom it has heard")
	}
	r.applies(&suspicion{2, 0}, &decision{server: 2}, &join{server: 2, epoch: 1, sponsor: 0, above: at(600, maxNode)})
	if !r.replace.complete(2) {
		t.Error("of a server that joins later it lacks something")
	}
}

// Functors that were decided on before the mark, and are above it, arrive with the rows. Functors that are not decided
// on do not.
func TestDecidedComesWithRows(t *testing.T) {
	early, late := functorOf(at(100, 2), "a1+1"), functorOf(at(800, 2), "a1+1")
	undecided := functorOf(at(900, 0), "a1+100")
	donor, w := node(t, 2, 0, 1, nil)
	donor.Replaced(1, 1)
	donor.Receive(1, &StateRequest{6}) // the request arrives before the mark
	donor.applies(&suspicion{2, 0}, &decision{server: 2, survivors: []Functor{early, late}})
	donor.applies(&join{server: 2, epoch: 1, sponsor: 0, above: at(10, maxNode)})
	donor.applies(closes(1)...)
	donor.takes(undecided)
	donor.applies(joins(1, 0, at(300, maxNode)))
	if id := donor.membership.copies[1]; id.id != 6 || id.donor != 2 {
		t.Fatalf("the mark is %+v", id)
	}
	for n := range geo.NodeID(2) {
		donor.hears(n, at(1000, maxNode))
	}
	donor.Receive(0, &Stored{donor.writes.last})
	w.now = 10 * time.Second
	donor.finishStep()
	state := pieceOf(t, w)
	rows, functors := read(t, state.Data)
	if len(rows) != 4 || len(functors) != 1 || functors[0].Timestamp != late.Timestamp {
		t.Fatalf("it gives %d rows and%s", len(rows), stringFunctors(functors))
	}
	if donor.row(1) != 112 {
		t.Errorf("row 1 is %d at the donor, which has gone on, want 112", donor.row(1))
	}
	for _, row := range rows {
		if row.Key == simload.Key(1) && simload.Value(row.Record) != 11 {
			t.Errorf("row 1 is given as %d, want 11: the mark lies behind the first functor and before the others", simload.Value(row.Record))
		}
	}
	r, _ := node(t, 1, 1, 1, nil)
	r.applies(&suspicion{2, 0}, &decision{server: 2}, &join{server: 2, epoch: 1, sponsor: 0, above: at(10, maxNode)})
	r.applies(closes(1)...)
	r.applies(joins(1, 0, at(300, maxNode)))
	r.takes(functorOf(at(50, 0), "a1+1000"), undecided) // the rows include the first functor
	for n := range geo.NodeID(3) {
		if n != 1 {
			r.hears(n, at(1000, maxNode))
		}
	}
	if r.executor.Executed != 0 {
		t.Error("it evaluates without rows")
	}
	wrong := *state
	wrong.ID++
	if r.Receive(2, &wrong); !r.replace.lacking {
		t.Fatal("it takes rows of another mark")
	}
	r.Receive(2, state)
	if r.replace.lacking || r.row(1) != 112 {
		t.Errorf("row 1 is %d at the new incarnation, want 112", r.row(1))
	}
}

// pieceOf returns the state that was sent, as a single piece.
func pieceOf(t *testing.T, w *post) *statetransfer.Piece {
	t.Helper()
	for _, m := range w.sent {
		if p, ok := m.(*statetransfer.Piece); ok {
			return p
		}
	}
	t.Fatal("no rows are sent")
	return nil
}

func read(t *testing.T, data []byte) ([]store.Row, []Functor) {
	t.Helper()
	in := codec.NewReader(data)
	rows := statetransfer.ReadRows(&in)
	functors := readFunctors(&in, codec.NewTxnArena(simload.Procedures))
	if err := in.Done(); err != nil {
		t.Fatal(err)
	}
	return rows, functors
}

// A new incarnation starts with a snapshot of the group, and is not behind for that reason. However, if it learns from
// a snapshot that it has already joined, it lacks functors.
func TestSnapshotOfANewIncarnation(t *testing.T) {
	leader, _ := node(t, 0, 0, 1, nil)
	leader.applies(closes(1)...)
	r, w := node(t, 1, 1, 1, nil)
	if r.membership.restore(leader.membership.snapshot()); r.behind {
		t.Error("it is behind")
	}
	if asked := w.take(0) + w.take(2); !strings.Contains(asked, "asks to join in epoch 1") && r.membership.asked == 0 {
		t.Error("it does not ask to join")
	}
	leader.applies(joins(1, 0, at(300, maxNode)))
	if r.membership.restore(leader.membership.snapshot()); !r.behind {
		t.Error("it does not know what it lacks")
	}
	// All members must allow a server the same silence, and must have the same pieces of a decision.
	server := &leader.membership.servers[1]
	server.joins, server.pieces = 3, 2
	r.membership.restore(leader.membership.snapshot())
	if got := &r.membership.servers[1]; got.joins != 3 || got.pieces != 2 {
		t.Errorf("it knows of %d joins and %d pieces of server 1, want 3 and 2", got.joins, got.pieces)
	}
}

// A server that has skipped entries of the group's log gives no rows to a new incarnation, and the group chooses
// another donor.
func TestIncompleteServersAreNoDonors(t *testing.T) {
	leader, _ := node(t, 0, 0, 1, nil)
	r, _ := node(t, 2, 0, 1, nil)
	r.membership.restore(leader.membership.snapshot())
	if !r.behind {
		t.Fatal("it does not know what it lacks")
	}
	for name, tc := range map[string]struct {
		before []entry
		donor  int
	}{
		"no gap":                    {nil, 2},
		"a gap":                     {[]entry{&gap{2, 0}}, 0},
		"a gap of no known server":  {[]entry{&gap{9, 0}}, 2},
		"a gap of an unknown state": {[]entry{&gap{2, 1}}, 2},
	} {
		member, _ := node(t, 0, 0, 1, nil)
		member.applies(tc.before...)
		member.applies(closes(1)...)
		member.applies(joins(1, 0, at(300, maxNode)))
		if got := member.membership.copies[1].donor; got != tc.donor {
			t.Errorf("%s: copy %d is the donor, want %d", name, got, tc.donor)
		}
	}
	// A new incarnation has no gap.
	member, _ := node(t, 0, 0, 1, nil)
	member.applies(&gap{2, 0})
	member.applies(closes(2)...)
	member.applies(joins(2, 0, at(200, maxNode)))
	member.applies(&replenishment{2, member.membership.copies[2].id})
	member.applies(closes(1)...)
	member.applies(joins(1, 0, at(300, maxNode)))
	if got := member.membership.copies[1].donor; got != 2 {
		t.Errorf("copy %d is the donor, although the new incarnation in copy 2 has everything", got)
	}
	// It was chosen before the group knew.
	r.applies(closes(1)...)
	r.applies(joins(1, 0, at(300, maxNode)))
	if len(r.replace.stops) > 0 {
		t.Error("it is about to give rows that lack functors")
	}
}

// All nodes can be replaced if there are at least three copies.
func TestReplaces(t *testing.T) {
	for name, tc := range map[string]struct {
		regions, partitions, replicas, want int
	}{
		"three regions":             {3, 2, 1, 6},
		"two regions":               {2, 2, 1, 0},
		"two replicas in each":      {2, 1, 2, 4},
		"one region, three of each": {1, 2, 3, 6},
	} {
		t.Run(name, func(t *testing.T) {
			topology := geo.Topology{Regions: make([]string, tc.regions), Partitions: tc.partitions, Replicas: tc.replicas}
			if got := replaces(&topology, nil); len(got) != tc.want {
				t.Errorf("%v", got)
			}
		})
	}
}

type cutter interface {
	CutNodes(a, b geo.NodeID, down bool)
}

// cuts cuts a node's links to other nodes, or heals them.
func cuts(s cutter, n geo.NodeID, down bool, others ...geo.NodeID) {
	for _, o := range others {
		s.CutNodes(n, o, down)
	}
}

// A functor is stable and visible because of a replica that is then lost. After that, the functor's server is
// disconnected and closed. The replica's new incarnation does not have the functor, and does not report on it. The
// leader waits for a replica that has the functor.
func TestReportsOfANewIncarnation(t *testing.T) {
	apart := make([][]float64, 5)
	for i := range apart {
		for j := range apart {
			apart[i] = append(apart[i], map[bool]float64{true: 0, false: 20}[i == j])
		}
	}
	replicas := map[geo.NodeID]*Replica{}
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		replicas[c.Self] = newReplica(c, none)
		return replicas[c.Self]
	}
	s, clients := newSim(t, simload.Topology(1, 1, apart), &e, map[string]string{"failureTimeout": "5s"})
	s.At(time.Second, func() {
		cuts(s, 4, true, 0, 2)
		clients[4].submit(1, "a1+5")
	})
	s.At(1200*time.Millisecond, func() { clients[1].submit(2, "r1") })
	s.At(1400*time.Millisecond, func() {
		cuts(s, 4, true, 1, 3)
		s.Crash(3)
	})
	s.At(1500*time.Millisecond, func() { s.Replace(3) })
	s.At(6*time.Second, func() {
		if m := &replicas[0].membership; !m.active(3) || !m.group.Leading() || !m.active(4) {
			t.Fatal("the new incarnation has not joined, or the other one is suspected already")
		}
	})
	var watch func()
	watch = func() { // the report of the replica that has the functor arrives late
		if replicas[0].membership.servers[4].status == suspected {
			cuts(s, 0, true, 1)
			cuts(s, 1, true, 0)
		} else if s.Now() < 9*time.Second {
			s.At(s.Now()+time.Millisecond, watch)
		}
	}
	s.At(6*time.Second, watch)
	s.At(10*time.Second, func() {
		if got := replicas[0].membership.servers[4].status; got != suspected {
			t.Errorf("the server that is cut off has status %d", got)
		}
		cuts(s, 0, false, 1)
		cuts(s, 1, false, 0)
	})
	s.At(12*time.Second, func() { cuts(s, 4, false, 0, 1, 2, 3) })
	s.Run(40 * time.Second)
	if len(clients[1].answers) != 1 || string(clients[1].answers[0].Result) != "1=15" {
		t.Fatalf("the read is answered %v", clients[1].answers)
	}
	for n := range geo.NodeID(5) {
		if got := value(s, n, 1); got != 15 || !replicas[n].FullyReplicated() {
			t.Errorf("row 1 is %d at node %d, want 15; whole: %v", got, n, replicas[n].FullyReplicated())
		}
	}
}

// A new incarnation that has the rows is not a complete copy until it also has every functor that may be missing at
// another replica. This includes functors of servers from which it has not received a message yet.
func TestWholeWithFunctors(t *testing.T) {
	replicas := map[geo.NodeID]*Replica{}
	e := *Engine
	e.New = func(c protocol.Config) protocol.Replica {
		replicas[c.Self] = newReplica(c, none)
		return replicas[c.Self]
	}
	s, _ := newSim(t, simload.ThreeRegions(1), &e, nil)
	s.At(time.Second, func() {
		s.CutNodes(1, 2, true)
		s.Crash(2)
	})
	s.At(1100*time.Millisecond, func() { s.Replace(2) })
	s.At(6*time.Second, func() {
		if r := replicas[2]; r.replace.lacking || r.replace.complete(1) || !r.membership.active(1) || !r.membership.group.FullyReplicated() {
			t.Fatalf("it has no rows (%v), has functors of the server that it does not hear (%v), or that is suspected", r.replace.lacking, r.replace.complete(1))
		}
		if s.FullyReplicated() {
			t.Error("all is whole")
		}
		s.CutNodes(1, 2, false)
	})
	s.Run(10 * time.Second)
	if !s.FullyReplicated() {
		t.Error("all is not whole in the end")
	}
}
