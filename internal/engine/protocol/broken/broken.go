// Package broken contains faulty variants, each with a different defect, which test package history and package
// explore. Some are real engines with one defect; the others are small databases in which each node holds all rows. A
// manifest cannot name any of them.
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
		{Engine: ReadCommitted, Mistake: "reads what is committed, without locks, and writes later", OnePartition: true},
		{Engine: Snapshot, Mistake: "checks what a transaction overwrites, but not what it has read", OnePartition: true},
		{Engine: ArrivalOrder, Mistake: "every region executes at once and applies the others' writes as they arrive", OnePartition: true},
		{Engine: NearbyReads, Mistake: "what only reads is answered from a copy nearby that lags behind", OnePartition: true},
		{Engine: Forgetful, Mistake: "loses one transaction in a hundred on its way", OnePartition: true},
		{Engine: calvin.AcknowledgedEverywhere, Mistake: "Calvin; a transaction is answered when all regions have acknowledged it, or after 30 s", Core: true},
		{Engine: calvin.UnfetchedData, Mistake: "Calvin; who lacks the data of a batch whose sequencer is lost asks nobody for it"},
		{Engine: coco.CommittedInOneRegion, Mistake: "COCO; an epoch is committed when the nodes of the coordinator's region have voted"},
		{Engine: coco.AnsweredEarly, Mistake: "COCO; a transaction is answered before its epoch is committed"},
		{Engine: coco.ForgottenCopy, Mistake: "COCO; an epoch that is aborted is rolled back on one node alone"},
		{Engine: coco.Unextended, Mistake: "COCO; what was read is validated without extending the time up to which it was read"},
		{Engine: coco.Unchecked, Mistake: "COCO; rows are locked whether they have changed since they were read or not"},
		{Engine: coco.RowsOnly, Mistake: "COCO; of a scan the rows that it has met are validated, and not that there are no others", Hostile: true, Slow: true},
		{Engine: coco.AppliedOnArrival, Mistake: "COCO; copies write what transactions have written in the order in which it arrives", Slow: true},
		{Engine: coco.Undrained, Mistake: "COCO; a node votes for an epoch before it has the writes of the others"},
		{Engine: detock.UnfetchedData, Mistake: "Detock; who lacks the data of a batch whose coordinator is lost asks nobody for it"},
		{Engine: geogauss.EarlyMerge, Mistake: "GeoGauss; an epoch is merged before all write sets of all servers are in"},
		{Engine: geogauss.WonOnArrival, Mistake: "GeoGauss; a row goes to the write set that has arrived first"},
		{Engine: geogauss.PartialAbort, Mistake: "GeoGauss; a transaction that has lost a row commits the others"},
		{Engine: geogauss.Overwrites, Mistake: "GeoGauss; write sets are not compared with those of earlier epochs"},
		{Engine: geogauss.OwnLast, Mistake: "GeoGauss; every copy counts the epochs of a lost server that it has", Hostile: true},
		{Engine: janus.WithoutReadWriteEdges, Mistake: "Janus; a write does not depend on the reads before it", Hostile: true, Slow: true},
		{Engine: minerva.CutWithoutProof, Mistake: "minerva; a cut includes batches that nobody but their replica has, without a proof of availability"},
		{Engine: minerva.ReexecutedOnArrival, Mistake: "minerva; what conflicts is executed again in the order in which it has arrived"},
		{Engine: minerva.ForgottenCascade, Mistake: "minerva; transactions are committed that have read from others which are executed again"},
		{Engine: minerva.OwnNumbering, Mistake: "minerva; every replica numbers the vertices of the conflict graph from its own on"},
		{Engine: minerva.RowsOnly, Mistake: "minerva; of a scan the rows that it has met are validated, and not that there are no others"},
		{Engine: minerva.ClearedState, Mistake: "minerva; an epoch makes a replica forget what its own transactions wrote that are not committed yet", Slow: true},
		{Engine: oceanvista.LateWrites, Mistake: "Ocean Vista; a server issues timestamps that its watermark has passed", OnePartition: true},
		{Engine: oceanvista.VisibleBeforeStable, Mistake: "Ocean Vista; the watermark passes functors that no majority has", Hostile: true},
		{Engine: oceanvista.EvaluatedOnArrival, Mistake: "Ocean Vista; visible functors are evaluated in the order in which they have arrived", OnePartition: true},
		{Engine: oceanvista.ForgottenFunctors, Mistake: "Ocean Vista; none of the unfinished functors of a lost server is taken for written"},
		{Engine: oceanvista.LateSPhase, Mistake: "Ocean Vista; replicas store functors of a server although it is decided which were written"},
		{Engine: primary.AppliedTwice, Mistake: "primary; what a coordinator sends again after a lost connection is executed again", Hostile: true},
		{Engine: primary.OutOfOrder, Mistake: "primary; copies apply the entries of the log that come together from the last to the first"},
		{Engine: primary.UnaskedWriter, Mistake: "primary; global reads do not ask the writer how far the log has come"},
		{Engine: primary.ForgottenSession, Mistake: "primary; a session does not wait for what it has written"},
		{Engine: primary.Unvalidated, Mistake: "primary; forwarded transactions commit whether what they have read has changed or not"},
		{Engine: primary.EarlyHandover, Mistake: "primary; the writer hands over before the end of its log is shipped"},
		{Engine: sdur.LeapsOverReads, Mistake: "SDUR; a local transaction leaps over others that have read what it writes"},
		{Engine: sdur.LeapsOverWrites, Mistake: "SDUR; a local transaction leaps over others that write what it has read"},
		{Engine: sdur.CompletedAtFirstVote, Mistake: "SDUR; a global transaction completes when the first of the other groups has voted"},
		{Engine: sdur.ForgetsPending, Mistake: "SDUR; certification forgets transactions that are delivered and pending"},
		{Engine: sdur.CertifiedOneWay, Mistake: "SDUR; what a global transaction writes is not certified against what others have read"},
		{Engine: sdur.NewestCut, Mistake: "SDUR; what only reads sees the newest rows of each group, and is not certified"},
		{Engine: slog.MergedOnArrival, Mistake: "SLOG; a region merges the local logs in the order in which they arrive"},
		{Engine: slog.TakenOnArrival, Mistake: "SLOG; home logs take multi-home transactions as they have come to a reader, and not up to where the log says"},
		{Engine: slog.SilentLeader, Mistake: "SLOG; a new leader of a home log leaves to the next transaction what its predecessor had not taken of the multi-home order"},
		{Engine: spanner.ReleasedAtPrepare, Mistake: "spanner; locks are released when a transaction is prepared, before it is committed"},
		{Engine: spanner.CommittedAtFirstVote, Mistake: "spanner; a transaction is committed when the first of its groups has prepared it"},
		{Engine: spanner.LostResolution, Mistake: "spanner; a new leaseholder takes the commitment of what its predecessor prepared for an abortion"},
		{Engine: spanner.StaleLease, Mistake: "spanner; a leaseholder answers reads whether its lease is valid or not", Hostile: true, Slow: true},
		{Engine: spanner.EarlySnapshot, Mistake: "spanner; a member reads a snapshot before its time is closed", Hostile: true, Slow: true},
		{Engine: sunstorm.WithoutReaderRule, Mistake: "SunStorm; a transaction may read what one that is prepared will write"},
		{Engine: sunstorm.WithoutWriterRule, Mistake: "SunStorm; a transaction may write what one that is prepared has read", Hostile: true},
		{Engine: sunstorm.VotesCountedTwice, Mistake: "SunStorm; every vote is counted twice"},
		{Engine: sunstorm.AppliedOutOfOrder, Mistake: "SunStorm; copies apply the entries of a log in an order of chance"},
		{Engine: sunstorm.Unvalidated, Mistake: "SunStorm; what was read of stale copies is not compared with what the rows are"},
		{Engine: sunstorm.RowsOnly, Mistake: "SunStorm; of a scan the rows that it has met are validated, and not that there are no others"},
		{Engine: sunstorm.NobodyDies, Mistake: "SunStorm; a multi-region transaction waits for one that is prepared to write the same row, and does not die"},
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

// Snapshot is ReadCommitted, except that a transaction aborts if its rows were overwritten meanwhile: first updater
// wins. It has no other rule of snapshot isolation and does not check reads, which allows write skew.
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

// first executes a transaction at the first node, or at this node if here is set, and applies its writes at all nodes
// in the first node's order.
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

// after calls f after d.
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
