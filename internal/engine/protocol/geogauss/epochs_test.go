package geogauss

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// recorder is an environment that records sent messages, with a time that the test sets.
type recorder struct {
	now  time.Duration
	sent []protocol.Message
}

func (e *recorder) Now() time.Duration                    { return e.now }
func (e *recorder) Send(_ geo.NodeID, m protocol.Message) { e.sent = append(e.sent, m) }
func (e *recorder) After(time.Duration, protocol.Timer)   {}
func (e *recorder) Offload(func() int64, protocol.Timer)  {}
func (e *recorder) Reply(txn.Outcome)                     {}
func (*recorder) Mark(*coverage.Mark)                     {}
func (*recorder) Buggify(*buggify.Point) bool             { return false }
func (e *recorder) Rand() *rand.Rand                      { return rand.New(rand.NewPCG(1, 2)) }

// newServer returns the first of three servers.
func newServer(t *testing.T) (*Replica, *recorder) {
	t.Helper()
	p, errs := Engine.Resolve(nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	env := &recorder{}
	return newReplica(protocol.Config{
		Topology: simload.ThreeRegions(1), Params: p, Procedures: simload.Procedures, Store: Engine.NewStore(), Env: env,
	}, none), env
}

// bulk returns a write set with the given number of bytes.
func bulk(bytes int) []*WriteSet {
	return []*WriteSet{{ID: 1, Writes: []txn.WriteEntry{{Key: simload.Key(1), Value: make([]byte, bytes)}}}}
}

// If the kept epochs exceed the bound, the oldest epochs are discarded first, whichever server they belong to.
func TestOldestEpochsAreForgotten(t *testing.T) {
	r, _ := newServer(t)
	e := &r.epochs
	sets := bulk(keepBytes / 7) // six fit
	for epoch := uint64(1); epoch <= 4; epoch++ {
		for n := range e.servers {
			e.put(&Closed{Server: geo.NodeID(n), Epoch: epoch, After: epoch - 1, Sets: sets})
		}
	}
	e.base = 4
	e.collect()
	for n := range e.servers {
		if log := e.servers[n].log; len(log) != 2 || log[0].Epoch != 3 {
			t.Errorf("%d epochs of server %d are kept", len(log), n)
		}
	}
	if e.kept > keepBytes {
		t.Errorf("%d bytes are kept, of %d", e.kept, keepBytes)
	}
}

// Merged epochs are kept until all other servers have declared them complete in this view. A declaration in an earlier
// view may omit a server that now counts in the epoch.
func TestEpochsOfAnEarlierViewAreKept(t *testing.T) {
	for name, tc := range map[string]struct {
		view uint64
		kept int
	}{"in this view": {1, 1}, "in an earlier view": {0, 3}} {
		t.Run(name, func(t *testing.T) {
			r, _ := newServer(t)
			e := &r.epochs
			for epoch := uint64(1); epoch <= 3; epoch++ {
				e.put(&Closed{Server: 1, Epoch: epoch, After: epoch - 1})
			}
			r.members.view, e.base = 1, 3
			e.completed(1, 1, 3)
			e.completed(2, tc.view, 2)
			if e.collect(); len(e.servers[1].log) != tc.kept {
				t.Errorf("%d epochs are kept, want %d", len(e.servers[1].log), tc.kept)
			}
		})
	}
}

// A server that lacks discarded epochs receives no later epochs: it could not append them, and a second request would
// not return them again.
func TestRequestsBehindForgottenEpochs(t *testing.T) {
	r, env := newServer(t)
	e := &r.epochs
	for epoch := uint64(1); epoch <= 4; epoch++ {
		e.put(&Closed{Server: 1, Epoch: epoch, After: epoch - 1})
	}
	e.servers[1].log = e.servers[1].log[2:]
	for _, tc := range []struct {
		after uint64
		sent  int
	}{{1, 0}, {2, 2}, {2, 0}} {
		env.sent = nil
		if e.requested(2, &Request{Server: 1, After: tc.after}); len(env.sent) != tc.sent {
			t.Errorf("%d epochs are sent after epoch %d, want %d", len(env.sent), tc.after, tc.sent)
		}
	}
}

// If all members have left and some have joined again, these count immediately: no member is left whose end could
// report that they have joined.
func TestLastMemberLeaves(t *testing.T) {
	r, _ := newServer(t)
	e := &r.epochs
	e.servers[0].tenures = []tenure{{0, 50}, {3, forever}}
	e.servers[1].tenures = []tenure{{0, 60}, {5, forever}}
	e.servers[2].tenures = []tenure{{0, 70}}
	r.members.view = 6
	e.frontier, e.base, e.view, e.baseView = 70, 70, 2, 2
	for n, ended := range []uint64{50, 60, 70} {
		e.servers[n].ended = ended
	}
	sets := []*WriteSet{{Epoch: 71, ID: 1}}
	e.put(&Closed{Server: 0, Epoch: 71, After: 50, View: 6, Sets: sets})
	e.put(&Closed{Server: 1, Epoch: 71, After: 60, View: 6})
	e.walk()
	if e.frontier != 71 || e.view != 6 || len(e.ready) != 1 || len(e.ready[0].sets) != 1 {
		t.Errorf("the walk is at epoch %d in view %d, with %v", e.frontier, e.view, e.ready)
	}
	if !r.members.counts(0) || !r.members.counts(1) || r.members.counts(2) {
		t.Error("the members are not those that have joined again")
	}
}
