// Package broken contains faulty variants, each with a different defect. Tests of packages history and explore use them
// to verify that the checks find the defects. Some are real engines with one defect; the others are small databases in
// which each node holds all rows. A manifest cannot name any of them.
package broken

import (
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/blocks/rerun"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/calvin"
	"github.com/geobench/geobench/internal/engine/protocol/coco"
	"github.com/geobench/geobench/internal/engine/protocol/detock"
	"github.com/geobench/geobench/internal/engine/protocol/geogauss"
	"github.com/geobench/geobench/internal/engine/protocol/janus"
	"github.com/geobench/geobench/internal/engine/protocol/minerva"
	"github.com/geobench/geobench/internal/engine/protocol/oceanvista"
	"github.com/geobench/geobench/internal/engine/protocol/primary"
	"github.com/geobench/geobench/internal/engine/protocol/sdur"
	"github.com/geobench/geobench/internal/engine/protocol/slog"
	"github.com/geobench/geobench/internal/engine/protocol/spanner"
	"github.com/geobench/geobench/internal/engine/protocol/sunstorm"
)

// Database is a faulty variant.
type Database struct {
	*protocol.Engine
	// Mistake describes the defect.
	Mistake string
	// OnePartition is set if the database supports only one partition with one replica per region, or mostly stalls with
	// more.
	OnePartition bool
	// Hostile and Slow are set if the defect shows in scenarios of these kinds of package explore.
	Hostile, Slow bool
	// Core is set if the defect shows in the second phase of these scenarios, in which regions are lost permanently.
	Core bool
}

// All returns the faulty variants.
func All() []Database {
	return []Database{
		{Engine: ReadCommitted, Mistake: "a transaction reads committed rows without locks and writes later", OnePartition: true},
		{Engine: Snapshot, Mistake: "the database checks the rows that a transaction overwrites, but not the rows that it read", OnePartition: true},
		{Engine: ArrivalOrder, Mistake: "regions apply each other's writes as they arrive", OnePartition: true},
		{Engine: NearbyReads, Mistake: "reads are answered by a nearby copy that lags behind", OnePartition: true},
		{Engine: Forgetful, Mistake: "the database loses one transaction in a hundred", OnePartition: true},
		{Engine: calvin.AcknowledgedEverywhere, Mistake: "Calvin; a transaction is answered once all regions have acknowledged it, or after 30 s", Core: true},
		{Engine: calvin.UnfetchedData, Mistake: "Calvin; a node that lacks the data of a batch whose sequencer is lost requests it from no other node"},
		{Engine: coco.CommittedInOneRegion, Mistake: "COCO; an epoch is committed once the nodes of the coordinator's region have voted"},
		{Engine: coco.AnsweredEarly, Mistake: "COCO; a transaction is answered before its epoch is committed"},
		{Engine: coco.ForgottenCopy, Mistake: "COCO; an aborted epoch is rolled back on only one node"},
		{Engine: coco.Unextended, Mistake: "COCO; reads are validated without extending the time up to which they are valid"},
		{Engine: coco.Unchecked, Mistake: "COCO; rows are locked even if they have changed since they were read"},
		{Engine: coco.RowsOnly, Mistake: "COCO; only the rows that a scan found are validated, so rows inserted since are missed", Hostile: true, Slow: true},
		{Engine: coco.AppliedOnArrival, Mistake: "COCO; copies apply writes in arrival order", Slow: true},
		{Engine: coco.Undrained, Mistake: "COCO; a node votes for an epoch before it has received the writes of the other nodes"},
		{Engine: detock.UnfetchedData, Mistake: "Detock; a node that lacks the data of a batch whose coordinator is lost requests it from no other node"},
		{Engine: geogauss.EarlyMerge, Mistake: "GeoGauss; an epoch is merged before the write sets of all servers have arrived"},
		{Engine: geogauss.WonOnArrival, Mistake: "GeoGauss; the write set that arrives first wins a row"},
		{Engine: geogauss.PartialAbort, Mistake: "GeoGauss; a transaction that has lost a row commits its other rows"},
		{Engine: geogauss.Overwrites, Mistake: "GeoGauss; write sets are not compared with write sets of earlier epochs"},
		{Engine: geogauss.OwnLast, Mistake: "GeoGauss; every copy counts those epochs of a lost server that it has received itself", Hostile: true},
		{Engine: janus.WithoutReadWriteEdges, Mistake: "Janus; a write does not depend on earlier reads of its row", Hostile: true, Slow: true},
		{Engine: minerva.CutWithoutProof, Mistake: "Minerva; a cut includes batches that only their own replica holds, without a proof of availability"},
		{Engine: minerva.ReexecutedOnArrival, Mistake: "Minerva; conflicting transactions are re-executed in arrival order"},
		{Engine: minerva.ForgottenCascade, Mistake: "Minerva; transactions are committed although they read from re-executed transactions"},
		{Engine: minerva.OwnNumbering, Mistake: "Minerva; every replica numbers the vertices of the conflict graph starting with its own chains"},
		{Engine: minerva.RowsOnly, Mistake: "Minerva; only the rows that a scan found are validated, so rows inserted since are missed"},
		{Engine: minerva.ClearedState, Mistake: "Minerva; at each epoch a replica discards the uncommitted writes of its own transactions, as in the paper", Slow: true},
		{Engine: oceanvista.LateWrites, Mistake: "Ocean Vista; a server issues timestamps below its own watermark", OnePartition: true},
		{Engine: oceanvista.VisibleBeforeStable, Mistake: "Ocean Vista; the watermark passes functors that no majority has stored", Hostile: true},
		{Engine: oceanvista.EvaluatedOnArrival, Mistake: "Ocean Vista; visible functors are evaluated in arrival order", OnePartition: true},
		{Engine: oceanvista.ForgottenFunctors, Mistake: "Ocean Vista; all unfinished functors of a lost server count as not written"},
		{Engine: oceanvista.LateSPhase, Mistake: "Ocean Vista; replicas still store functors of a server after the decision about them"},
		{Engine: primary.AppliedTwice, Mistake: "primary; a request that a coordinator repeats after a lost connection is executed again", Hostile: true},
		{Engine: primary.OutOfOrder, Mistake: "primary; copies apply log entries that arrive together from the last to the first"},
		{Engine: primary.UnaskedWriter, Mistake: "primary; global reads do not request the writer's log position"},
		{Engine: primary.ForgottenSession, Mistake: "primary; a session does not wait for its own writes"},
		{Engine: primary.Unvalidated, Mistake: "primary; forwarded transactions commit even if their reads have changed"},
		{Engine: primary.EarlyHandover, Mistake: "primary; the writer hands over before the end of its log is shipped"},
		{Engine: sdur.LeapsOverReads, Mistake: "SDUR; a local transaction leaps over transactions that have read the rows that it writes"},
		{Engine: sdur.LeapsOverWrites, Mistake: "SDUR; a local transaction leaps over transactions that write the rows that it has read"},
		{Engine: sdur.CompletedAtFirstVote, Mistake: "SDUR; a global transaction completes when the first of the other groups has voted"},
		{Engine: sdur.ForgetsPending, Mistake: "SDUR; certification ignores transactions that are delivered but pending"},
		{Engine: sdur.CertifiedOneWay, Mistake: "SDUR; the writes of a global transaction are not certified against the reads of other transactions"},
		{Engine: sdur.NewestCut, Mistake: "SDUR; a read-only transaction sees the newest rows of each group and is not certified"},
		{Engine: slog.MergedOnArrival, Mistake: "SLOG; a region merges the local logs in arrival order"},
		{Engine: slog.TakenOnArrival, Mistake: "SLOG; a reader of a home log takes all multi-home transactions that it has received, not the number that the log records"},
		{Engine: slog.SilentLeader, Mistake: "SLOG; a new leader of a home log takes the multi-home transactions that its predecessor left untaken only with the next transaction"},
		{Engine: spanner.ReleasedAtPrepare, Mistake: "spanner; locks are released when a transaction is prepared, before it is committed"},
		{Engine: spanner.CommittedAtFirstVote, Mistake: "spanner; a transaction is committed once the first of its groups has prepared it"},
		{Engine: spanner.LostResolution, Mistake: "spanner; a new leaseholder treats the commit of a transaction that its predecessor prepared as an abort"},
		{Engine: spanner.StaleLease, Mistake: "spanner; a leaseholder answers reads even without a valid lease", Hostile: true, Slow: true},
		{Engine: spanner.EarlySnapshot, Mistake: "spanner; a member reads a snapshot before its timestamp is closed", Hostile: true, Slow: true},
		{Engine: sunstorm.WithoutReaderRule, Mistake: "SunStorm; a transaction may read rows that a prepared transaction will write"},
		{Engine: sunstorm.WithoutWriterRule, Mistake: "SunStorm; a transaction may write rows that a prepared transaction has read", Hostile: true},
		{Engine: sunstorm.VotesCountedTwice, Mistake: "SunStorm; every vote is counted twice"},
		{Engine: sunstorm.AppliedOutOfOrder, Mistake: "SunStorm; copies apply the entries of a log in random order"},
		{Engine: sunstorm.Unvalidated, Mistake: "SunStorm; reads of stale copies are not validated against the current rows"},
		{Engine: sunstorm.RowsOnly, Mistake: "SunStorm; only the rows that a scan found are validated, so rows inserted since are missed"},
		{Engine: sunstorm.NobodyDies, Mistake: "SunStorm; a multi-region transaction waits for a transaction that is prepared to write the same row, and does not abort"},
	}
}

// ReadCommitted reads committed rows and writes a little later, unconditionally, so updates are lost.
var ReadCommitted = engine("read-committed", func(n *node, t *txn.Transaction) {
	writes, o := n.run(t)
	n.after(time.Duration(n.Env.Rand().IntN(2000))*time.Microsecond, func() {
		n.apply(writes, t.ID)
		n.Env.Reply(o)
	})
})

// Snapshot is ReadCommitted, except that a transaction aborts if its rows were overwritten in the meantime: the first
// updater wins. It has no other rule of snapshot isolation and does not check reads, which allows write skew.
var Snapshot = engine("snapshot", func(n *node, t *txn.Transaction) {
	writes, o := n.run(t)
	versions := map[txn.Key]txn.ID{}
	for _, w := range writes {
		r, _ := n.rows.Get(w.Key)
		versions[w.Key] = r.Writer
	}
	n.after(time.Duration(n.Env.Rand().IntN(2000))*time.Microsecond, func() {
		for k, v := range versions {
			if r, _ := n.rows.Get(k); r.Writer != v {
				writes, o = nil, txn.Outcome{ID: t.ID, Status: txn.Aborted, Cause: txn.CauseConflict, Reason: overtaken}
			}
		}
		n.apply(writes, t.ID)
		n.Env.Reply(o)
	})
})

// ArrivalOrder executes transactions immediately at the client's node and sends the writes to the other regions, which
// apply them in arrival order. Updates are lost and copies diverge.
var ArrivalOrder = engine("arrival-order", func(n *node, t *txn.Transaction) {
	writes, o := n.run(t)
	n.apply(writes, t.ID)
	n.others(func(id geo.NodeID) { n.Env.Send(id, &parcel{func(to *node) { to.apply(writes, t.ID) }}) })
	n.Env.Reply(o)
})

// NearbyReads executes all transactions that write at the first node, whose log the other nodes follow. It answers
// read-only transactions at the client's node, from a past state: serializable but stale.
var NearbyReads = engine("nearby-reads", func(n *node, t *txn.Transaction) { n.first(t, n.Procedures.ReadsOnly(t)) })

// Forgetful executes all transactions at the first node, but loses one in a hundred on the way there.
var Forgetful = engine("forgetful", func(n *node, t *txn.Transaction) {
	if n.Env.Rand().IntN(100) > 0 {
		n.first(t, false)
	}
})

// first executes a transaction at the first node, or at this node if here is set. All nodes apply its writes in the
// first node's order.
func (n *node) first(t *txn.Transaction, here bool) {
	if here || n.Self == 0 {
		writes, o := n.run(t)
		n.apply(writes, t.ID)
		if len(writes) > 0 {
			n.others(func(id geo.NodeID) { n.Env.Send(id, &parcel{func(to *node) { to.apply(writes, t.ID) }}) })
		}
		n.Env.Reply(o)
		return
	}
	from := n.Self
	n.Env.Send(0, &parcel{func(first *node) {
		writes, o := first.run(t)
		first.apply(writes, t.ID)
		first.others(func(id geo.NodeID) {
			first.Env.Send(id, &parcel{func(to *node) {
				to.apply(writes, t.ID)
				if id == from {
					to.Env.Reply(o)
				}
			}})
		})
	}})
}

// node is a replica of a database with one node per region.
type node struct {
	protocol.Config
	rows    *store.Hash
	submit  func(*node, *txn.Transaction)
	pending map[uint64]func()
	count   uint64
}

// overtaken is the reason of Snapshot's aborts.
const overtaken = "overtaken"

// engine returns an engine without Decode: its messages contain functions and cannot be encoded.
func engine(name string, submit func(*node, *txn.Transaction)) *protocol.Engine {
	return &protocol.Engine{Name: name, Aborts: []string{overtaken}, New: func(c protocol.Config) protocol.Replica {
		return &node{Config: c, rows: c.Store.(*store.Hash), submit: submit, pending: map[uint64]func(){}}
	}}
}

func (n *node) Start()                                             {}
func (n *node) Submit(t *txn.Transaction)                          { n.submit(n, t) }
func (n *node) Receive(_ geo.NodeID, m protocol.Message)           { m.(*parcel).arrive(n) }
func (n *node) Pending() int                                       { return len(n.pending) }
func (n *node) Readings(dst []protocol.Reading) []protocol.Reading { return dst }
func (n *node) Fire(t protocol.Timer) {
	f := n.pending[t.Arg]
	delete(n.pending, t.Arg)
	f()
}

// after calls f once d has passed.
func (n *node) after(d time.Duration, f func()) {
	n.count++
	n.pending[n.count] = f
	n.Env.After(d, protocol.Timer{Arg: n.count})
}

// parcel is a message that carries the function to call on arrival.
type parcel struct{ arrive func(*node) }

func (*parcel) Kind() uint8              { return 1 }
func (*parcel) Size() int                { return 100 }
func (*parcel) AppendTo(b []byte) []byte { return append(b, make([]byte, 100)...) }

func (n *node) others(f func(geo.NodeID)) {
	for id := range geo.NodeID(n.Topology.Nodes()) {
		if id != n.Self {
			f(id)
		}
	}
}

// run executes a transaction and returns its writes.
func (n *node) run(t *txn.Transaction) ([]txn.WriteEntry, txn.Outcome) {
	k := rerun.New(n.Procedures, t, n.rows, true)
	for needs := k.Step(); len(needs) > 0; needs = k.Step() {
		for _, need := range needs {
			k.Supply(n.read(need.Range))
		}
	}
	result, err := k.Result()
	if err != nil {
		return nil, txn.AbortOutcome(t.ID, err)
	}
	return k.Writes().Entries(), txn.Outcome{ID: t.ID, Status: txn.Committed, Result: result, Class: k.Class(n.Topology.Placement())}
}

// read returns the rows of a range that this node has.
func (n *node) read(r txn.Range) rerun.Read {
	read := rerun.Read{Range: r}
	n.rows.Scan(r, func(k txn.Key, rec store.Record) bool {
		read.Rows = append(read.Rows, rerun.Row{Key: k, Record: rec})
		return true
	})
	return read
}

func (n *node) apply(writes []txn.WriteEntry, id txn.ID) {
	for _, w := range writes {
		if w.Deleted {
			n.rows.Delete(w.Key)
		} else {
			n.rows.Put(w.Key, w.Value, id)
		}
	}
}
