package spanner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/coverage"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/blocks/raftgroup"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// lone is the environment of a leaseholder whose group has no other member, so that its proposals commit immediately.
// It records the leaseholder's messages to the coordinator, node 1.
type lone struct {
	*Replica
	now  time.Duration
	said []string
}

func (l *lone) Now() time.Duration                 { return l.now }
func (*lone) After(time.Duration, protocol.Timer)  {}
func (*lone) Offload(func() int64, protocol.Timer) {}
func (*lone) Reply(txn.Outcome)                    {}
func (*lone) Rand() *rand.Rand                     { return rand.New(rand.NewPCG(1, 1)) }
func (*lone) Mark(*coverage.Mark)                  {}
func (*lone) Buggify(*buggify.Point) bool          { return false }

func (l *lone) Send(_ geo.NodeID, m protocol.Message) {
	switch m := m.(type) {
	case *Rows:
		l.said = append(l.said, fmt.Sprintf("rows for %d", m.Number))
	case *Answer:
		l.said = append(l.said, fmt.Sprintf("%v %d", m.Reply, m.Number))
	case *Status:
		l.said = append(l.said, fmt.Sprintf("status of %d", m.Of.Number))
	}
}

// newLone returns the leaseholder of the rows 0, 2, 4, ... and of the groups of rows 0, 2, 4, ...
func newLone(t *testing.T) *lone {
	t.Helper()
	topology := simload.TwoRegions(1)
	topology.Groups = []geo.CellGroup{
		{Cell: geo.Cell{Home: 0}, Replicas: []int{1, 0}, Leader: 0}, {Cell: geo.Cell{Home: 1}, Replicas: []int{0, 1}, Leader: 1},
	}
	if err := topology.Validate(); err != nil {
		t.Fatal(err)
	}
	rows := store.NewVersioned()
	l := &lone{now: time.Second}
	simload.FillLayout(topology.Placed(), 6, 10, func(geo.NodeID) store.Store { return rows })
	simload.FillGroups(topology.Placed(), 2, 4, func(geo.NodeID) store.Store { return rows })
	l.Replica = newReplica(protocol.Config{
		Self: 0, Topology: topology, Params: protocoltest.Params(t, Engine, nil), Procedures: simload.Procedures, Store: rows, Env: l,
	}, options{})
	l.Start()
	return l
}

func (l *lone) header(number uint64) Header { return Header{Term: 1, Number: number} }

func age(number uint64) Age { return Age{Start: number, ID: txn.MakeID(1, number)} }

func (l *lone) read(number uint64, again bool, ranges ...txn.Range) {
	m := &Read{Header: l.header(number), Age: age(number), Again: again}
	for _, r := range ranges {
		m.Wants = append(m.Wants, rerun.Need{Range: r, Mode: txn.Read})
	}
	l.Receive(1, m)
}

func effectsOn(l *lone, number, held uint64, keys ...txn.Key) Effects {
	e := Effects{Header: l.header(number), Age: age(number), Held: held}
	for _, k := range keys {
		e.Writes = append(e.Writes, txn.WriteEntry{Key: k, Value: []byte("new")})
	}
	return e
}

func (l *lone) prepare(number, held uint64, keys ...txn.Key) {
	l.Receive(1, &Prepare{Effects: effectsOn(l, number, held, keys...), Anchor: 0, Participants: []int{0, 1}})
}

func (l *lone) commit(number uint64, keys ...txn.Key) {
	l.Receive(1, &Commit{effectsOn(l, number, 0, keys...)})
}

func (l *lone) hears(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(l.said, ", "); got != want {
		t.Errorf("the coordinator hears %q, want %q", got, want)
	}
	l.said = nil
}

// If a coordinator assumes that its transaction has locks and this leaseholder has granted none, the locks are lost.
// The transaction must not read further rows.
func TestLostLocksReadNothing(t *testing.T) {
	l := newLone(t)
	l.read(1, true, txn.Point(simload.Key(0)))
	l.hears(t, "lost 1")
	l.read(2, false, txn.Point(simload.Key(0)))
	l.hears(t, "rows for 2")
}

// A group that has reported that it will never prepare a transaction refuses a later request to prepare it.
func TestPreventedIsNotPrepared(t *testing.T) {
	l := newLone(t)
	l.Receive(1, &Query{Group: 0, Term: 1, Of: raftgroup.Name{Coordinator: 1, Number: 1}, For: 1})
	l.hears(t, "status of 1")
	l.prepare(1, 0, simload.Key(0))
	l.hears(t, "lost 1")
	if n := len(l.groups[0].prepared); n > 0 {
		t.Errorf("%d are prepared", n)
	}
}

// The next leaseholder knows the reads of a prepared transaction: a writer of these rows waits until the transaction
// has ended. The same applies to a leaseholder that was restored from a snapshot.
func TestPreparedReadsAreLocked(t *testing.T) {
	l := newLone(t)
	l.read(1, false, txn.Point(simload.Key(0)), txn.Point(simload.Key(2)))
	l.prepare(1, 1, simload.Key(2))
	l.hears(t, "rows for 1, prepared 1")
	restored := newLone(t)
	restored.groups[0].Restore(l.groups[0].Snapshot())
	for name, l := range map[string]*lone{"by its log": l, "by a snapshot": restored} {
		l.groups[0].Step(true)
		l.commit(2, simload.Key(0))
		l.hears(t, "contended 1")
		l.Receive(1, &Resolve{Header: l.header(1), Of: 1, Outcome: Outcome{Committed: true, Timestamp: l.clock.Tick(l.now)}})
		l.hears(t, "resolved 1, committed 2")
		if n := len(l.groups[0].prepared); n > 0 {
			t.Errorf("%s: %d are prepared", name, n)
		}
	}
}

// The next leaseholder also knows the scanned ranges of a prepared transaction. A write into such a range waits.
func TestPreparedScansAreLocked(t *testing.T) {
	l := newLone(t)
	l.read(1, false, txn.Range{From: simload.GroupKey(0, 0), To: simload.GroupKey(0, 9)})
	l.prepare(1, 1, simload.Key(2))
	l.hears(t, "rows for 1, prepared 1")
	l.groups[0].Step(true)
	l.commit(2, simload.GroupKey(0, 9))
	l.hears(t, "committed 2")
	l.commit(3, simload.GroupKey(0, 8))
	l.hears(t, "contended 1")
}

// A scan that returns fewer rows than its limit covers its whole range.
func TestLimitedScansOfFewRows(t *testing.T) {
	l := newLone(t)
	l.read(1, false, txn.Range{From: simload.GroupKey(0, 0), To: simload.GroupKey(0, 99), Limit: 9})
	l.hears(t, "rows for 1")
	l.commit(2, simload.GroupKey(0, 50))
	l.hears(t, "")
}

// A scan in either direction that has reached its limit keeps the lock on its last row. It releases the locks on the
// rows after that row.
func TestLimitedScansKeepTheirLastRow(t *testing.T) {
	all := txn.Range{From: simload.GroupKey(0, 0), To: simload.GroupKey(0, 99), Limit: 2}
	for reverse, rows := range map[bool]struct{ last, behind uint8 }{false: {1, 2}, true: {2, 1}} {
		l := newLone(t)
		r := all
		r.Reverse = reverse
		l.read(1, false, r)
		l.hears(t, "rows for 1")
		l.commit(2, simload.GroupKey(0, rows.behind))
		l.hears(t, "committed 2")
		l.commit(3, simload.GroupKey(0, rows.last))
		l.hears(t, "")
	}
}
