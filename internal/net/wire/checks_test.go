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
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/invariant"
)

// received records the frames that a link delivers. Each frame consists of a single byte.
type received struct{ frames []byte }

func (r *received) Receive(payload []byte) error {
	r.frames = append(r.frames, payload...)
	return nil
}

func (*received) Turn() {}

// bareLink is a link without a connection, for which the test builds the frames.
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

// reads delivers the frames from first to last over a connection, which then ends.
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

// A node with a log does not acknowledge frames that it has received but not logged. The peer sends these frames again
// over a new connection, but each frame is delivered only once.
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

// A frame out of sequence closes the connection, whether a frame is missing or repeated.
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

// A sender drops exactly the acknowledged frames, whether an acknowledgement arrives in time, twice or late. In a
// replay, the sender keeps the frames that the peer has not received.
func TestSenderHoldsWhatIsNotAcknowledged(t *testing.T) {
	b := newBareLink(true)
	add := func(from, to uint32) {
		for seq := from; seq <= to; seq++ {
			b.s.add(&chunk{typ: frameData, seq: seq, buf: make([]byte, 10)})
		}
	}
	add(1, 6)
	for range 5 { // the writer has written the frames
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

// A connection is refused if the peer reports frames that were never sent to it, or lacks frames that it had
// acknowledged. Such a peer cannot be the same process.
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

// A node with a log sends nothing before Flush, regardless of how many frames it has filled. The inputs that led to
// these frames may not be in the log yet.
func TestNothingLeavesANodeWithALogBeforeFlush(t *testing.T) {
	for name, durable := range map[string]bool{"with a log": true, "without a log": false} {
		b := newBareLink(durable)
		b.out = outbox{s: &b.s, typ: frameData, head: dataBytes, hold: durable, sent: &b.sent}
		const frames = 4
		for i := range uint64(frames) {
			b.Send(number{i, sealBytes})
			if n := b.s.queue.len(); durable && n > 0 || !durable && n != int(i)+1 {
				t.Errorf("%s: %d frames have left when %d are full", name, n, i+1)
			}
		}
		b.Flush()
		b.holds(t)
		if n := b.s.queue.len(); n != frames || b.s.last != frames {
			t.Errorf("%s: %d frames have left after Flush, the last is number %d; want %d", name, n, b.s.last, frames)
		}
	}
}

// When a cut link heals, frames keep their order. A frame that is added before the writer has noticed the change
// follows the frames that the path had refused.
func TestFramesLeaveInOrderAfterACut(t *testing.T) {
	link := geo.Link{Delay: 5 * time.Millisecond}
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	s := &sender{path: geo.NewPath(link, link), conn: near, resumable: true, wake: make(chan struct{}, 1)}
	add := func(seq uint32) { s.add(&chunk{typ: frameData, seq: seq, buf: make([]byte, 10)}) }
	s.disturb(link, link, true)
	add(1)
	add(2)
	s.resume = s.path.Heal(0) // no frame was refused before this time, so there is no wait
	add(3)
	s.unblock(Now())
	last := time.Duration(0)
	for seq := uint32(1); s.queue.len() > 0; seq++ {
		c := s.queue.pop()
		if c.seq != seq || c.due < last || c.due == never {
			t.Errorf("frame %d leaves at %v, number %d after %v", c.seq, c.due, seq, last)
		}
		last = c.due
	}
}

// Until the handshake is over, frames larger than maxGreeting are rejected.
func TestFramesOfStrangersAreShort(t *testing.T) {
	for size, taken := range map[uint32]bool{0: false, 1: true, maxGreeting: true, maxGreeting + 1: false, MaxFrame: false, 1<<32 - 1: false} {
		head := binary.LittleEndian.AppendUint32(nil, size)
		sent := io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, int64(size)))
		typ, body, err := newFrameReader(sent).next()
		if (err == nil) != taken || taken && (typ != 0 || len(body) != int(size)-1) {
			t.Errorf("of a frame of %d bytes %d are taken, %v", size, len(body), err)
		}
	}
}

// zeros is an endless stream of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// An invalid state of a link is reported, with the link's name.
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
