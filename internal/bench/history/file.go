package history

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/geobench/geobench/internal/base/codec"
	"github.com/geobench/geobench/internal/base/txn"
)

// A history file is gzip over
//
//	"geobench history 1\n" | region | clock error | records
//
// Each record is the length (uvarint, not 0) and the encoding of a transaction. Transactions are in any order. A zero
// and the number of transactions mark the end, so that truncation is detected.
const magic = "geobench history 1\n"

// maxRecord is the maximum size of a transaction's record, which bounds the memory of a reader. It has room for about
// 50,000 operations.
const maxRecord = 1 << 20

// Header describes the clients of a history file.
type Header struct {
	Region string
	// ClockError is the maximum error of the file's clock: see History.
	ClockError time.Duration
}

// Writer writes a history file. It buffers one record at a time.
type Writer struct {
	zip *gzip.Writer
	buf []byte
	n   uint64
	err error
}

// NewWriter starts a history file. The first error is kept and returned by Close.
func NewWriter(to io.Writer, h Header) *Writer {
	zip, _ := gzip.NewWriterLevel(to, gzip.BestSpeed) // cannot fail: the level is valid
	w := &Writer{zip: zip}
	b := append([]byte(nil), magic...)
	b = codec.AppendString(b, h.Region)
	b = codec.AppendUvarint(b, uint64(max(0, h.ClockError)))
	_, w.err = zip.Write(b)
	return w
}

// Add writes a transaction.
func (w *Writer) Add(t *Txn) {
	if w.err != nil {
		return
	}
	// Reserve room for the length, whose size is known only after the encoding.
	b := append(w.buf[:0], make([]byte, 4)...)
	b = codec.AppendID(b, t.ID)
	b = codec.AppendUvarint(b, uint64(t.Client))
	b = append(b, byte(t.Status))
	b = codec.AppendUvarint(b, uint64(max(0, t.Invoked)))
	b = codec.AppendUvarint(b, uint64(max(0, t.Answered-t.Invoked)))
	b = AppendOps(b, t.Ops)
	w.buf = b
	size := len(b) - 4
	// A reader would reject the whole file because of this record.
	if size > maxRecord {
		w.err = fmt.Errorf("transaction %v with %d operations takes %d bytes of history, over %d", t.ID, len(t.Ops), size, maxRecord)
		return
	}
	head := codec.AppendUvarint(make([]byte, 0, 4), uint64(size))
	from := 4 - len(head)
	copy(b[from:], head)
	_, w.err = w.zip.Write(b[from:])
	w.n++
}

// Close writes the end of the file and returns the first error.
func (w *Writer) Close() error {
	if w.err == nil {
		_, w.err = w.zip.Write(codec.AppendUvarint([]byte{0}, w.n))
	}
	if err := w.zip.Close(); w.err == nil {
		w.err = err
	}
	return w.err
}

// Reader reads a history file, one transaction at a time.
type Reader struct {
	zip    *gzip.Reader
	in     *bufio.Reader
	header Header
	buf    []byte
	n      uint64
	ended  bool
}

var errNoHistory = errors.New("this is not a history file of this version")

// NewReader reads the header of a history file.
func NewReader(from io.Reader) (*Reader, error) {
	zip, err := gzip.NewReader(from)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	r := &Reader{zip: zip, in: bufio.NewReaderSize(zip, 64<<10)}
	if err := r.readHeader(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return r, nil
}

// maxRegion bounds the length of a region's name.
const maxRegion = 1 << 10

func (r *Reader) readHeader() error {
	m := make([]byte, len(magic))
	if _, err := io.ReadFull(r.in, m); err != nil {
		return cut(err)
	}
	if string(m) != magic {
		return errNoHistory
	}
	n, err := r.uvarint(maxRegion)
	if err != nil {
		return err
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(r.in, name); err != nil {
		return cut(err)
	}
	clock, err := r.uvarint(1<<63 - 1)
	r.header = Header{string(name), time.Duration(clock)}
	return err
}

// cut replaces the errors of a truncated file with an error that describes the cause.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends early: its writer was not closed")
	}
	return err
}

// uvarint reads a number of at most limit.
func (r *Reader) uvarint(limit uint64) (uint64, error) {
	var v uint64
	for shift := 0; ; shift += 7 {
		c, err := r.in.ReadByte()
		if err != nil {
			return 0, cut(err)
		}
		// The tenth byte of a 64-bit number has only one bit left.
		if shift == 63 && c > 1 {
			return 0, errors.New("a number is longer than 64 bits")
		}
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			break
		}
	}
	if v > limit {
		return 0, fmt.Errorf("%d is more than %d", v, limit)
	}
	return v, nil
}

// Header returns the file's header.
func (r *Reader) Header() Header { return r.header }

// Next reads the next transaction into t. Its operations and their keys are valid until the next call. It returns
// io.EOF after the last transaction.
func (r *Reader) Next(t *Txn) error {
	if r.ended {
		return io.EOF
	}
	err := r.next(t)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("transaction %d of the file: %w", r.n+1, err)
	}
	return err
}

func (r *Reader) next(t *Txn) error {
	size, err := r.uvarint(maxRecord)
	if err != nil {
		return err
	}
	if size == 0 {
		n, err := r.uvarint(1<<64 - 1)
		if err != nil {
			return err
		}
		// The number of transactions reveals a record that was lost or duplicated within the file.
		if n != r.n {
			return fmt.Errorf("the file says that it has %d transactions, but %d were read", n, r.n)
		}
		// Reading to the end also makes gzip verify its checksum.
		if _, err := r.in.ReadByte(); !errors.Is(err, io.EOF) {
			return errors.New("something follows the end of the file")
		}
		r.ended = true
		return io.EOF
	}
	// uvarint has bounded size by maxRecord, so a forged file cannot cause a large allocation.
	if uint64(cap(r.buf)) < size {
		r.buf = make([]byte, size)
	}
	r.buf = r.buf[:size]
	if _, err := io.ReadFull(r.in, r.buf); err != nil {
		return cut(err)
	}
	c := codec.NewReader(r.buf)
	t.ID = c.ID()
	t.Client = uint32(c.UvarintMax(1<<32 - 1))
	t.Status = txn.Status(c.Uint8())
	if c.Err() == nil && (t.Status < txn.Committed || t.Status > txn.Unknown) {
		c.Fail(fmt.Errorf("%d is not the status of an outcome", t.Status))
	}
	t.Invoked = time.Duration(c.UvarintMax(1<<62 - 1))
	t.Answered = t.Invoked + time.Duration(c.UvarintMax(1<<62-1))
	t.Ops = readOps(&c, t.Ops[:0])
	if err := c.Done(); err != nil {
		return err
	}
	r.n++
	return nil
}

// Close releases the reader's resources. It does not close the underlying reader.
func (r *Reader) Close() error { return r.zip.Close() }
