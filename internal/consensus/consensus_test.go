package consensus_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/consensus"
	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/protocol"
	"github.com/geobench/geobench/internal/sim"
	"github.com/geobench/geobench/internal/sim/simtest"
	"github.com/geobench/geobench/internal/txn"
)

// member is a node that has nothing but its share of a log.
type member struct {
	group    *consensus.Group
	log      []string
	leaders  []string
	restored int
}

func (m *member) Start()                  { m.group.Start() }
func (m *member) Submit(*txn.Transaction) {}
func (m *member) Receive(from geo.NodeID, msg protocol.Message) {
	m.group.Receive(from, msg.(*consensus.Message))
}
func (m *member) Fire(t protocol.Timer)                            { m.group.Fire(t) }
func (m *member) Pending() int                                     { return 0 }
func (m *member) Counters(d []protocol.Counter) []protocol.Counter { return d }

type cluster struct {
	*sim.Sim
	members []*member
	next    int
}

// newCluster returns a group with a member in each of n regions, 40 ms apart. Node 0 is preferred.
func newCluster(n, keep int, seed uint64) *cluster {
	delays := make([][]float64, n)
	for i := range delays {
		delays[i] = slices.Repeat([]float64{20}, n)
	}
	c := &cluster{}
	engine := &protocol.Engine{
		New: func(pc protocol.Config) protocol.Replica {
			m := &member{}
			var members []geo.NodeID
			for i := range n {
				members = append(members, geo.NodeID(i))
			}
			m.group = consensus.New(consensus.Config{
				Self: pc.Self, Members: members, Preferred: 0, Env: pc.Env, TimerKind: 9, Keep: keep,
				Apply:    func(data []byte) { m.log = append(m.log, string(data)) },
				Lead:     func(l geo.NodeID, term uint64) { m.leaders = append(m.leaders, fmt.Sprintf("%d@%d", l, term)) },
				Snapshot: func() []byte { return []byte(strings.Join(m.log, ",")) },
				Restore: func(data []byte) {
					m.log = strings.Split(string(data), ",")
					m.restored++
				},
			})
			c.members = append(c.members, m)
			return m
		},
		Decode: func(_ uint8, body []byte, _ *txn.Registry) (protocol.Message, error) { return consensus.Decode(body) },
	}
	c.Sim = sim.New(sim.Config{
		Topology: simtest.Topology(1, 1, delays), Engine: engine, Procedures: simtest.Procedures, Seed: seed, CheckCodec: true,
	})
	return c
}

// propose lets node n propose the next number at time t from now, and says whether it could.
func (c *cluster) propose(n int) bool {
	c.next++
	ok := false
	c.At(c.Now(), func() { ok = c.members[n].group.Propose(fmt.Append(nil, c.next)) })
	c.Run(c.Now())
	// The simulator sends what a handler has put out; a proposal from outside leaves with the next heartbeat.
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

// A leader in the minority commits nothing; the majority elects another, and the old one follows after the heal.
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

// A member that was cut off must not depose the leader when it comes back: it has asked for pre-votes only.
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

// The log is cut, and a member that missed too much gets the state instead.
func TestSnapshot(t *testing.T) {
	c := newCluster(3, 20, 1)
	c.wait(time.Second)
	c.Crash(2) // a member that never comes back must not keep the log from being cut
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
	}

	c = newCluster(3, 20, 2)
	c.wait(time.Second)
	c.Cut(0, 2)
	c.Cut(1, 2)
	// Links lose nothing, so the leader goes on sending until its window of 4096 messages is full.
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
		m, err := consensus.Decode(body)
		if err != nil {
			return
		}
		if len(m.AppendTo(nil)) != m.Size() {
			t.Error("size")
		}
	})
}
