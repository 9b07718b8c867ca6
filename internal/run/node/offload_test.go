package node

import (
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// thinker is a replica that does work outside the loop for each message that it receives. The test decides when the
// work finishes. thinker records its inputs in order.
type thinker struct {
	protocol.Config
	let     <-chan struct{} // each value lets one piece finish; if nil, pieces finish immediately
	results []*uint64       // squares of the messages' numbers, for unfinished pieces of work
	seen    []uint64
}

func (r *thinker) Start() {}
func (r *thinker) Receive(_ geo.NodeID, m protocol.Message) {
	number, result := m.(gossip).number, new(uint64)
	r.results = append(r.results, result)
	r.seen = append(r.seen, number)
	r.Env.Offload(func() int64 {
		if r.let != nil {
			<-r.let
		}
		*result = number * number
		return 1
	}, protocol.Timer{Arg: number})
}
func (r *thinker) Fire(t protocol.Timer) {
	r.seen = append(r.seen, 1000*t.Arg+*r.results[0])
	r.results = r.results[1:]
}
func (r *thinker) Submit(*txn.Transaction) {}
func (r *thinker) Pending() int            { return 0 }
func (r *thinker) Readings(dst []protocol.Reading) []protocol.Reading {
	return append(dst, protocol.Reading{Name: "seen", Value: int64(len(r.seen))})
}

// thinkerEngine returns an engine of thinkers, which finish one piece of work for each value received from let.
func thinkerEngine(let <-chan struct{}) *protocol.Engine {
	figures := []protocol.Figure{{Name: "seen", Kind: protocol.Counter}}
	return &protocol.Engine{Name: "thinker", Figures: figures, Decode: gossipEngine.Decode, New: func(c protocol.Config) protocol.Replica {
		return &thinker{Config: c, let: let}
	}}
}

// Work outside the loop does not block the loop. A process that finds a log repeats the work of the previous process.
// It handles the completion of each piece at the same position among the inputs, and continues unfinished work.
func TestWorkBesideTheLoop(t *testing.T) {
	let := make(chan struct{})
	db := database("a", "b")
	db.Engine, db.Nodes, db.Incarnation = "thinker", startLogged(t, gossipEngine, 0, "a", "b").Database().Nodes, "one"
	cfg := Config{Database: &db, Engine: thinkerEngine(let), Procedures: procedures, ParseWorkload: parse, Journal: t.TempDir()}
	first := process(t, cfg)
	seen := func(n *Node) []uint64 { return n.loop.replica.(*thinker).seen }
	receive := func(n *Node, number uint64) {
		if err := n.peers[1].Receive(frame(number)); err != nil {
			t.Fatal(err)
		}
		if err := n.loop.turn(slices.Clone(n.peers[1].batch)); err != nil {
			t.Fatal(err)
		}
		n.peers[1].batch = nil
	}
	// over waits until a piece of work is complete, and handles its completion.
	over := func(n *Node) {
		for limit := time.NewTimer(20 * time.Second); ; {
			items, _ := n.box.take(nil)
			if err := n.loop.turn(items); err != nil {
				t.Fatal(err)
			}
			if len(items) > 0 {
				return
			}
			select {
			case <-n.box.wake:
			case <-limit.C:
				t.Fatal("not after 20 s: the end of the work")
			}
		}
	}
	receive(first, 1)
	receive(first, 2) // the first piece is still unfinished
	let <- struct{}{}
	over(first)
	receive(first, 3)
	receive(first, 4)
	want := []uint64{1, 2, 1001, 3, 4}
	if got := seen(first); !slices.Equal(got, want) {
		t.Fatalf("seen %d, want %d", got, want)
	}
	if err := first.loop.log.journal.Close(); err != nil {
		t.Fatal(err)
	}

	cfg.Engine = thinkerEngine(nil)
	second := process(t, cfg)
	if got := seen(second)[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("the replay has seen %d, want %d", got, want)
	}
	for range 3 {
		over(second)
	}
	if got, want := seen(second), append(want, 2004, 3009, 4016); !slices.Equal(got, want) {
		t.Errorf("the next process has seen %d, want %d", got, want)
	}
	close(let)
	first.loop.beside.working.Wait()
}
