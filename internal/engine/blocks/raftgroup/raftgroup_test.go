package raftgroup

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/consensus"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

func raft(t testing.TB) *Raft {
	kind := raftpb.MsgHeartbeat
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&raftpb.Message{Type: &kind, To: new(uint64(1)), From: new(uint64(2)), Term: new(uint64(3))})
	if err != nil {
		t.Fatal(err)
	}
	return &Raft{300, &consensus.Message{Body: body, Type: kind}}
}

func TestCodec(t *testing.T) {
	protocoltest.Codec(t, map[string]protocol.Message{"lead": &Lead{7, 3}}, protocoltest.Of(Decode, nil))
	m := raft(t) // starts with another Raft message
	body := m.AppendTo(nil)
	if got, known, err := Decode(m.Kind(), body, nil); err != nil || !known || len(body) != m.Size() || !reflect.DeepEqual(got, m) {
		t.Errorf("%v in %d bytes comes back as %v, %v, %v", m, m.Size(), got, known, err)
	}
}

func FuzzDecode(f *testing.F) {
	protocoltest.FuzzCodec(f, map[string]protocol.Message{"lead": &Lead{7, 3}}, protocoltest.Of(Decode, nil))
}

// An outcome is stored until the transaction's coordinator reports that the outcome may be dropped. Snapshots contain
// the stored outcomes.
func TestEndings(t *testing.T) {
	s := Endings[string]{}
	for _, n := range []Name{{1, 3}, {1, 1}, {2, 7}, {1, 4}} {
		s.Finish(n, n.String())
	}
	look := func(s Endings[string], n Name) string {
		o, over, forgotten := s.Look(n)
		return fmt.Sprintf("%q %v %v", o, over, forgotten)
	}
	check := func(when string, want map[Name]string) {
		t.Helper()
		one := func(r *codec.Reader) string { return string([]byte(r.String())) }
		r := codec.NewReader(s.AppendTo(nil, codec.AppendString))
		again := ReadEndings(&r, one)
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		for n, w := range want {
			if got := look(s, n); got != w {
				t.Errorf("%s, %v is %s, want %s", when, n, got, w)
			}
			if got := look(again, n); got != w {
				t.Errorf("%s, %v comes back as %s, want %s", when, n, got, w)
			}
		}
	}
	check("at first", map[Name]string{{1, 3}: `"1/3" true false`, {1, 1}: `"1/1" true false`, {1, 2}: `"" false false`, {2, 7}: `"2/7" true false`})
	var gone []Name
	s.Forget(1, 4, func(n Name) { gone = append(gone, n) })
	check("afterwards", map[Name]string{{1, 3}: `"" false true`, {1, 1}: `"" false true`, {1, 4}: `"1/4" true false`, {2, 7}: `"2/7" true false`})
	if want := []Name{{1, 3}, {1, 1}}; !slices.Equal(gone, want) || s.Len() != 2 {
		t.Errorf("%v are forgotten and %d are not, want %v and 2", gone, s.Len(), want)
	}
}

// The nearest members come first. A leader's round trip to a majority is the round trip to the farthest member of the
// nearest majority.
func TestDistances(t *testing.T) {
	topology := simload.ThreeRegions(1)
	layout := topology.Placed()
	for n := range geo.NodeID(topology.Nodes()) {
		for shard, members := range Nearest(topology, &layout, n) {
			if members[0] != n || len(members) != 3 || Distance(topology, n, members[1]) > Distance(topology, n, members[2]) {
				t.Errorf("the members of %d are %v seen from %d", shard, members, n)
			}
		}
	}
	for shard := range layout.Shards() {
		g := layout.Group(shard)
		var others []int
		for _, m := range g.Members[1:] {
			others = append(others, int(Distance(topology, g.Leader, m)))
		}
		if got := int(Quorum(topology, g)); got != slices.Min(others) {
			t.Errorf("group %d has a majority after %d, want %d", shard, got, slices.Min(others))
		}
	}
}
