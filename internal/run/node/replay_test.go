package node

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
)

// frame is a peer's frame that holds messages of these numbers.
func frame(numbers ...uint64) (payload []byte) {
	for _, n := range numbers {
		g := gossip{number: n}
		payload = codec.AppendBytes(payload, g.AppendTo([]byte{g.Kind()}))
	}
	return payload
}

// process makes the next process of a node whose log is in a folder, and brings it to where the log ends.
func process(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.loop.log.journal.Close() })
	if err := n.loop.begin(); err != nil {
		t.Fatal(err)
	}
	return n
}

// A turn may end in the middle of a frame, and the process after it. The peer sends the frame again, since it was not in the log as a
// whole: the next process takes the rest of it. Its clocks go on from where those of the last process were, although its own would
// show less.
func TestNextProcessTakesTheRestOfAFrame(t *testing.T) {
	t.Run("from its inputs", func(t *testing.T) { testRestOfAFrame(t, readings) })
	t.Run("from a checkpoint", func(t *testing.T) {
		testRestOfAFrame(t, func(n *Node) (at, clock time.Duration) {
			n.loop.log.cutAt = 0
			if err := n.loop.turn(nil); err != nil { // takes the checkpoint
				t.Fatal(err)
			}
			at, clock = readings(n)
			n.loop.log.writing.Wait()
			items, _ := n.box.take(nil)
			if err := n.loop.turn(items); err != nil { // goes on behind it
				t.Fatal(err)
			}
			if n.loop.log.journal.Generation() != 1 {
				t.Fatal("the log was not cut short")
			}
			return at, clock
		})
	})
}

// readings are those of the clocks in a node's last turn.
func readings(n *Node) (at, clock time.Duration) { return n.loop.at, n.loop.clock }

// testRestOfAFrame has something done to the first process between the turn that ends in the middle of a frame and its own end, which returns
// the last readings of the clocks that are in the log. Those of a later turn, in which nothing came or was due, nobody has seen.
func testRestOfAFrame(t *testing.T, meanwhile func(*Node) (at, clock time.Duration)) {
	l := startLogged(t, gossipEngine, 0, "a", "b")
	db := database("a", "b")
	db.Engine, db.Nodes, db.Incarnation = gossipEngine.Name, l.Database().Nodes, "one"
	cfg := Config{Database: &db, Engine: gossipEngine, Procedures: procedures, ParseWorkload: parse, Journal: t.TempDir()}
	first := process(t, cfg)
	first.loop.epoch += time.Hour
	first.loop.offset.Store(int64(time.Hour))
	from := first.peers[1]
	for _, payload := range [][]byte{frame(1), frame(2, 3)} {
		if err := from.Receive(payload); err != nil {
			t.Fatal(err)
		}
	}
	came := slices.Clone(from.batch)
	if err := first.loop.turn(came[:2]); err != nil {
		t.Fatal(err)
	}
	at, clock := meanwhile(first)
	if err := first.loop.log.journal.Close(); err != nil {
		t.Fatal(err)
	}

	second := process(t, cfg)
	if got := second.loop.replica.(*gossipReplica).got[1]; got != 2 {
		t.Errorf("the replay has %d of the peer's messages, want 2", got)
	}
	from = second.peers[1]
	if from.frame != 1 {
		t.Errorf("frame %d is the last that is in the log as a whole, want 1", from.frame)
	}
	if err := from.Receive(frame(2, 3)); err != nil {
		t.Fatal(err)
	}
	if len(from.batch) != 1 || from.batch[0].m.(gossip).number != 3 || !from.batch[0].last || from.batch[0].frame != 2 {
		t.Errorf("of the frame that came again %+v is taken, want its second message alone", from.batch)
	}
	second.loop.beginTurn()
	if second.loop.at < at || second.loop.clock < clock {
		t.Errorf("timers count by %v and the clock shows %v, after %v and %v", second.loop.at, second.loop.clock, at, clock)
	}
}
