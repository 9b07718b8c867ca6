package node

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
)

// frame returns the payload of a peer's frame that contains messages with these numbers.
func frame(numbers ...uint64) (payload []byte) {
	for _, n := range numbers {
		g := gossip{number: n}
		payload = codec.AppendBytes(payload, g.AppendTo([]byte{g.Kind()}))
	}
	return payload
}

// process creates a process of a node with a log. If a previous process has left a log, the new process replays it.
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

// A turn may end in the middle of a frame, and the process may stop after that turn. The end of the frame is then
// missing from the log, so the peer sends the frame again. The next process handles only the remaining messages. Its
// clocks continue from their last values, even if the real clock shows an earlier time.
func TestNextProcessTakesTheRestOfAFrame(t *testing.T) {
	t.Run("from its inputs", func(t *testing.T) { testRestOfAFrame(t, readings) })
	t.Run("from a checkpoint", func(t *testing.T) {
		testRestOfAFrame(t, func(n *Node) (at, clock time.Duration) {
			n.loop.log.cutAt = 0
			if err := n.loop.turn(nil); err != nil { // takes a checkpoint
				t.Fatal(err)
			}
			at, clock = readings(n)
			n.loop.log.writing.Wait()
			items, _ := n.box.take(nil)
			if err := n.loop.turn(items); err != nil { // switches to the generation that starts with the checkpoint
				t.Fatal(err)
			}
			if n.loop.log.journal.Generation() != 1 {
				t.Fatal("the log was not cut short")
			}
			return at, clock
		})
	})
}

// readings returns the values of a node's clocks in its last turn: at for timers, clock for Now.
func readings(n *Node) (at, clock time.Duration) { return n.loop.at, n.loop.clock }

// testRestOfAFrame calls meanwhile for the first process, after the turn that ends in the middle of a frame. meanwhile
// returns the last clock readings in the log. A later turn without inputs or due timers is not logged, so the next
// process need not continue from the readings of such a turn.
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
