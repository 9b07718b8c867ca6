package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/journal"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/engine/checkpoint"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/ops/admin"
)

// A node with a log (Config.Journal) outlives its process. The node writes its inputs to the disk before it sends any
// message or answer that results from them. A replica is a deterministic state machine, so its inputs determine its
// state.
//
// A process that finds a log replays all inputs with the original clock values, and continues under the previous
// process's name. The replay generates the same messages again; links continue after the last frame in the peer's log.
// The node does not answer clients again: their connections are lost, and they treat the outcomes of their transactions
// in flight as unknown.
//
// The unit of the log is a turn of the event loop, with a single reading of the clock. A turn handles the received
// inputs and the timers that were due. A replay sends the messages of a turn in the same frames as the original run.

// Kinds of journal records; the kind is the first byte of a record.
const (
	recordIdentity     = 1 // owner as JSON; always the first record of a journal, and only there
	recordTurn         = 2 // a turn: see nodeLog.begin
	recordAcknowledged = 3 // for every link: node, uvarint | frame, uvarint
	recordState        = 4 // state, as written by package checkpoint; the second record of a truncated log
	recordRows         = 5 // compressed rows; after the state
	recordComplete     = 6 // no content; all rows of the checkpoint precede this record
)

// Kinds of inputs in a turn; the kind is the first byte of an input.
const (
	inputStart = 1 // no content
	// node, uvarint | frame, uvarint | 1 if the message completes the frame, else 0 | length, kind and message
	inputMessage = 2
	inputSubmit  = 3 // length and transaction
	inputLoad    = 4 // length and admin.LoadRequest as JSON
	inputBeside  = 5 // no content; the oldest piece of work outside the loop is done
)

// owner identifies the node that a log belongs to.
type owner struct {
	Database, Incarnation, Node, Process string
}

// acknowledgedEvery is the interval at which the log records the acknowledgements of peers. A replay regenerates all
// messages, but keeps only messages that peers had not acknowledged yet.
const acknowledgedEvery = time.Second

// nodeLog is the log of a node. Only the loop uses it.
type nodeLog struct {
	journal  *journal.Log
	identity []byte   // the first record
	cutting  *cutting // the checkpoint being written; nil for none
	cutAt    int64    // size of the journal, in bytes, at which it is truncated
	writing  sync.WaitGroup
	turn     []byte // record of the current turn
	inputs   int    // number of inputs in turn
	head     int    // bytes in turn before its inputs
	noted    time.Duration
	// ended contains, for each peer, the number of the last frame that the current turn completed; 0 for none.
	ended []uint32
	// whole contains, for each peer, the number of the last frame that is completely in the log. partial contains the
	// number of messages of the next frame that are in the log.
	whole   []uint32
	partial []int
}

// openLog opens the journal of this database incarnation, and adopts the previous process's name if there was one.
func (n *Node) openLog(folder string) error {
	db := n.cfg.Database
	if err := journal.RemoveOthers(n.cfg.Disk, folder, db.Incarnation); err != nil {
		return err
	}
	j, err := journal.OpenLog(n.cfg.Disk, folder, db.Incarnation)
	if err != nil {
		return err
	}
	nodes := n.topology.Nodes()
	l := &nodeLog{journal: j, ended: make([]uint32, nodes), whole: make([]uint32, nodes), partial: make([]int, nodes)}
	if err := n.identify(l); err != nil {
		_ = j.Close()
		return err
	}
	n.loop.log = l
	return nil
}

// identify writes the node's identity into a new log, or checks the identity in an existing log.
func (n *Node) identify(l *nodeLog) error {
	me := owner{n.cfg.Database.Name, n.cfg.Database.Incarnation, n.topology.NodeName(n.cfg.ID), n.process}
	if l.journal.Records() == 0 {
		b, err := json.Marshal(me)
		if err != nil {
			return err
		}
		l.identity = append([]byte{recordIdentity}, b...)
		if err := l.journal.Append(l.identity); err != nil {
			return err
		}
		return l.journal.Sync()
	}
	found := errors.New("found")
	var was owner
	err := l.journal.Each(func(r []byte) error {
		if r[0] != recordIdentity {
			return fmt.Errorf("the log begins with a record of kind %d, not with whose it is", r[0])
		}
		if err := json.Unmarshal(r[1:], &was); err != nil {
			return err
		}
		l.identity = slices.Clone(r)
		// Only the first record matters. Return an error to stop the iteration.
		return found
	})
	if !errors.Is(err, found) {
		return err
	}
	// The process name may differ, and the node adopts it. Everything else must match, or another node's state would be
	// replayed.
	if me.Process = was.Process; me != was {
		return fmt.Errorf("the log in folder %s is of %+v, not of %+v; give every node a folder of its own", n.cfg.Journal, was, me)
	}
	n.process = was.Process
	return nil
}

// restored reports whether the log has records to replay, in addition to the node's identity.
func (l *nodeLog) restored() bool { return l != nil && l.journal.Records() > 1 }

// begin starts the record of a turn. elapsed is the time of the timers and now the value of the node's clock.
func (l *nodeLog) begin(elapsed, now time.Duration) {
	l.turn = codec.AppendUvarint(append(l.turn[:0], recordTurn), uint64(elapsed))
	l.turn = codec.AppendUvarint(l.turn, uint64(now))
	l.head, l.inputs = len(l.turn), 0
}

func (l *nodeLog) start() { l.input(inputStart) }

func (l *nodeLog) input(kind uint8) {
	l.turn = append(l.turn, kind)
	l.inputs++
}

func (l *nodeLog) message(it *item) {
	l.input(inputMessage)
	l.turn = codec.AppendUvarint(l.turn, uint64(it.from))
	l.turn = codec.AppendUvarint(l.turn, uint64(it.frame))
	end := byte(0)
	if it.last {
		end = 1
		l.ended[it.from] = it.frame
	}
	l.came(it.from, it.frame, it.last)
	l.turn = append(l.turn, end)
	l.turn = codec.AppendUvarint(l.turn, uint64(1+it.m.Size()))
	l.turn = it.m.AppendTo(append(l.turn, it.m.Kind()))
}

// came records that a message from a peer was added to the log. last is set if the message completes its frame.
func (l *nodeLog) came(from geo.NodeID, frame uint32, last bool) {
	if l.partial[from]++; last {
		l.whole[from], l.partial[from] = frame, 0
	}
}

func (l *nodeLog) submit(t *txn.Transaction) {
	l.input(inputSubmit)
	l.turn = codec.AppendUvarint(l.turn, uint64(codec.SizeTransaction(t)))
	l.turn = codec.AppendTransaction(l.turn, t)
}

func (l *nodeLog) load(request []byte) {
	l.input(inputLoad)
	l.turn = codec.AppendBytes(l.turn, request)
}

// commit writes the record of the turn to the disk. It writes nothing if the turn had no inputs and no timer fired.
func (l *loop) commit(fired bool) error {
	log := l.log
	if log.inputs == 0 && !fired {
		return nil
	}
	if err := log.journal.Append(log.turn); err != nil {
		return err
	}
	if l.at-log.noted >= acknowledgedEvery {
		log.noted = l.at
		if err := log.journal.Append(l.acknowledged()); err != nil {
			return err
		}
	}
	if err := log.journal.Sync(); err != nil {
		return err
	}
	// Acknowledge frames only after the sync: a peer discards a frame once it is acknowledged.
	for from, frame := range log.ended {
		if frame != 0 {
			l.n.endpoint.Link(geo.NodeID(from)).Logged(frame)
			log.ended[from] = 0
		}
	}
	return nil
}

func (l *loop) acknowledged() []byte {
	r := []byte{recordAcknowledged}
	for i := range l.n.topology.Nodes() {
		if link := l.n.endpoint.Link(geo.NodeID(i)); link != nil {
			r = codec.AppendUvarint(codec.AppendUvarint(r, uint64(i)), uint64(link.Acknowledged()))
		}
	}
	return r
}

// replay replays the log to its end.
func (l *loop) replay() error {
	n, log := l.n, l.log
	began := time.Now()
	l.replaying = true
	start, err := l.replayLinks()
	if err != nil {
		return err
	}
	if start != nil {
		if err := l.resume(start); err != nil {
			return fmt.Errorf("the checkpoint: %w", err)
		}
	}
	unpacker, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(journal.MaxRecord))
	if err != nil {
		return err
	}
	defer unpacker.Close()
	turns, complete, head := 0, start == nil, int64(0)
	err = log.journal.Each(func(r []byte) error {
		n.asked.Store(0) // counts as a sign of life for Healthy
		if turns == 0 {
			head += int64(len(r))
		}
		switch r[0] {
		case recordRows:
			part, err := unpacker.DecodeAll(r[1:], nil)
			if err != nil {
				return err
			}
			return l.store.Thaw(part)
		case recordComplete:
			complete = true
		case recordTurn:
			turns++
			// Copy the record, because decoded messages and transactions keep references to its bytes.
			c := codec.NewReader(append([]byte(nil), r[1:]...))
			return l.replayTurn(&c)
		}
		return nil
	})
	// Without its final record, a checkpoint is incomplete: some of its rows are missing.
	if err == nil && !complete {
		err = errors.New("the log begins with a checkpoint that has no end")
	}
	if err != nil {
		return err
	}
	for i := range n.topology.Nodes() {
		if link := n.endpoint.Link(geo.NodeID(i)); link != nil {
			n.peers[i].frame, n.peers[i].skip = log.whole[i], log.partial[i]
			link.Replayed(log.whole[i])
		}
	}
	// Continue the clock from its last value, because it must never go back.
	l.epoch += max(0, l.at-l.elapsedNow())
	l.least = l.clock
	log.noted = l.at
	l.resumeBeside()
	l.cutFrom(head)
	n.cfg.Log.Info("started again from the log", "process", n.process, "turns", turns, "checkpoint", start != nil, "bytes", log.journal.Bytes(),
		"took", time.Since(began).Round(time.Millisecond), slog.Int("unfinished", l.unfinished()))
	return nil
}

// replayLinks prepares the links for the replay: a link will keep only messages that follow the last acknowledgement in
// the log. It returns the checkpoint at the start of the log, or nil if there is none.
func (l *loop) replayLinks() (start *state, err error) {
	n := l.n
	acknowledged := make([]uint32, n.topology.Nodes())
	err = l.log.journal.Each(func(r []byte) error {
		switch r[0] {
		case recordState:
			start = &state{}
			if err := checkpoint.Read(bytes.Clone(r[1:]), &checkpoint.World{}, start); err != nil {
				return err
			}
			if len(start.Links) != len(acknowledged) {
				return fmt.Errorf("the checkpoint has links with %d nodes, and there are %d", len(start.Links), len(acknowledged))
			}
			for i := range start.Links {
				acknowledged[i] = start.Links[i].Out.Acknowledged
			}
		case recordAcknowledged:
			c := codec.NewReader(r[1:])
			for c.Len() > 0 && c.Err() == nil {
				id := c.UvarintMax(uint64(len(acknowledged) - 1))
				acknowledged[id] = uint32(c.UvarintMax(1<<32 - 1))
			}
			return c.Done()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range acknowledged {
		if link := n.endpoint.Link(geo.NodeID(i)); link != nil {
			link.Replaying(acknowledged[i])
		}
	}
	return start, nil
}

// replayTurn repeats the inputs of a turn.
func (l *loop) replayTurn(c *codec.Reader) error {
	l.at, l.clock = time.Duration(c.Uvarint()), time.Duration(c.Uvarint())
	for c.Len() > 0 && c.Err() == nil {
		switch kind := c.Uint8(); kind {
		case inputStart:
			l.replica.Start()
		case inputMessage:
			from := geo.NodeID(c.UvarintMax(uint64(len(l.log.whole) - 1)))
			frame, end, body := uint32(c.UvarintMax(1<<32-1)), c.Uint8(), c.Bytes()
			if c.Err() != nil || len(body) == 0 {
				return fmt.Errorf("a message of %d bytes: %w", len(body), c.Err())
			}
			m, err := l.n.cfg.Engine.Decode(body[0], body[1:], l.n.cfg.Procedures)
			if err != nil {
				return fmt.Errorf("a message of kind %d: %w", body[0], err)
			}
			l.log.came(from, frame, end == 1)
			l.replica.Receive(from, m)
		case inputSubmit:
			body := c.Bytes()
			tr := codec.NewReader(body)
			t := &txn.Transaction{}
			tr.Transaction(t)
			if err := errors.Join(tr.Done(), l.n.prepare(t)); err != nil {
				return err
			}
			l.pending[t.ID] = nil // the client's connection did not survive the restart
			l.replica.Submit(t)
		case inputLoad:
			req := &admin.LoadRequest{}
			if err := json.Unmarshal(c.Bytes(), req); err != nil {
				return err
			}
			if req.Dataset == "" { // the load failed
				l.empty(0)
				continue
			}
			w, err := l.n.cfg.ParseWorkload(req.Workload, req.Seed, l.n.topology)
			if err != nil {
				return err
			}
			// Do not check the memory again: the original load passed the check.
			if err := l.fill(req, w, l.rows(w), func(int) error { return nil }); err != nil {
				return err
			}
		case inputBeside:
			if !l.replayBeside() {
				return errors.New("a turn has the end of work that nobody has asked for")
			}
		default:
			return fmt.Errorf("a turn has an input of kind %d", kind)
		}
	}
	if err := c.Done(); err != nil {
		return err
	}
	// Fire the timers after the inputs, as turn does. Call flush here, so that frames end at the same messages as in the
	// original run.
	l.fire()
	l.flush()
	return nil
}

var _ protocol.Env = (*loop)(nil)
