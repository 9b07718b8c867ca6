package consensus

import (
	"reflect"
	"runtime"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// functionsOf returns the names of the functions in Raft's fields, by field.
func functionsOf(n *raft.RawNode) map[string]string {
	r := reflect.ValueOf(n).Elem().FieldByName("raft").Elem()
	names := map[string]string{}
	for i := range r.NumField() {
		if f := r.Field(i); f.Kind() == reflect.Func {
			names[r.Type().Field(i).Name] = runtime.FuncForPC(f.Pointer()).Name()
		}
	}
	return names
}

// A RawNode that inRole has brought into a role has the same functions as a RawNode that reached it in a real group.
// All its other fields are data, which the checkpoint contains.
func TestRolesAreWritten(t *testing.T) {
	log := raft.NewMemoryStorage()
	voters := []uint64{1, 2, 3}
	err := log.ApplySnapshot(&raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: &raftpb.ConfState{Voters: voters},
	}})
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(1, log, 1)
	answer := func(kind raftpb.MessageType, term uint64) func() error {
		return func() error {
			return n.Step(&raftpb.Message{Type: kind.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: new(term)})
		}
	}
	seen := []raft.StateType{}
	for _, next := range []func() error{
		func() error { return nil }, n.Campaign, answer(raftpb.MsgPreVoteResp, 1), answer(raftpb.MsgVoteResp, 1),
	} {
		if err := next(); err != nil {
			t.Fatal(err)
		}
		for n.HasReady() {
			rd := n.Ready()
			if err := log.Append(rd.Entries); err != nil {
				t.Fatal(err)
			}
			n.Advance(rd)
		}
		role := n.BasicStatus().RaftState
		seen = append(seen, role)
		want, got := functionsOf(n), functionsOf(inRole(role, 1))
		if len(want) != 2 || want["step"] == "" || want["tick"] == "" {
			t.Errorf("Raft has functions %v: which of them does a role have?", want)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %v, want %v", role, got, want)
		}
	}
	if want := []raft.StateType{raft.StateFollower, raft.StatePreCandidate, raft.StateCandidate, raft.StateLeader}; !slices.Equal(seen, want) {
		t.Errorf("roles %v, want %v", seen, want)
	}
}
