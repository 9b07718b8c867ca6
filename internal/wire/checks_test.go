package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/geobench/geobench/internal/geo"
	"github.com/geobench/geobench/internal/invariant"
)

// received notes the frames that a link delivers, by their only byte.
type received struct{ frames []byte }

func (r *received) Receive(payload []byte) error {
	r.frames = append(r.frames, payload...)
	return nil
}

func (*received) Turn() {}

// bareLink is a link without a connection, whose frames a test makes.
type bareLink struct {
	*Link
	*received
	c *invariant.Checker
}

func newBareLink(durable bool) *bareLink {
	topology := twoRegions(geo.Link{})
	b := &bareLink{&Link{e: &Endpoint{cfg: Config{Durable: durable, Topology: topology}}, peer: 1}, &received{}, invariant.NewChecker("test", topology)}
	b.Link.receiver = b.received
	b.s.resumable = true
	return b
}

// reads lets a connection bring frames from first to last, and end.
func (b *bareLink) reads(first, last uint32) error {
	var stream bytes.Buffer
	for seq := first; seq <= last; seq++ {
		frame := append(make([]byte, headBytes), 0, 0, 0, 0)
		frame[lengthBytes] = frameData
		frame = append(binary.LittleEndian.AppendUint32(frame, seq), byte(seq))
		seal(frame)
		stream.Write(frame)
	}
	return b.read(&frameReader{src: &stream, limit: MaxFrame})
}

func (b *bareLink) holds(t *testing.T) {
	t.Helper()
	if b.Check(b.c); b.c.Broken() != nil {
		t.Error(b.c.Broken())
	}
}

// A node with a log owes its peer what it has received and not logged: it acknowledges no more, and a new connection brings that once
// more, which is delivered once.
func TestDurableLinkResumesFromItsLog(t *testing.T) {
	b := newBareLink(true)
	if err := b.reads(1, 5); err != io.EOF {
		t.Fatal(err)
	}
	b.Logged(3)
	b.holds(t)
	if a, r := b.acknowledgement(), b.resume(); a != 3 || r != 3 {
		t.Errorf("acknowledges %d and resumes behind %d, want 3", a, r)
	}
	b.holds(t)
	if err := b.reads(4, 7); err != io.EOF {
		t.Error(err)
	}
	b.holds(t)
	if want := []byte{1, 2, 3, 4, 5, 6, 7}; !slices.Equal(b.frames, want) {
		t.Errorf("delivers %v, want %v", b.frames, want)
	}
	plain := newBareLink(false)
	if err := plain.reads(1, 5); err != io.EOF || plain.acknowledgement() != 5 || plain.resume() != 5 {
		t.Errorf("a link without a log acknowledges %d and resumes behind %d, want 5; %v", plain.acknowledgement(), plain.resume(), err)
	}
}

// A frame that is not the next one ends the connection, whether one is missing or comes again.
func TestFramesComeInOrder(t *testing.T) {
	for first, want := range map[uint32]string{3: "", 2: "frame 2 came where 3 was due", 4: "frame 4 came where 3 was due"} {
		b := newBareLink(false)
		if err := b.reads(1, 2); err != io.EOF {
			t.Fatal(err)
		}
		if err := b.reads(first, first); fmt.Sprint(err) != want && (want != "" || err != io.EOF) {
			t.Errorf("frame %d: %v, want %q", first, err, want)
		}
		b.holds(t)
	}
}

// A sender drops what is acknowledged, and nothing else, whether it comes in time, twice or late; in a replay it holds what the peer
// lacks.
func TestSenderHoldsWhatIsNotAcknowledged(t *testing.T) {
	b := newBareLink(true)
	add := func(from, to uint32) {
		for seq := from; seq <= to; seq++ {
			b.s.add(&chunk{typ: frameData, seq: seq, buf: make([]byte, 10)})
		}
	}
	add(1, 6)
	for range 5 { // were written
		b.s.unacked.push(b.s.queue.pop())
	}
	b.holds(t)
	for _, ack := range []uint32{2, 2, 1, 4} {
		b.s.ack(ack)
		b.holds(t)
	}
	if n := b.s.held; b.Acknowledged() != 4 || b.s.unacked.len() != 1 || n != 20 {
		t.Errorf("%d acknowledged, %d written and held, %d bytes held; want 4, 1 and 20", b.Acknowledged(), b.s.unacked.len(), n)
	}
	b.s.ack(5)
	b.holds(t)

	again := newBareLink(true)
	again.Replaying(4)
	b = again
	add(1, 6)
	again.Replayed(0)
	again.holds(t)
	if n := again.s.queue.len(); n != 2 || again.s.again != 6 {
		t.Errorf("a replay of 6 frames of which the peer has 4 holds %d, and may send again up to %d; want 2 and 6", n, again.s.again)
	}
}

// A peer that says it has received frames which were never sent to it, or that it lacks some which it had acknowledged, is another one: the
// two do not go on.
func TestPeersThatKnowTooMuchOrTooLittle(t *testing.T) {
	for name, tc := range map[string]struct {
		acknowledged, received uint32
		want                   string
	}{
		"too much":   {0, 5, "the peer has received up to frame 5, and frame 1 is the next to send"},
		"too little": {3, 1, "the peer has received up to frame 1, and frame 4 is the next to send"},
	} {
		b := newBareLink(true)
		for seq := range uint32(5) {
			b.s.add(&chunk{typ: frameData, seq: seq + 1, buf: make([]byte, 10)})
		}
		for range tc.acknowledged {
			b.s.unacked.push(b.s.queue.pop())
		}
		b.s.ack(tc.acknowledged)
		near, far := net.Pipe()
		_, _ = near.Close(), far.Close()
		if err := b.s.attach(near, tc.received, func(error) {}); err == nil || err.Error() != tc.want {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// What a link must never come to is said, by name.
func TestBrokenLinksAreTold(t *testing.T) {
	for name, wrong := range map[string]func(*bareLink){
		"wire.logged-grows":  func(b *bareLink) { b.Logged(2) },
		"wire.received-once": func(b *bareLink) { b.delivered-- },
		"wire.frames-kept":   func(b *bareLink) { b.s.queue.pop() },
	} {
		b := newBareLink(true)
		if err := b.reads(1, 5); err != io.EOF {
			t.Fatal(err)
		}
		b.Logged(3)
		b.s.add(&chunk{typ: frameData, seq: 1})
		b.s.add(&chunk{typ: frameData, seq: 2})
		b.holds(t)
		wrong(b)
		if b.Check(b.c); b.c.Broken() == nil || !strings.Contains(b.c.Broken().String(), name) {
			t.Errorf("%v is broken, want %s", b.c.Broken(), name)
		}
	}
}
