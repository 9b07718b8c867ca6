package consensus_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/sim"
)

// member is a replica that consists only of a member of a group.
type member struct {
	group    *consensus.Group
	log      []string
	leaders  []string
	restored int // number of snapshots restored
	made     int // number of snapshots taken
}

func (m *member) Start()                  { m.group.Start() }
func (m *member) Submit(*txn.Transaction) {}
func (m *member) Receive(from geo.NodeID, msg protocol.Message) {
	m.group.Receive(from, msg.(*consensus.Message))
}
func (m *member) Fire(t protocol.Timer)                            { m.group.Fire(t) }
func (m *member) Replaced(n geo.NodeID, incarnation uint32)        { m.group.Replaced(n, incarnation) }
func (m *member) FullyReplicated() bool                            { return m.group.FullyReplicated() }
func (m *member) Pending() int                                     { return 0 }
func (m *member) Readings(d []protocol.Reading) []protocol.Reading { return d }

type cluster struct {
	*sim.Sim
	members []*member
	next    int
}

// newCluster returns a group with a member in each of n regions, 40 ms apart. Node 0 is preferred.
func newCluster(n, keep int, seed uint64) *cluster {
	return newClusterWith(n, seed, consensus.Config{Keep: keep})
}

// newClusterWith returns a cluster like newCluster. It sets the members and callbacks of the given configuration.
func newClusterWith(n int, seed uint64, config consensus.Config) *cluster {
	delays := make([][]float64, n)
	for i := range delays {
		delays[i] = slices.Repeat([]float64{20}, n)
	}
	return newClusterOver(delays, seed, config)
}

// newClusterOver returns a cluster whose links have the given delays, in milliseconds.
func newClusterOver(delays [][]float64, seed uint64, config consensus.Config) *cluster {
	n := len(delays)
	c := &cluster{members: make([]*member, n)}
	engine := &protocol.Engine{
		New: func(pc protocol.Config) protocol.Replica {
			m := &member{}
			var members []geo.NodeID
			for i := range n {
				members = append(members, geo.NodeID(i))
			}
			mc := config
			mc.Self, mc.Incarnation, mc.Members, mc.Env, mc.TimerKind = pc.Self, pc.Incarnation, members, pc.Env, 9
			mc.Apply = func(data []byte) { m.log = append(m.log, string(data)) }
			mc.Lead = func(l geo.NodeID, term uint64) { m.leaders = append(m.leaders, fmt.Sprintf("%d@%d", l, term)) }
			mc.Snapshot = func() []byte { m.made++; return []byte(strings.Join(m.log, ",")) }
			mc.Restore = func(data []byte) {
				m.log = strings.Split(string(data), ",")
				m.restored++
			}
			m.group = consensus.New(mc)
			c.members[pc.Self] = m
			return m
		},
		Decode: protocol.Decode("consensus", consensus.Decode),
	}
	c.Sim = sim.New(sim.Config{
		Topology: simload.Topology(1, 1, delays), Engine: engine, Procedures: simload.Procedures, Seed: seed, CheckCodec: true,
	})
	return c
}

// propose makes node n propose the next number, and reports whether Propose returned true.
func (c *cluster) propose(n int) bool {
	c.next++
	ok := false
	c.At(c.Now(), func() { ok = c.members[n].group.Propose(fmt.Append(nil, c.next)) })
	c.Run(c.Now())
	// The simulator sends messages only at the end of a handler, so this proposal is sent with the next heartbeat.
	return ok
}

func (c *cluster) leader() int {
	for i, m := range c.members {
		if !c.Node(geo.NodeID(i)).Dead && m.group.Leading() {
			return i
		}
	}
	return -1
}

func (c *cluster) wait(d time.Duration) { c.Run(c.Now() + d) }

func (c *cluster) check(t *testing.T, want int, who ...int) {
	t.Helper()
	for _, i := range who {
		if got := c.members[i].log; len(got) != want || !slices.Equal(got, c.members[who[0]].log) {
			t.Errorf("member %d has applied %d entries %v, want %d", i, len(got), got, want)
		}
	}
}

func TestGroupOfOneCommitsAtOnce(t *testing.T) {
	c := newCluster(1, 0, 1)
	c.Run(0)
	for range 2 {
		if !c.propose(0) {
			t.Fatal("refused")
		}
	}
	c.check(t, 2, 0)
	if l, ok := c.members[0].group.Leader(); !ok || l != 0 {
		t.Error("it must lead itself")
	}
	if c.Events() > 5 {
		t.Errorf("%d events for a group that needs no agreement", c.Events())
	}
}

func TestPreferredMemberLeads(t *testing.T) {
	for seed := range uint64(5) {
		c := newCluster(5, 0, seed)
		c.wait(time.Second)
		if c.leader() != 0 {
			t.Fatalf("member %d leads", c.leader())
		}
		if c.propose(3) {
			t.Error("a follower must refuse")
		}
		for range 10 {
			c.propose(0)
			c.wait(50 * time.Millisecond)
		}
		c.wait(time.Second)
		c.check(t, 10, 0, 1, 2, 3, 4)
		for i, m := range c.members {
			if !slices.Equal(m.leaders, []string{"0@2"}) {
				t.Errorf("member %d saw the leaders %v", i, m.leaders)
			}
		}
	}
}

func TestFailover(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(3, 0, seed)
		c.wait(time.Second)
		c.propose(0)
		c.wait(time.Second)
		c.Crash(0)
		c.wait(4 * time.Second)
		l := c.leader()
		if l <= 0 {
			t.Fatalf("seed %d: no new leader", seed)
		}
		c.propose(l)
		c.wait(time.Second)
		c.check(t, 2, 1, 2)
	}
}

// A leader in the minority commits nothing. The majority elects another leader, which the old leader follows once the
// links are healed.
func TestPartition(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(3, 0, seed)
		c.wait(time.Second)
		c.Cut(0, 1)
		c.Cut(0, 2)
		c.propose(0)
		c.wait(4 * time.Second)
		c.check(t, 0, 0, 1, 2)
		l := 1
		if !c.members[1].group.Leading() {
			l = 2
		}
		if !c.propose(l) {
			t.Fatalf("seed %d: the majority has no leader", seed)
		}
		c.wait(time.Second)
		c.check(t, 1, 1, 2)
		c.Heal(0, 1)
		c.Heal(0, 2)
		c.wait(10 * time.Second)
		c.check(t, 1, 0, 1, 2)
		if c.members[0].group.Leading() && c.members[l].group.Leading() {
			t.Error("two leaders")
		}
	}
}

// TestLateAnswers elects a leader in a network that is slow relative to the election timeout. The two round trips of an
// election take longer than the longest timeout. Links that lose packets behave like this for a while.
func TestLateAnswers(t *testing.T) {
	for seed := range uint64(20) {
		c := newClusterWith(5, seed, consensus.Config{Heartbeat: 5 * time.Millisecond, Election: 15 * time.Millisecond})
		var agreed time.Duration
		for c.wait(100 * time.Millisecond); agreed == 0 && c.Now() < 10*time.Second; c.wait(100 * time.Millisecond) {
			if l := c.leader(); l >= 0 {
				c.propose(l)
			}
			if len(c.members[4].log) > 0 {
				agreed = c.Now()
			}
		}
		if agreed == 0 {
			t.Fatalf("seed %d: no entry is committed in 10 s", seed)
		}
	}
}

// TestTimeoutsAreThoseOfTheConfiguration makes elections fail, and checks that failover takes as long as before once an
// election has succeeded.
func TestTimeoutsAreThoseOfTheConfiguration(t *testing.T) {
	for seed := range uint64(20) {
		c := newClusterWith(5, seed, consensus.Config{Heartbeat: 180 * time.Millisecond, Election: 300 * time.Millisecond})
		c.wait(time.Second)
		// For a while no node reaches any other node. After that, a leader is elected, and a later failover takes as long as
		// before.
		for n := range geo.Region(5) {
			for m := range n {
				c.Cut(m, n)
			}
		}
		c.wait(5 * time.Second)
		for n := range geo.Region(5) {
			for m := range n {
				c.Heal(m, n)
			}
		}
		c.wait(20 * time.Second)
		leader := c.leader()
		if leader < 0 {
			t.Fatalf("seed %d: nobody leads", seed)
		}
		c.Crash(geo.NodeID(leader))
		// Allow twice the longest timeout, because votes may be split, plus the time of an election.
		c.wait(2*600*time.Millisecond + 100*time.Millisecond)
		if c.leader() < 0 {
			t.Errorf("seed %d: nobody leads after the leader's loss", seed)
		}
	}
}

// Reached counts a member that has the entry, but not a member that has only the preceding entries.
func TestReached(t *testing.T) {
	c := newCluster(3, 0, 1)
	c.wait(time.Second)
	c.propose(0)
	c.wait(time.Second)
	everybody := func(geo.NodeID) bool { return true }
	others := func(n geo.NodeID) bool { return n != 2 }
	g := c.members[0].group
	if !g.Reached(g.Last(), everybody) {
		t.Error("an entry has not reached all members after a second")
	}
	c.Cut(0, 2)
	c.propose(0)
	c.wait(time.Second)
	if g.Reached(g.Last(), everybody) || !g.Reached(g.Last(), others) || !g.Reached(g.Last()-1, everybody) {
		t.Error("the last entry has reached a member that is cut off, or the one before it has not")
	}
}

// A member that was disconnected does not depose the leader when it returns, because it has only requested pre-votes.
func TestReturningMemberDoesNotDisturb(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(3, 0, seed)
		c.wait(time.Second)
		term := c.members[0].group.Term()
		c.Cut(0, 2)
		c.Cut(1, 2)
		c.wait(10 * time.Second)
		c.Heal(0, 2)
		c.Heal(1, 2)
		c.wait(20 * time.Second)
		if c.leader() != 0 || c.members[0].group.Term() != term {
			t.Errorf("seed %d: member %d leads in term %d, it was member 0 in term %d", seed, c.leader(), c.members[0].group.Term(), term)
		}
	}
}

// A member that is disconnected only from the leader does not depose it: the other members receive the leader's
// messages and ignore pre-votes.
func TestMemberCutOffFromTheLeaderDoesNotDisturb(t *testing.T) {
	for seed := range uint64(10) {
		c := newCluster(3, 0, seed)
		c.wait(time.Second)
		term := c.members[0].group.Term()
		c.Cut(0, 2)
		c.wait(10 * time.Second)
		if g := c.members[1].group; c.leader() != 0 || g.Term() != term {
			t.Errorf("seed %d: member %d leads in term %d, it was member 0 in term %d", seed, c.leader(), g.Term(), term)
		}
	}
}

// The log is truncated, and a member that missed truncated entries receives a snapshot instead.
func TestSnapshot(t *testing.T) {
	c := newCluster(3, 20, 1)
	c.wait(time.Second)
	c.Crash(2) // a member that never returns must not prevent truncation of the log
	for range 300 {
		c.propose(0)
		c.wait(20 * time.Millisecond)
	}
	c.wait(time.Second)
	c.check(t, 300, 0, 1)
	for i := range 2 {
		if n := c.members[i].group.Stored(); n > 25 {
			t.Errorf("member %d keeps %d entries, want at most 25", i, n)
		}
		if n := c.members[i].made; n > 0 {
			t.Errorf("member %d has made %d snapshots that nobody needs", i, n)
		}
	}

	c = newCluster(3, 20, 2)
	c.wait(time.Second)
	c.Cut(0, 2)
	c.Cut(1, 2)
	// Links lose nothing, so the leader continues to send until its window of 4096 messages is full.
	for range 4500 {
		c.propose(0)
		c.wait(5 * time.Millisecond)
	}
	c.Heal(0, 2)
	c.Heal(1, 2)
	c.wait(2 * time.Minute)
	c.propose(0)
	c.wait(2 * time.Second)
	c.check(t, 4501, 0, 1, 2)
	if c.members[2].restored == 0 {
		t.Error("member 2 has caught up without a snapshot of a log that was cut")
	}
}

// No member receives a snapshot while the log is complete, even if links are cut and leaders change. A member's answer
// to a leader of an earlier term contains no information about the member's log. An owner whose snapshots contain less
// than its log relies on this.
func TestWholeLogsNeedNoSnapshots(t *testing.T) {
	for seed := range uint64(100) {
		c := newClusterWith(5, seed, consensus.Config{Heartbeat: 30 * time.Millisecond, Election: 120 * time.Millisecond})
		r := rand.New(rand.NewPCG(seed, 1))
		for range 20 {
			a := geo.Region(r.IntN(5))
			b := (a + 1 + geo.Region(r.IntN(4))) % 5
			c.Cut(a, b)
			c.wait(time.Duration(r.IntN(300)) * time.Millisecond)
			if l := c.leader(); l >= 0 {
				c.propose(l)
			}
			if r.IntN(2) == 0 {
				c.Heal(a, b)
			}
		}
		for a := range geo.Region(5) {
			for b := range a {
				c.Heal(a, b)
			}
		}
		c.wait(10 * time.Second)
		for i, m := range c.members {
			if m.restored > 0 || m.made > 0 {
				t.Errorf("seed %d: member %d has made %d snapshots and got %d", seed, i, m.made, m.restored)
			}
			if !slices.Equal(m.log, c.members[0].log) {
				t.Errorf("seed %d: member %d has applied %v, member 0 %v", seed, i, m.log, c.members[0].log)
			}
		}
	}
}

// The log is also truncated by the size of its entries.
func TestKeepBytes(t *testing.T) {
	c := newClusterWith(3, 1, consensus.Config{KeepBytes: 1000})
	c.wait(time.Second)
	c.next = 1e9 // numbers of ten bytes
	for range 500 {
		c.propose(0)
		c.wait(10 * time.Millisecond)
	}
	c.wait(time.Second)
	c.check(t, 500, 0, 1, 2)
	for i, m := range c.members {
		if n := m.group.Stored(); n < 100 || n > 115 {
			t.Errorf("member %d keeps %d entries of 10 bytes, want 1000 bytes of them and at most a tenth more", i, n)
		}
	}
}

// troubled runs a group with leases. Its links are cut and healed at random, and its clocks jump by up to jump. It
// calls look every 5 ms.
func troubled(n int, seed uint64, jump time.Duration, steps int, look func(*cluster)) {
	c := newClusterWith(n, seed, consensus.Config{Lease: consensus.DefaultElection - 250*time.Millisecond})
	r := rand.New(rand.NewPCG(seed, 77))
	base := make([]time.Duration, n) // clocks may show any time
	for i := range base {
		base[i] = time.Duration(r.Int64N(int64(time.Hour)))
		c.SetClock(geo.NodeID(i), base[i])
	}
	for range steps {
		if r.IntN(200) == 0 {
			a, b := geo.Region(r.IntN(n)), geo.Region(r.IntN(n))
			if a != b {
				c.Cut(a, b)
				c.At(c.Now()+time.Duration(r.Int64N(int64(4*time.Second))), func() { c.Heal(a, b) })
			}
		}
		if r.IntN(100) == 0 {
			i := r.IntN(n)
			c.SetClock(geo.NodeID(i), base[i]+time.Duration(r.Int64N(int64(jump)+1)))
		}
		c.wait(5 * time.Millisecond)
		look(c)
	}
}

// leases runs a troubled group. It returns how often two members had the lease at the same time, and the share of time
// in which any member had it.
func leases(n int, seed uint64, jump time.Duration) (double int, held float64) {
	const steps = 12_000
	some := 0
	troubled(n, seed, jump, steps, func(c *cluster) {
		leased := 0
		for _, m := range c.members {
			if m.group.Leased() {
				leased++
			}
		}
		if leased > 1 {
			double++
		}
		if leased > 0 {
			some++
		}
	})
	return double, float64(some) / steps
}

// If LedSince returns true for a mark, the leader had not been deposed at the marked instant. Every leader of a later
// term started after the mark. Clock jumps of any size make no difference. A heartbeat from before the mark would prove
// nothing.
func TestLedSince(t *testing.T) {
	type marked struct {
		at   time.Duration // in the simulator's time; 0 for no mark
		mark time.Duration
		term uint64
	}
	known, unproved := 0, 0
	for seed := range uint64(20) {
		n := 3 + 2*int(seed%2)
		marks := make([]marked, n)
		began := map[uint64]time.Duration{} // by term, when its leader was first seen to be current
		troubled(n, seed, 20*time.Second, 12_000, func(c *cluster) {
			deposed := func(m marked) bool {
				for term, at := range began {
					if term > m.term && at <= m.at {
						return true
					}
				}
				return false
			}
			for i, member := range c.members {
				g, m := member.group, &marks[i]
				if !g.Leading() || m.at > 0 && g.Term() != m.term {
					*m = marked{}
					continue
				}
				if _, there := began[g.Term()]; g.Current() && !there {
					began[g.Term()] = c.Now()
				}
				if g.LedSince(math.MinInt64) && deposed(marked{at: c.Now(), term: g.Term()}) {
					unproved++ // it led at some time, but no longer leads
				}
				switch {
				case m.at == 0:
					*m = marked{c.Now(), g.Mark(), g.Term()}
				case g.LedSince(m.mark):
					known++
					if deposed(*m) {
						t.Fatalf("seed %d: member %d knows at %v that it led at %v in term %d, and somebody led in a later term by then",
							seed, i, c.Now(), m.at, m.term)
					}
					*m = marked{}
				}
			}
		})
	}
	if known < 1000 || unproved == 0 {
		t.Errorf("leaders knew it %d times; %d times a heartbeat before the mark had been acknowledged to one that was deposed", known, unproved)
	}
}

// Two members never have the lease at the same time, even if links fail. This holds as long as clock jumps stay within
// the election timeout minus the lease. Larger jumps violate the property, which shows that the bound is needed.
func TestLeases(t *testing.T) {
	broken := 0
	for seed := range uint64(20) {
		n := 3 + 2*int(seed%2)
		double, held := leases(n, seed, 120*time.Millisecond)
		if double > 0 || held < 0.5 {
			t.Errorf("seed %d: two of %d members hold the lease at %d times; somebody does for %.0f%% of the time", seed, n, double, 100*held)
		}
		double, _ = leases(n, seed, 20*time.Second)
		broken += double
	}
	if broken == 0 {
		t.Error("clocks that jump by 20 s make no difference")
	}
}

// A lease counts from the sending of the heartbeat that a majority has acknowledged, regardless of how long the
// acknowledgements took. The other members count from the arrival of the heartbeat.
func TestLeaseCountsFromSending(t *testing.T) {
	const lease = 750 * time.Millisecond
	c := newClusterOver([][]float64{{0, 20, 20}, {400, 0, 20}, {400, 20, 0}}, 1, consensus.Config{Lease: lease})
	c.wait(5 * time.Second)
	if g := c.members[0].group; !g.Leading() || !g.Leased() {
		t.Fatalf("leading %v, leased %v", g.Leading(), g.Leased())
	}
	c.Crash(1)
	c.Crash(2) // from now on no member acknowledges heartbeats; earlier acknowledgements are in flight
	c.wait(lease - 20*time.Millisecond)
	if c.members[0].group.Leased() {
		t.Errorf("a member is leased %v after the last heartbeat that others have heard", lease)
	}
}

// A leader is current once it has applied an entry of its term.
func TestCurrent(t *testing.T) {
	c := newClusterWith(3, 1, consensus.Config{Lease: 750 * time.Millisecond})
	c.Run(85 * time.Millisecond) // pre-vote and vote, 80 ms, but no entry yet
	if g := c.members[0].group; !g.Leading() || g.Current() || g.Leased() {
		t.Errorf("leading %v, current %v, leased %v after 85 ms", g.Leading(), g.Current(), g.Leased())
	}
	c.Run(125 * time.Millisecond)
	if g := c.members[0].group; !g.Current() || !g.Leased() || c.members[1].group.Current() || c.members[1].group.Leased() {
		t.Errorf("current %v, leased %v after 125 ms", g.Current(), g.Leased())
	}
}

func TestIdleGroupIsCheap(t *testing.T) {
	c := newCluster(3, 0, 1)
	c.wait(time.Second)
	before := c.Traffic(0, 1).Messages
	c.wait(10 * time.Second)
	if n := c.Traffic(0, 1).Messages - before; n < 45 || n > 55 {
		t.Errorf("%d heartbeats in 10 s, want 5 per second", n)
	}
}

func TestNewRefusesStrangers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a member that is not one must be refused")
		}
	}()
	consensus.New(consensus.Config{Self: 3, Members: []geo.NodeID{0, 1}, Preferred: 0})
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte{8, 3, 24, 2})
	f.Fuzz(func(t *testing.T, body []byte) {
		m, _, err := consensus.Decode(consensus.Kind, body, nil)
		if err != nil {
			return
		}
		if len(m.AppendTo(nil)) != m.Size() {
			t.Error("size")
		}
	})
}
