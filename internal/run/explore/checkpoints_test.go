package explore

import (
	"hash/fnv"
	"io"
	"testing"

	"github.com/geobench/geobench/internal/engine/engines"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
)

// Nodes of every engine write checkpoints at random times, and continue from them even after crashes. The database
// still passes all checks.
func TestCheckpoints(t *testing.T) {
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			sum := Soak(t.Context(), Config{Engine: e, Checkpoints: true, Buggify: true}, Seeds{First: 1, Count: 20}, func(r *Result) {
				if !r.Passed() {
					t.Error(r)
				}
			})
			t.Log(&sum)
			if sum.Written < 200 || sum.Restarted < 3 || sum.Committed < 300 {
				t.Errorf("little was explored: %v", &sum)
			}
		})
	}
}

// A node that continues from its checkpoint behaves like a node that simply continues. So if no node crashes, a
// scenario has the same events at the same times with and without checkpoints.
func TestCheckpointsChangeNothing(t *testing.T) {
	trace := func(c Config) (digest uint64, r *Result) {
		h := fnv.New64a()
		c.Trace = func(line string) { _, _ = io.WriteString(h, line+"\n") }
		r = Run(c)
		return h.Sum64(), r
	}
	for _, e := range engines.All() {
		t.Run(e.Name, func(t *testing.T) {
			compared := 0
			for seed := uint64(1); compared < 3; seed++ {
				c := Config{Engine: e, Seed: seed}
				usual, r := trace(c)
				if r.Restarted {
					continue
				}
				compared++
				c.Checkpoints = true
				if written, r := trace(c); written != usual || r.Written == 0 {
					t.Errorf("seed %d: something else happens with %d checkpoints", seed, r.Written)
				}
			}
		})
	}
}

// A node's checkpoint includes messages that the node has already sent, if the peer may still lose them with the
// unsynced tail of its log.
func TestCheckpointBesideALostTail(t *testing.T) {
	if r := Run(Config{Engine: slog.Engine, Seed: 264, Disk: true, Checkpoints: true}); !r.Passed() || r.Written == 0 || r.Torn == 0 {
		t.Error(r)
	}
}
