package janus

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// scripted is the environment of one replica. The test acts as all other replicas.
type scripted struct {
	t    *testing.T
	r    *Replica
	now  time.Duration
	sent []string // messages sent, as "to 1: ...", without Progress
	rng  *rand.Rand
}

func (s *scripted) Now() time.Duration                   { return s.now }
func (s *scripted) After(time.Duration, protocol.Timer)  {}
func (s *scripted) Offload(func() int64, protocol.Timer) {}
func (s *scripted) Reply(txn.Outcome)                    {}
func (*scripted) Mark(*coverage.Mark)                    {}
func (*scripted) Buggify(*buggify.Point) bool            { return false }
func (s *scripted) Rand() *rand.Rand                     { return s.rng }
func (s *scripted) Send(to geo.NodeID, m protocol.Message) {
	if _, ok := m.(*Progress); !ok {
		s.sent = append(s.sent, fmt.Sprintf("to %d: %v", to, m))
	}
}

// newScripted returns replica self of a database with one-millisecond links. Node n is in region n / partitions.
func newScripted(t *testing.T, regions, partitions int, self geo.NodeID) *scripted {
	return newIncarnation(t, regions, partitions, self, 0)
}

// newIncarnation is like newScripted, for the given incarnation of replica self.
func newIncarnation(t *testing.T, regions, partitions int, self geo.NodeID, incarnation uint32) *scripted {
	delays := make([][]float64, regions)
	for i := range delays {
		delays[i] = slices.Repeat([]float64{1}, regions)
	}
	params, errs := Engine.Resolve(map[string]string{"patience": "100ms", "recovery": "1s"})
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	s := &scripted{t: t, rng: rand.New(rand.NewPCG(1, 0))}
	s.r = newReplica(protocol.Config{
		Self: self, Incarnation: incarnation, Topology: simload.Topology(partitions, 1, delays), Params: params, Procedures: simload.Procedures, Store: store.NewHash(), Env: s,
	})
	s.r.Start()
	return s
}

// preAccept returns the PreAccept message of an instance. Its transaction conflicts only with transactions that use the
// same row.
func preAccept(id Instance, ops string) *PreAccept {
	return &PreAccept{id.Seq(), simload.Txn(txn.MakeID(uint32(id.Node())+1, id.Seq()), ops)}
}

// hear delivers a message of another node.
func (s *scripted) hear(from geo.NodeID, m protocol.Message) { s.r.Receive(from, m) }

// pass advances time, with a tick at the end.
func (s *scripted) pass(d time.Duration) {
	s.now += d
	s.r.Fire(protocol.Timer{Kind: tickTimer})
}

// sends fails unless the replica has sent exactly these messages after the last check.
func (s *scripted) sends(want ...string) {
	s.t.Helper()
	if !slices.Equal(s.sent, want) {
		s.t.Fatalf("the replica has sent\n  %s\nwant\n  %s", strings.Join(s.sent, "\n  "), strings.Join(want, "\n  "))
	}
	s.sent = nil
}

func deps(ids ...Instance) (list []Dep) {
	for _, id := range ids {
		list = append(list, Dep{ID: id})
	}
	return list
}

func ballot(round int, of geo.NodeID) Ballot { return Ballot(round)<<16 | Ballot(of) }
