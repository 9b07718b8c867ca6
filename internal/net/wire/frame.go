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

// A frame on the wire:
//
//	length of what follows, 4 bytes little-endian | type, 1 byte | rest
//
// Frames between peers start with an acknowledgement, 4 bytes. In data frames the frame's number follows, 4 bytes, and
// then messages:
//
//	length of kind and body, uvarint | kind, 1 byte | body
//
// Acknowledgements and numbers are the low 32 bits of counters that start at 1 with the link.
const (
	frameHello    = 1 // first frame of the side that dials
	frameWelcome  = 2 // its answer
	frameRefusal  = 3 // or this one
	frameData     = 4 // peers: messages
	frameAck      = 5 // peers: nothing but the acknowledgement
	framePing     = 6 // peers: 8 bytes to be sent back
	framePong     = 7
	frameSubmit   = 8 // client to node: transactions
	frameOutcomes = 9 // node to client: outcomes

	frameChallenge = 10 // where there are keys: the answer to a hello
	frameProof     = 11 // and the answer to that
)

// MaxFrame bounds a frame, in bytes.
const MaxFrame = 1 << 26

const (
	lengthBytes = 4
	headBytes   = lengthBytes + 1        // length, type
	ackAt       = headBytes              // where a peer's frame has its acknowledgement
	seqAt       = headBytes + 4          // where a data frame has its number
	dataBytes   = headBytes + 8          // header of a data frame
	sealBytes   = 60 << 10               // a batch that has grown to this is sent without waiting for Flush
	readBytes   = 64 << 10               // size of a read buffer
	minRead     = 4 << 10                // least room worth a read
	maxWrite    = 1 << 20                // maximum number of bytes per write
	maxVectors  = 256                    // maximum number of chunks per write
	scratchSize = sealBytes + 12<<10     // of a batch being filled
	maxGreeting = 4 << 10                // bytes of a frame before the two sides know each other
	ackEvery    = 128 << 10              // bytes received before a separate acknowledgement is sent
	handshake   = 10 * time.Second       // for the first frames of a connection
	silence     = 30 * time.Second       // without a byte: the connection is given up
	probeEvery  = 100 * time.Millisecond // between two probes of a region
)

func seal(frame []byte) { binary.LittleEndian.PutUint32(frame, uint32(len(frame)-lengthBytes)) }

// chunk is an outgoing frame, or several outgoing control frames.
type chunk struct {
	buf []byte
	due time.Duration // when it is written
	seq uint32        // of a data frame
	typ uint8
}

// Chunks are recycled by size, since a link may hold hundreds of small chunks until they are acknowledged.
var chunkSizes = [...]int{512, 4 << 10, 16 << 10, scratchSize}

var chunkPools [len(chunkSizes)]sync.Pool

// newChunk returns a chunk with room for n bytes and no contents.
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
		if cap(c.buf) == size {
			c.buf, c.due, c.seq, c.typ = c.buf[:0], 0, 0, 0
			chunkPools[i].Put(c)
			return
		}
	}
}

// frameReader cuts a stream into frames. What next returns belongs to its receiver when keep is called for it; then the
// memory is never written again.
type frameReader struct {
	src   io.Reader
	limit int // of a frame's length
	buf   []byte
	r, w  int
	kept  bool
}

// buffered reports whether next will return without a read.
func (f *frameReader) buffered() bool {
	if f.w-f.r < lengthBytes {
		return false
	}
	return f.w-f.r-lengthBytes >= int(binary.LittleEndian.Uint32(f.buf[f.r:]))
}

// next returns the type and the rest of the next frame.
func (f *frameReader) next() (uint8, []byte, error) {
	need := lengthBytes
	for {
		if have := f.w - f.r; have >= lengthBytes {
			n := binary.LittleEndian.Uint32(f.buf[f.r:])
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

// newFrameReader returns a reader of a connection before the two sides have exchanged greetings.
func newFrameReader(src io.Reader) *frameReader {
	return &frameReader{src: src, limit: maxGreeting, buf: make([]byte, minRead)}
}

// keep makes the memory of the frames returned so far their receiver's.
func (f *frameReader) keep() { f.kept = true }

// fill reads more, after making room for a frame of need bytes and at least a useful amount.
func (f *frameReader) fill(need int) error {
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
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// Messages walks over the messages of a data frame.
type Messages struct{ r codec.Reader }

var errNoKind = errors.New("a message has no kind")

// ReadMessages returns the messages of a payload handed to a Receiver.
func ReadMessages(payload []byte) Messages { return Messages{codec.NewReader(payload)} }

// Next returns the next message's kind and body; ok is false at the end and after an error. The body's memory is the
// receiver's.
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

// Err returns the payload's decoding error, if any.
func (m *Messages) Err() error { return m.r.Err() }
