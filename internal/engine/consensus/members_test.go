package consensus_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/engine/consensus"
)

// lose crashes node n, which loses its state. After d, a new, empty process replaces the node.
func (c *cluster) lose(n int, d time.Duration) {
	c.Crash(geo.NodeID(n))
	c.At(c.Now()+d, func() { c.Replace(geo.NodeID(n)) })
}

// whole advances the time until all members are alive and report that the group is complete. It returns false if this
// takes longer than the given time.
func (c *cluster) whole(within time.Duration) bool {
	for until := c.Now() + within; c.Now() < until; c.wait(10 * time.Millisecond) {
		whole := true
		for i, m := range c.members {
			whole = whole && !c.Node(geo.NodeID(i)).Dead && m.FullyReplicated()
		}
		if whole {
			return true
		}
	}
	return false
}

// When the leader or a follower is lost, a new incarnation replaces it while other members propose. It obtains the
// group's log and votes on later entries, so each member can be lost in turn.
func TestReplaced(t *testing.T) {
	for _, n := range []int{3, 5} {
		for seed := range uint64(10) {
			c := newClusterWith(n, seed, consensus.Config{Lease: 750 * time.Millisecond})
			c.wait(time.Second)
			proposed := 0
			propose := func() {
				if l := c.leader(); l >= 0 && c.propose(l) {
					proposed++
				}
				c.wait(300 * time.Millisecond)
			}
			for turn := range 2 * n {
				propose()
				c.lose(turn%n, time.Duration(turn)*400*time.Millisecond)
				for range 5 {
					propose()
				}
				if !c.whole(20 * time.Second) {
					t.Fatalf("%d members, seed %d: the group is not whole 20 s after the loss of member %d", n, seed, turn%n)
				}
			}
			c.wait(2 * time.Second)
			for i, m := range c.members {
				if !slices.Equal(m.log, c.members[0].log) || len(m.log) < proposed/2 {
					t.Errorf("%d members, seed %d: member %d has applied %v, member 0 %v", n, seed, i, m.log, c.members[0].log)
				}
				if m.restored == 0 {
					t.Errorf("%d members, seed %d: member %d has its state from nowhere", n, seed, i)
				}
			}
		}
	}
}

// forgets commits an entry on the leader and one other member, which then loses its state and returns while the leader
// is disconnected. The third member has never received the entry. forgets returns the leader at that time, and the
// entries that this leader has applied at the end of the run.
func forgets(seed uint64, mutate func(*consensus.Config)) (leader int, log []string) {
	config := consensus.Config{}
	mutate(&config)
	c := newClusterWith(3, seed, config)
	c.wait(time.Second)
	c.Cut(0, 2)
	c.Cut(1, 2)
	c.propose(0)
	c.wait(500 * time.Millisecond) // committed by 0 and 1
	c.Cut(0, 1)
	c.lose(1, 10*time.Millisecond)
	c.wait(time.Second)
	c.Heal(1, 2)
	c.wait(20 * time.Second)
	if leader = c.leader(); leader != 0 {
		c.propose(leader)
		c.wait(time.Second)
	}
	if c.members[2].group.Leading() {
		leader = 2
	}
	return leader, c.members[2].log
}

// A new incarnation grants no vote on behalf of its predecessor, whose acknowledgements it does not know. Otherwise,
// the entry would be lost. The test confirms that it is lost if the new incarnation uses its predecessor's identity.
func TestNoVoteForThePredecessor(t *testing.T) {
	lost := 0
	for seed := range uint64(10) {
		if leader, log := forgets(seed, func(*consensus.Config) {}); leader != 0 || len(log) > 0 {
			t.Errorf("seed %d: member %d leads without the entry that was committed, and has applied %v", seed, leader, log)
		}
		if leader, log := forgets(seed, (*consensus.Config).ReuseIDs); leader > 0 && !slices.Contains(log, "1") {
			lost++
		}
	}
	if lost == 0 {
		t.Error("nothing is lost where new incarnations take themselves for the old ones")
	}
}

// A new incarnation's acknowledgements do not count for a majority before the new incarnation has become a voter. Of
// three members, one is lost and one is disconnected. Nothing is committed until the disconnected member returns.
func TestMajorityWithoutTheNewOne(t *testing.T) {
	c := newCluster(3, 0, 1)
	c.wait(time.Second)
	c.Cut(0, 2)
	c.Cut(1, 2)
	c.lose(1, 10*time.Millisecond)
	c.wait(time.Second)
	c.propose(0)
	c.wait(10 * time.Second)
	c.check(t, 0, 0, 1, 2)
	if c.members[1].group.Joined() || c.members[1].group.Votes() {
		t.Error("a new incarnation was taken in by one member of three")
	}
	c.Heal(0, 2)
	c.Heal(1, 2)
	if !c.whole(30 * time.Second) {
		t.Fatal("the group is not whole 30 s after all links are")
	}
	c.check(t, 1, 0, 1, 2)
}

// The leader is lost, too, at each of several times while it adds a new incarnation. The three remaining members of
// five are a majority, and the next leader continues the change.
func TestLeaderLostInTheMiddle(t *testing.T) {
	for step := range 20 {
		c := newClusterWith(5, uint64(step), consensus.Config{ChunkBytes: 40, ChunkEvery: 20 * time.Millisecond})
		c.wait(time.Second)
		for range 30 {
			c.propose(0)
			c.wait(20 * time.Millisecond)
		}
		c.wait(time.Second)
		c.lose(4, 0)
		c.wait(time.Duration(step) * 25 * time.Millisecond)
		c.lose(0, time.Second)
		if !c.whole(30 * time.Second) {
			t.Fatalf("step %d: the group is not whole 30 s after the second loss", step)
		}
		c.wait(time.Second)
		c.check(t, 30, 0, 1, 2, 3, 4)
	}
}

// A node is lost again while its new incarnation catches up. The leader adds the next incarnation.
func TestLostAgain(t *testing.T) {
	for step := range 20 {
		c := newClusterWith(3, uint64(step), consensus.Config{ChunkBytes: 40, ChunkEvery: 20 * time.Millisecond})
		c.wait(time.Second)
		for range 30 {
			c.propose(0)
			c.wait(20 * time.Millisecond)
		}
		c.wait(time.Second)
		c.lose(2, 0)
		c.wait(time.Duration(step) * 25 * time.Millisecond)
		c.lose(2, 50*time.Millisecond)
		c.propose(0)
		c.wait(100 * time.Millisecond)
		if !c.whole(30 * time.Second) {
			t.Fatalf("step %d: the group is not whole 30 s after the second loss", step)
		}
		c.wait(time.Second)
		c.check(t, 31, 0, 1, 2)
	}
}

// large returns a cluster with a state whose snapshot takes seconds to send.
func large(seed uint64, keep int) *cluster {
	c := newClusterWith(3, seed, consensus.Config{ChunkBytes: 100, ChunkEvery: 50 * time.Millisecond, Keep: keep})
	c.wait(time.Second)
	c.next = 1e9 // numbers of ten bytes
	for range 400 {
		c.propose(0)
		c.wait(5 * time.Millisecond)
	}
	c.wait(time.Second)
	return c
}

// A snapshot is sent in pieces, which leave the leader time for heartbeats and entries. Meanwhile no member campaigns,
// and proposals are committed without delay. A single snapshot is enough although the log is truncated early. A member
// that has not received the snapshot does not count for a majority.
func TestSnapshotInPieces(t *testing.T) {
	c := large(1, 3)
	term := c.members[0].group.Term()
	c.lose(2, 10*time.Millisecond)
	c.wait(200 * time.Millisecond)
	before := c.Traffic(0, 2).Bytes
	for i := range 80 {
		at := len(c.members[0].log)
		c.propose(0)
		c.wait(250 * time.Millisecond)
		if got := len(c.members[0].log); got != at+1 {
			t.Fatalf("proposal %d is not committed after a heartbeat and a round trip, while a snapshot is sent", i)
		}
		if voters := c.members[0].group.Voters(); i == 3 && (c.members[2].group.Joined() || voters != 2) {
			t.Errorf("a snapshot of 4,400 bytes has arrived within a second, at 100 bytes every 50 ms, or not, and %d members vote", voters)
		}
	}
	if sent := c.Traffic(0, 2).Bytes - before; sent < 4400 {
		t.Errorf("%d bytes were sent, less than the state", sent)
	}
	if !c.whole(20 * time.Second) {
		t.Fatal("the group is not whole")
	}
	c.wait(time.Second)
	c.check(t, 480, 0, 1, 2)
	if m := c.members[0]; m.group.Term() != term || c.leader() != 0 {
		t.Errorf("member %d leads in term %d, it was member 0 in term %d", c.leader(), m.group.Term(), term)
	}
	if c.members[0].made != 1 || c.members[2].restored != 1 {
		t.Errorf("%d snapshots were made and %d restored, one is enough", c.members[0].made, c.members[2].restored)
	}
}

// A snapshot whose pieces do not match its digest is rejected and sent again.
func TestSpoiledSnapshot(t *testing.T) {
	c := large(1, 20)
	c.lose(2, 10*time.Millisecond)
	c.wait(700 * time.Millisecond)
	whole := strings.Join(c.members[0].log, ",")
	c.members[0].group.Spoil()
	c.wait(30 * time.Second)
	if got := strings.Join(c.members[2].log, ","); got != whole || c.members[0].made != 2 || c.members[2].restored != 1 {
		t.Errorf("%d snapshots were made and %d restored; the new incarnation has applied %q, want %q",
			c.members[0].made, c.members[2].restored, got, whole)
	}
	if !c.whole(20 * time.Second) {
		t.Error("the group is not whole")
	}
}

// A link that is cut for a long time during a snapshot does not prevent truncation of the log. Neither does a member
// that never returns. The snapshot is sent again from its start when the member reconnects.
func TestCutInTheMiddleOfASnapshot(t *testing.T) {
	c := large(1, 20)
	c.lose(2, 10*time.Millisecond)
	c.wait(time.Second)
	c.Cut(0, 2)
	for range 200 {
		c.propose(0)
		c.wait(100 * time.Millisecond)
	}
	if n := c.members[0].group.Stored(); n > 25 {
		t.Errorf("the leader keeps %d entries for a member that has been silent for 20 s, want at most 25", n)
	}
	c.Heal(0, 2)
	if !c.whole(60 * time.Second) {
		t.Fatal("the group is not whole a minute after the link is")
	}
	c.wait(time.Second)
	c.check(t, 600, 0, 1, 2)
}
