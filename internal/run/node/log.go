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

// A node with a log (Config.Journal) outlives its process. Its inputs are on the disk before the node sends any message
// or answer that results from them. A replica is a deterministic state machine, so its inputs are all that must be
// kept. A process that finds a log replays all inputs, at the original times by the node's clock, and continues under
// the old process's name. The replay sends the same messages as before; links continue after the last frame in the
// peer's log. Clients are not answered again: their connections are gone, and the outcome of their transactions in
// flight is unknown to them.
//
// The unit is a turn of the event loop, at one reading of the clock: the inputs received, the timers that were due
// then, and the messages sent, in the same frames.

// Records of the journal, by their first byte.
const (
	recordIdentity     = 1 // JSON of owner: the first record, and the only record of its kind
	recordTurn         = 2 // see turn
	recordAcknowledged = 3 // node, uvarint | frame, uvarint; of every link
	recordState        = 4 // state, as package checkpoint writes it: the second record of a log that was cut short
	recordRows         = 5 // rows, compressed; after the state
	recordComplete     = 6 // nothing more: the rows are all there
)

// Inputs of a turn, by their first byte.
const (
	inputStart   = 1 // nothing more
	inputMessage = 2 // node, uvarint | frame, uvarint | 1 when the frame ends with it | message with its kind, with its length
	inputSubmit  = 3 // transaction, with its length
	inputLoad    = 4 // JSON of admin.LoadRequest, with its length
	inputBeside  = 5 // nothing more: the first of the pieces of work outside the loop is done
)

// owner identifies the node of a log.
type owner struct {
	Database, Incarnation, Node, Process string
}

// acknowledgedEvery is the interval at which the log records acknowledgements of peers, so that a replay need not keep
// all messages ever sent.
const acknowledgedEvery = time.Second

// nodeLog is a node's log. It belongs to the loop.
type nodeLog struct {
	journal  *journal.Log
	identity []byte   // the first record
	cutting  *cutting // nil for none
	cutAt    int64    // bytes of the journal from which on it is cut short
	writing  sync.WaitGroup
	turn     []byte // the present turn's record
	inputs   int    // of the turn
	head     int    // bytes of the turn's record before its inputs
	noted    time.Duration
	// ended are the frames of each peer that the turn has ended, 0: none.
	ended []uint32
	// whole is the last frame of each peer that is completely in the log. partial is the number of messages of the next
	// frame that are in the log.
	whole   []uint32
	partial []int
}

// openLog opens the journal of this incarnation and takes over its process's name, if there was one.
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

// identify writes the node's identity into a new log, or reads it from an old log.
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
		return found
	})
	if !errors.Is(err, found) {
		return err
	}
	if me.Process = was.Process; me != was {
		return fmt.Errorf("the log in folder %s is of %+v, not of %+v; give every node a folder of its own", n.cfg.Journal, was, me)
	}
	n.process = was.Process
	return nil
}

// restored reports whether there is anything to replay.
func (l *nodeLog) restored() bool { return l != nil && l.journal.Records() > 1 }

// begin starts a turn at one reading of the clock.
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

// came records that a message is in the log; last means that the message completes its frame.
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

// commit puts the turn on the disk, unless nothing happened in it.
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

// replay brings the node to where its log ends.
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
		n.asked.Store(0) // a sign of life
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
			// What messages and transactions are made of is theirs to keep.
			c := codec.NewReader(append([]byte(nil), r[1:]...))
			return l.replayTurn(&c)
		}
		return nil
	})
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
	// The clock continues from its last value, and never goes back.
	l.epoch += max(0, l.at-l.elapsedNow())
	l.least = l.clock
	log.noted = l.at
	l.resumeBeside()
	l.cutFrom(head)
	n.cfg.Log.Info("started again from the log", "process", n.process, "turns", turns, "checkpoint", start != nil, "bytes", log.journal.Bytes(),
		"took", time.Since(began).Round(time.Millisecond), slog.Int("unfinished", l.unfinished()))
	return nil
}

// replayLinks starts the replay of sent messages, after the messages that peers have acknowledged according to the log.
// It returns the checkpoint at the start of the log, nil for none.
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

// replayTurn takes the inputs of a turn once more.
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
			l.pending[t.ID] = nil // no client waits for it
			l.replica.Submit(t)
		case inputLoad:
			req := &admin.LoadRequest{}
			if err := json.Unmarshal(c.Bytes(), req); err != nil {
				return err
			}
			if req.Dataset == "" { // it was refused
				l.empty(0)
				continue
			}
			w, err := l.n.cfg.ParseWorkload(req.Workload, req.Seed, l.n.topology)
			if err != nil {
				return err
			}
			// What fitted then is taken now.
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
	l.fire()
	l.flush()
	return nil
}

var _ protocol.Env = (*loop)(nil)
