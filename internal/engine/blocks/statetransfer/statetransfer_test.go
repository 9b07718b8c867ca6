package statetransfer

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/geobench/geobench/internal/base/buggify"
	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/store"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/simload"
	"github.com/geobench/geobench/internal/engine/protocol"
	"github.com/geobench/geobench/internal/engine/protocol/protocoltest"
)

// end is the environment of a sender or receiver: a clock, the sent messages, and the requested timer.
type end struct {
	protocol.Env
	now    time.Duration
	sent   []protocol.Message
	timers int
	small  bool
}

func (e *end) Now() time.Duration                      { return e.now }
func (e *end) Send(_ geo.NodeID, m protocol.Message)   { e.sent = append(e.sent, m) }
func (e *end) After(_ time.Duration, _ protocol.Timer) { e.timers++ }
func (e *end) Buggify(*buggify.Point) bool             { return e.small }
func (e *end) take() (all []protocol.Message)          { all, e.sent = e.sent, nil; return all }
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}
func pieces(all []protocol.Message) (n, most int) {
	for _, m := range all {
		n++
		most = max(most, len(m.(*Piece).Data))
	}
	return n, most
}

// pair is the two ends of a transfer from node 0 to node 1.
type pair struct {
	from, to end
	sender   *Sender
	receiver Receiver
	got      []byte
	whole    int
}

func newPair() *pair {
	p := &pair{}
	p.sender = NewSender(&p.from, 7)
	return p
}

// deliver delivers the sender's messages and, if answers is set, also the receiver's answers.
func (p *pair) deliver(answers bool) {
	for _, m := range p.from.take() {
		if id, data, whole := p.receiver.Receive(&p.to, 0, m.(*Piece)); whole {
			p.whole++
			p.got = append([]byte{byte(id)}, data...)
		}
	}
	for _, m := range p.to.take() {
		if answers {
			p.sender.Receive(1, m.(*Ack))
		}
	}
}

// tick advances the clock by d and fires the sender's timer if it is set.
func (p *pair) tick(d time.Duration) {
	p.from.now += d
	if p.from.timers > 0 {
		p.from.timers--
		p.sender.Fire()
	}
}

func TestTransfer(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "one byte": 1, "one piece": PieceBytes, "a byte more": PieceBytes + 1, "twenty pieces": 20 * PieceBytes} {
		t.Run(name, func(t *testing.T) {
			p, state := newPair(), random(size)
			p.sender.Send(1, 9, state)
			ticks := 0
			for p.sender.Busy(1) && ticks < 100 {
				if n, most := pieces(p.from.sent); n > 1 || most > PieceBytes {
					t.Fatalf("%d pieces at once, of up to %d bytes", n, most)
				}
				p.deliver(true)
				p.tick(Every)
				ticks++
			}
			if p.whole != 1 || !bytes.Equal(p.got, append([]byte{9}, state...)) || !p.sender.Idle() || p.from.timers != 0 {
				t.Errorf("%d times whole, %d bytes of %d, %d timers left", p.whole, len(p.got)-1, size, p.from.timers)
			}
			if want := max(1, (size+PieceBytes-1)/PieceBytes); ticks != want {
				t.Errorf("it took %d pieces, want %d", ticks, want)
			}
		})
	}
}

// Without answers, the sender sends at most Underway pieces. After Patience it stops sending and sets no more timers.
func TestSilence(t *testing.T) {
	p := newPair()
	p.sender.Send(1, 9, random(20*PieceBytes))
	for range 100 {
		p.tick(Every)
	}
	if n, _ := pieces(p.from.sent); n != Underway {
		t.Errorf("%d pieces are under way, want %d", n, Underway)
	}
	p.deliver(true)
	if p.tick(Every); len(p.from.sent) != 1 {
		t.Errorf("%d pieces follow once there are answers, want 1", len(p.from.sent))
	}
	if p.tick(Patience - Every - 1); !p.sender.Busy(1) {
		t.Error("it was given up too early")
	}
	if p.tick(Every); p.sender.Busy(1) || p.from.timers != 0 {
		t.Error("it was not given up")
	}
}

// A state that differs from the sent state is rejected, and its transfer is aborted.
func TestDamage(t *testing.T) {
	p := newPair()
	p.sender.Send(1, 9, random(2*PieceBytes))
	p.deliver(true)
	p.tick(Every)
	m := *p.from.sent[0].(*Piece)
	m.Data = slices.Clone(m.Data)
	m.Data[5]++
	p.from.sent[0] = &m
	if p.deliver(true); p.whole != 0 || p.sender.Busy(1) {
		t.Errorf("%d times whole; under way: %v", p.whole, p.sender.Busy(1))
	}
	p.sender.Send(1, 10, random(5))
	if p.deliver(true); p.whole != 1 || p.got[0] != 10 {
		t.Errorf("the next one: %d times whole, %d", p.whole, p.got)
	}
}

// A second state replaces the first. Pieces of the first state, and answers to them, do not affect the second.
func TestAnotherState(t *testing.T) {
	p := newPair()
	p.sender.Send(1, 9, random(3*PieceBytes))
	p.deliver(false)
	p.tick(Every)
	old := p.from.take()[0].(*Piece)
	second := random(2 * PieceBytes)[:PieceBytes+10]
	p.sender.Send(1, 10, second)
	p.deliver(true)
	p.sender.Receive(1, &Ack{ID: 9, Got: 3 * PieceBytes})
	if _, _, whole := p.receiver.Receive(&p.to, 0, old); whole || len(p.to.sent) != 0 {
		t.Errorf("a piece of the first state is answered: %v", p.to.sent)
	}
	if _, _, whole := p.receiver.Receive(&p.to, 2, &Piece{ID: 10, Part: Part{At: PieceBytes, Size: PieceBytes + 10}}); whole || len(p.to.sent) != 0 {
		t.Errorf("a piece of another node is answered: %v", p.to.sent)
	}
	p.tick(Every)
	if p.deliver(true); p.whole != 1 || !bytes.Equal(p.got[1:], second) || p.sender.Busy(1) {
		t.Errorf("%d times whole, %d bytes", p.whole, len(p.got)-1)
	}
}

// An answer that acknowledges more than was sent aborts the transfer.
func TestAnswerToNothing(t *testing.T) {
	p := newPair()
	p.sender.Send(1, 9, random(3*PieceBytes))
	if p.sender.Receive(1, &Ack{ID: 9, Got: PieceBytes + 1}); p.sender.Busy(1) {
		t.Error("it goes on")
	}
}

func TestSmallPieces(t *testing.T) {
	p := newPair()
	p.from.small = true
	p.sender.Send(1, 9, random(100))
	for range 7 {
		p.deliver(true)
		p.tick(Every)
	}
	if p.whole != 1 {
		t.Error("100 bytes are not 7 pieces of 16 bytes at most")
	}
}

var messages = map[string]protocol.Message{
	"piece":   &Piece{300, Part{400, 500, [32]byte{1, 31: 2}, []byte("some rows")}},
	"ack":     &Ack{ID: 300, Got: 70_000},
	"damaged": &Ack{ID: 1, Damaged: true},
}

func TestCodec(t *testing.T) { protocoltest.Codec(t, messages, protocoltest.Of(Decode, nil)) }
func FuzzCodec(f *testing.F) { protocoltest.FuzzCodec(f, messages, protocoltest.Of(Decode, nil)) }
func TestStrings(t *testing.T) {
	for name, want := range map[string]string{"piece": "bytes 400 to 409 of 500 of state 300", "ack": "has 70000 bytes of state 300", "damaged": "state 1 is damaged"} {
		if got := messages[name].(interface{ String() string }).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Decoded rows equal the encoded ones, except for their versions. Malformed input is rejected.
func TestRows(t *testing.T) {
	rows := []store.Row{
		{Key: simload.Key(3), Record: store.Record{Value: []byte("three"), Writer: txn.MakeID(2, 9)}},
		{Key: simload.GroupKey(1, 4), Record: store.Record{Value: []byte("4"), Version: 7}},
	}
	body := AppendRows([]byte("front"), rows)[5:]
	r := codec.NewReader(body)
	got := ReadRows(&r)
	if rows[1].Version = 0; r.Done() != nil || !reflect.DeepEqual(got, rows) {
		t.Errorf("%v come back as %v, %v", rows, got, r.Err())
	}
	for n := range body {
		r := codec.NewReader(body[:n:n])
		if cut := ReadRows(&r); r.Done() == nil {
			t.Errorf("the first %d of %d bytes are taken for %v", n, len(body), cut)
		}
	}
}
