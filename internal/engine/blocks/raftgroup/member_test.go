package raftgroup

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
)

// quiet is an environment that ignores all calls.
type quiet struct{}

func (quiet) Now() time.Duration                   { return 0 }
func (quiet) Send(geo.NodeID, protocol.Message)    {}
func (quiet) After(time.Duration, protocol.Timer)  {}
func (quiet) Offload(func() int64, protocol.Timer) {}
func (quiet) Reply(txn.Outcome)                    {}
func (quiet) Rand() *rand.Rand                     { return rand.New(rand.NewPCG(1, 1)) }
func (quiet) Mark(*coverage.Mark)                  {}
func (quiet) Buggify(*buggify.Point) bool          { return false }

// served is a state machine that records the requests that it serves and counts leadership changes.
type served struct {
	requests    []protocol.Message
	began, left int
}

func (s *served) Step(leads bool) {
	if leads {
		s.began++
	} else {
		s.left++
	}
}
func (s *served) Serve(_ geo.NodeID, m protocol.Message) { s.requests = append(s.requests, m) }
func (*served) Advance()                                 {}
func (*served) Entry([]byte) []byte                      { return nil }
func (*served) Apply([]byte)                             {}
func (*served) Snapshot() []byte                         { return nil }
func (*served) Restore([]byte)                           {}

// newMember returns a member of a group. The only member of a group leads in term 1; a group of three has no leader
// yet.
func newMember(members ...geo.NodeID) (*Member, *served) {
	s := &served{}
	m := &Member{node: &Node{Config: Config{Nodes: 3, Env: quiet{}}}, machine: s}
	m.Raft = consensus.New(consensus.Config{Members: members, Env: quiet{}, Apply: m.apply, Lead: m.lead, Snapshot: s.Snapshot, Restore: s.Restore})
	m.Start()
	return m, s
}

// A leader serves requests for its term, drops requests for an earlier term, and delays requests for a later term.
func TestRequestsOfATerm(t *testing.T) {
	m, s := newMember(0)
	m.settle()
	for term := range uint64(3) {
		m.Admit(1, term, &Lead{Term: term})
	}
	if len(s.requests) != 1 || s.requests[0].(*Lead).Term != 1 || len(m.held) != 1 || m.held[0].term != 2 {
		t.Errorf("in term 1 it serves %v and holds %v, want those of terms 1 and 2", s.requests, m.held)
	}
}

// A member is deposed if it led in an earlier term or no longer leads.
func TestDeposed(t *testing.T) {
	for name, tc := range map[string]struct {
		members []geo.NodeID
		term    uint64
		want    bool
	}{
		"leads":                  {[]geo.NodeID{0}, 1, true},
		"leads in a later term":  {[]geo.NodeID{0}, 0, false},
		"does not lead any more": {[]geo.NodeID{0, 1, 2}, 0, false},
	} {
		m, s := newMember(tc.members...)
		m.Serving, m.Term = true, tc.term
		if got := m.Leads(); got != tc.want || s.left != map[bool]int{true: 0, false: 1}[tc.want] {
			t.Errorf("%s: %t, and was deposed %d times", name, got, s.left)
		}
	}
}
