package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
)

// A frame on the wire consists of:
//
//	length of type and rest, 4 bytes little-endian | type, 1 byte | rest
//
// Frames between peers start with an acknowledgement, 4 bytes. In a data frame, the frame's number follows, 4 bytes,
// and then messages:
//
//	length of kind and body, uvarint | kind, 1 byte | body
//
// Acknowledgements and numbers are the low 32 bits of counters. The first data frame of a link has number 1.
const (
	frameHello    = 1 // first frame of the dialling side
	frameWelcome  = 2 // answer to a hello
	frameRefusal  = 3 // answer to a hello, in place of frameWelcome
	frameData     = 4 // peers: messages
	frameAck      = 5 // peers: only the acknowledgement
	framePing     = 6 // peers: 8 bytes that a pong returns
	framePong     = 7
	frameSubmit   = 8 // client to node: transactions
	frameOutcomes = 9 // node to client: outcomes

	frameChallenge = 10 // with keys: answer to a hello
	frameProof     = 11 // with keys: answer to a challenge
)

// MaxFrame is the maximum size of a frame, in bytes.
const MaxFrame = 1 << 26

const (
	lengthBytes = 4
	headBytes   = lengthBytes + 1        // length, type
	ackAt       = headBytes              // offset of the acknowledgement in a peer's frame
	seqAt       = headBytes + 4          // offset of the number in a data frame
	dataBytes   = headBytes + 8          // header of a data frame
	sealBytes   = 60 << 10               // a batch of this size is sent without waiting for Flush
	readBytes   = 64 << 10               // size of a read buffer
	minRead     = 4 << 10                // minimum space for a read
	maxWrite    = 1 << 20                // maximum number of bytes per write
	maxVectors  = 256                    // maximum number of chunks per write
	scratchSize = sealBytes + 12<<10     // capacity of a batch being filled
	maxGreeting = 4 << 10                // maximum size of a frame during the handshake
	ackEvery    = 128 << 10              // bytes received before a separate acknowledgement is sent
	handshake   = 10 * time.Second       // timeout of the handshake
	silence     = 30 * time.Second       // time without a byte after which a connection is closed
	probeEvery  = 100 * time.Millisecond // interval between two probes of a region
)

func seal(frame []byte) { binary.LittleEndian.PutUint32(frame, uint32(len(frame)-lengthBytes)) }

// chunk is an outgoing data frame or control frame.
type chunk struct {
	buf []byte
	due time.Duration // time at which it is written
	seq uint32        // of a data frame
	typ uint8
}

// chunkSizes are the capacities of recycled chunks. A link may keep hundreds of small chunks until they are
// acknowledged, so small capacities save memory.
var chunkSizes = [...]int{512, 4 << 10, 16 << 10, scratchSize}

var chunkPools [len(chunkSizes)]sync.Pool

// newChunk returns an empty chunk with capacity for n bytes.
func newChunk(n int) *chunk {
	for i, size := range chunkSizes {
		if n <= size {
			if c, ok := chunkPools[i].Get().(*chunk); ok {
				return c
			}
			return &chunk{buf: make([]byte, 0, size)}
		}
	}
	return &chunk{buf: make([]byte, 0, n)}
}

func (c *chunk) recycle() {
	for i, size := range chunkSizes {
		// Recycle only buffers with the capacity of a pool.
		if cap(c.buf) == size {
			c.buf, c.due, c.seq, c.typ = c.buf[:0], 0, 0, 0
			chunkPools[i].Put(c)
			return
		}
	}
}

// frameReader splits a stream into frames. A frame returned by next is valid until the next call. After a call of keep,
// it remains valid, because its memory is never reused.
type frameReader struct {
	src   io.Reader
	limit int // maximum length of a frame
	buf   []byte
	r, w  int
	kept  bool
}

// buffered reports whether next can return a frame without reading from the stream.
func (f *frameReader) buffered() bool {
	if f.w-f.r < lengthBytes {
		return false
	}
	return f.w-f.r-lengthBytes >= int(binary.LittleEndian.Uint32(f.buf[f.r:]))
}

// next returns the type and the body of the next frame.
func (f *frameReader) next() (uint8, []byte, error) {
	need := lengthBytes
	for {
		if have := f.w - f.r; have >= lengthBytes {
			n := binary.LittleEndian.Uint32(f.buf[f.r:])
			// Until the handshake is over, the limit is small, so that an unknown caller cannot make this node allocate much
			// memory.
			if n < 1 || n > uint32(f.limit) {
				return 0, nil, fmt.Errorf("a frame of %d bytes is not between 1 and %d", n, f.limit)
			}
			need = lengthBytes + int(n)
			if have >= need {
				body := f.buf[f.r+lengthBytes : f.r+need : f.r+need]
				f.r += need
				return body[0], body[1:], nil
			}
		}
		if err := f.fill(need); err != nil {
			return 0, nil, err
		}
	}
}

// newFrameReader returns a reader for the handshake of a connection, with the limit maxGreeting.
func newFrameReader(src io.Reader) *frameReader {
	return &frameReader{src: src, limit: maxGreeting, buf: make([]byte, minRead)}
}

// keep passes ownership of the frames returned so far to the caller.
func (f *frameReader) keep() { f.kept = true }

// fill reads more data. It first makes room for a frame of need bytes and for at least minRead bytes.
func (f *frameReader) fill(need int) error {
	// Reuse the buffer from its start only if no caller keeps a part of it.
	if f.r == f.w && !f.kept {
		f.r, f.w = 0, 0
	}
	if room := len(f.buf) - f.w; room < minRead || len(f.buf)-f.r < need {
		rest := f.buf[f.r:f.w]
		if f.kept || len(f.buf) < need {
			f.buf = make([]byte, max(readBytes, need))
			f.kept = false
		}
		f.w = copy(f.buf, rest)
		f.r = 0
	}
	n, err := f.src.Read(f.buf[f.w:])
	f.w += n
	if n > 0 {
		return nil
	}
	// Return an error for an empty read: next would otherwise call fill forever.
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// Messages iterates over the messages of a data frame.
type Messages struct{ r codec.Reader }

var errNoKind = errors.New("a message has no kind")

// ReadMessages returns the messages in a payload that was passed to a Receiver.
func ReadMessages(payload []byte) Messages { return Messages{codec.NewReader(payload)} }

// Next returns the kind and body of the next message. ok is false at the end and after an error. The caller owns the
// body's memory.
func (m *Messages) Next() (kind uint8, body []byte, ok bool) {
	if m.r.Len() == 0 {
		return 0, nil, false
	}
	b := m.r.Bytes()
	if len(b) == 0 {
		if m.r.Err() == nil {
			m.r.Fail(errNoKind)
		}
		return 0, nil, false
	}
	return b[0], b[1:], true
}

// Err returns the error from decoding the payload, if any.
func (m *Messages) Err() error { return m.r.Err() }
