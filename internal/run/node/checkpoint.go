package node

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/timers"
	"github.com/geobench/geobench/internal/net/wire"
	"github.com/geobench/geobench/internal/ops/admin"
)

// A log grows with the node's inputs. Once the log is long, the node writes a checkpoint of its state into the next
// generation of the journal and continues in that generation. Package journal describes when the old generation is
// discarded.
//
// The loop copies the replica's state and the references to the rows between two turns, because later turns change
// both. A goroutine compresses and writes the copy. Turns continue during the write, and the journal also copies their
// records to the next generation.

// leastCut is the minimum number of bytes by which a log grows before it is truncated, unless Config.CutJournal is set.
const leastCut = 32 << 20

const (
	// partBytes is the size of the rows in one record, before compression.
	partBytes = 256 << 10
	// partsPerSync is the number of records between two syncs. It bounds the unsynced part of a checkpoint and the number
	// of syncs.
	partsPerSync = 16
)

// state is a checkpoint of a node without its rows, which follow in separate records.
type state struct {
	// Elapsed is the time that timers see in the last turn. Clock is the value of the node's clock in that turn.
	Elapsed, Clock time.Duration
	// Chance is the state of the random number generator.
	Chance []byte
	Timers timers.Queue
	// Request is the admin.LoadRequest of the loaded data set as JSON; empty if no data set is loaded.
	Request []byte
	Loaded  admin.LoadResponse
	// Pending are the IDs of the unanswered client transactions.
	Pending []txn.ID
	// Links contains the state of the links, indexed by geo.NodeID.
	Links   []linkState
	Replica []byte
}

// linkState is the state of the link to a peer, for both directions.
type linkState struct {
	// Frame is the number of the peer's last frame that is completely in the log. Partial is the number of messages of the
	// next frame that are in the log.
	Frame   uint32
	Partial int
	Out     wire.Outstanding
}

// cutting is a truncation in progress: the node is writing a checkpoint to the journal's next generation.
type cutting struct {
	next    *journal.Next
	written bool // everything except the records of the latest turns has been written
	began   time.Duration
	paused  time.Duration // how long the loop was paused to take the checkpoint
	rows    int64         // size of the compressed rows, in bytes
	state   int           // size of the state without rows, in bytes
}

// close closes the log. It abandons an unfinished checkpoint.
func (l *nodeLog) close() {
	l.writing.Wait()
	_ = l.journal.Close() // commit has already synced every record that matters
}

func (n *Node) checkpointWorld() *checkpoint.World {
	c := n.replicaConfig()
	return checkpoint.NewWorld(n.cfg.Engine, &c)
}

// state returns a checkpoint of the node without its rows. Call it only between two turns.
func (l *loop) state() (*state, error) {
	n := l.n
	s := &state{Elapsed: l.at, Clock: l.clock, Timers: l.timers, Loaded: l.loaded, Links: make([]linkState, n.topology.Nodes())}
	var err error
	if s.Replica, err = checkpoint.Append(nil, n.checkpointWorld(), l.replica, n.cfg.Engine.New(n.replicaConfig())); err != nil {
		return nil, err
	}
	if s.Chance, err = l.chance.MarshalBinary(); err != nil {
		return nil, err
	}
	if l.request != nil {
		if s.Request, err = json.Marshal(l.request); err != nil {
			return nil, err
		}
	}
	for id := range l.pending {
		s.Pending = append(s.Pending, id)
	}
	// Sort the IDs, so that the checkpoint does not depend on the iteration order of the map.
	slices.Sort(s.Pending)
	for i := range s.Links {
		if link := n.endpoint.Link(geo.NodeID(i)); link != nil {
			s.Links[i] = linkState{l.log.whole[i], l.log.partial[i], link.Outstanding()}
		}
	}
	return s, nil
}

// cut starts a truncation if the log has reached cutAt. If the checkpoint of a truncation is completely written, cut
// switches to the next generation.
func (l *loop) cut() error {
	log := l.log
	switch c := log.cutting; {
	case c == nil:
		// A checkpoint does not cover work outside the loop, so wait until all such work is done.
		if log.journal.Bytes() < log.cutAt || l.beside.pieces.Len() > 0 {
			return nil
		}
		if err := l.beginCut(); err != nil {
			l.notCut(err)
		}
	case c.written:
		was := log.journal.Bytes()
		if err := log.journal.Switch(c.next); err != nil {
			l.notCut(err)
			// After a failed Switch the node continues with the current generation, unless the journal itself has failed.
			return log.journal.Failed()
		}
		log.cutting = nil
		l.cutLater()
		l.n.cfg.Log.Info("the log is cut short", "bytes", log.journal.Bytes(), "before", was, "rows", c.rows, "state", c.state,
			"paused", c.paused.Round(10*time.Microsecond), "took", (l.elapsedNow() - c.began).Round(time.Millisecond))
	}
	return nil
}

// cutLater schedules the next truncation relative to the current size of the log.
func (l *loop) cutLater() { l.cutFrom(l.log.journal.Bytes()) }

// cutFrom schedules the next truncation. head is the size in bytes of the log's records before its first turn; growth
// is measured from there.
func (l *loop) cutFrom(head int64) {
	grows := l.n.cfg.CutJournal
	if grows == 0 {
		grows = max(leastCut, l.store.Bytes()/2)
	}
	l.log.cutAt = head + grows
}

// notCut logs that a truncation failed, and postpones the next attempt until the log has grown further.
func (l *loop) notCut(err error) {
	l.n.cfg.Log.Error("the log is not cut short", "error", err)
	l.log.cutting = nil
	l.cutLater()
}

// beginCut takes a checkpoint and starts to write it.
func (l *loop) beginCut() error {
	n, log, began := l.n, l.log, l.elapsedNow()
	s, err := l.state()
	if err != nil {
		return err
	}
	b, err := checkpoint.Append([]byte{recordState}, &checkpoint.World{}, s, &state{})
	if err != nil {
		return err
	}
	next, err := log.journal.Next()
	if err != nil {
		return err
	}
	// Freeze the rows in the same pause as the state, so that both belong to the same turn.
	rows := l.store.Freeze()
	c := &cutting{next: next, began: began, paused: l.elapsedNow() - began, state: len(b)}
	log.cutting = c
	log.writing.Go(func() {
		err := c.write(log.identity, b, rows, n.done)
		n.box.post(func() {
			if err != nil {
				next.Discard()
				l.notCut(err)
				return
			}
			c.written = true
		})
	})
	return nil
}

// write writes the node's identity, the state and the rows to the next generation, followed by the turns that ran in
// the meantime. It returns early when the node stops.
func (c *cutting) write(identity, state []byte, rows store.Frozen, done <-chan struct{}) error {
	packer, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	for _, r := range [][]byte{identity, state} {
		if err := c.next.Append(r); err != nil {
			return err
		}
	}
	var part, record []byte
	for n, more := 1, true; more; n++ {
		select {
		case <-done:
			return errStopped
		default:
		}
		part, more = rows.Append(part[:0], partBytes)
		record = packer.EncodeAll(part, append(record[:0], recordRows))
		c.rows += int64(len(record))
		if err := c.next.Append(record); err != nil {
			return err
		}
		if n%partsPerSync == 0 {
			if err := c.next.Sync(); err != nil {
				return err
			}
		}
	}
	if err := c.next.Append([]byte{recordComplete}); err != nil {
		return err
	}
	return c.next.CatchUp()
}

// resume restores the state of a checkpoint. The rows follow in later records of the log.
func (l *loop) resume(s *state) error {
	n := l.n
	l.at, l.clock, l.timers, l.loaded = s.Elapsed, s.Clock, s.Timers, s.Loaded
	if err := l.chance.UnmarshalBinary(s.Chance); err != nil {
		return err
	}
	if len(s.Request) > 0 {
		req := &admin.LoadRequest{}
		if err := json.Unmarshal(s.Request, req); err != nil {
			return err
		}
		w, err := n.cfg.ParseWorkload(req.Workload, req.Seed, n.topology)
		if err != nil {
			return err
		}
		l.holds(req, w)
	}
	for _, id := range s.Pending {
		l.pending[id] = nil // the client's connection did not survive the restart
	}
	for i := range s.Links {
		if link := n.endpoint.Link(geo.NodeID(i)); link != nil {
			l.log.whole[i], l.log.partial[i] = s.Links[i].Frame, s.Links[i].Partial
			link.Sent(&s.Links[i].Out)
		}
	}
	return checkpoint.Read(s.Replica, n.checkpointWorld(), l.replica)
}
