package sunstorm

import (
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// timed is a protocoltest.Quiet whose clock the test sets.
type timed struct {
	*protocoltest.Quiet
	now time.Duration
}

func (e *timed) Now() time.Duration { return e.now }

// A node that restarts from its checkpoint applies the log parts that it had received but not applied. Later log parts
// find the transactions that these parts have prepared.
func TestCheckpointOfLaggingCopies(t *testing.T) {
	s, env := store.NewVersioned(), &timed{Quiet: protocoltest.NewQuiet()}
	c := protocol.Config{
		Self: 1, Topology: simload.Topology(1, 1, [][]float64{{0, 5}, {5, 0}}), Params: protocoltest.Params(t, Engine, map[string]string{"copyLag": "1s"}),
		Procedures: simload.Procedures, Store: s, Env: env,
	}
	writes := []txn.WriteEntry{{Key: simload.Key(0), Value: []byte("new")}}
	was, is := newReplica(c, none), newReplica(c, none)
	was.Receive(0, &Log{1, []Entry{{Prepared, 8, writes, Name{0, 1}}}})
	world := checkpoint.NewWorld(Engine, &c)
	world.Strict = true
	state, err := checkpoint.Append(nil, world, was, newReplica(c, none))
	if err == nil {
		err = checkpoint.Read(state, world, is)
	}
	if err != nil {
		t.Fatal(err)
	}
	env.now = time.Second
	if is.Fire(protocol.Timer{Kind: lagTimer}); is.copies[0].applied != 1 || len(is.copies[0].tentative) != 1 {
		t.Errorf("%d entries are applied, %d transactions are prepared", is.copies[0].applied, len(is.copies[0].tentative))
	}
	is.Receive(0, &Log{2, []Entry{{Kind: CommitPrepared, ID: 8}}})
	env.now = 2 * time.Second
	is.Fire(protocol.Timer{Kind: lagTimer})
	if rec, _ := s.Get(simload.Key(0)); string(rec.Value) != "new" {
		t.Errorf("the row is %q", rec.Value)
	}
}
