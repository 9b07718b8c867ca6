// Package journal stores records in a file that outlives its process: a node's log of its inputs (the log sink of the
// real-time driver).
//
// A record is promised once Sync has returned, because other nodes may then depend on it. After a crash, the end of the
// file may contain part of a write that was never promised. Open cuts off this part. It returns an *Error if a promised
// record is missing or altered: a node that continued from such a journal would contradict its earlier messages.
//
// The journal must distinguish these two cases (Alagappan et al., Protocol-Aware Recovery for Consensus-Based Storage,
// FAST 2018). To this end, every record contains the start of the write to which it belongs. Before a write starts, all
// earlier data is on the disk. In addition, a separate file, the mark, contains the number of bytes that Sync has
// promised.
//
// The mark is not synced. It survives a process crash, but a machine crash may lose its last seconds. So until the next
// record is written, the last write before a machine crash may look like a write that was never promised.
//
// A Log is a journal that can be truncated: it continues in a new file. That file starts with data from the log's owner
// that replaces the earlier records.
package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"strings"
)

// A file is its magic followed by records. All numbers are little-endian. A record consists of:
//
//   - the length of the payload, 4 bytes
//   - the CRC-32C of the payload, 4 bytes
//   - the distance from the start of the write that the record belongs to, 4 bytes
//   - the CRC-32C of the record's offset (as 8 bytes) and of the previous fields, 4 bytes
//   - the payload
//
// The mark is the number of promised bytes of the journal, 8 bytes, followed by the CRC-32C of this number, 4 bytes.
const (
	magic       = "geobench journal 2\n"
	headerBytes = 16
	markBytes   = 12
	markSuffix  = ".synced"
	// MaxRecord is the maximum size of a record's payload, in bytes.
	MaxRecord = 1 << 30
	// maxWrite is the maximum size of a write in bytes, because distances in records have 4 bytes.
	maxWrite = 1<<32 - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrLocked means that another process has the journal open.
var ErrLocked = errors.New("another process has it open")

// Error describes a problem that makes a journal unusable, where it is, and how a person can fix it.
type Error struct {
	// File is the path of the file, and Offset the offset of the problem in bytes.
	File   string
	Offset int64
	// What: a description of the problem. Err: the error of the disk; nil if there was none.
	What string
	Err  error
	// Cure explains how to fix the problem.
	Cure string
}

func (e *Error) Error() string {
	what := e.What
	if e.Err != nil {
		what += ": " + e.Err.Error()
	}
	return fmt.Sprintf("journal %s, offset %d: %s: %s", e.File, e.Offset, what, e.Cure)
}

func (e *Error) Unwrap() error { return e.Err }

const (
	cureLost = "its node cannot go on from what is left; put the file back as it was, or delete it together with " +
		"the file of the same name and " + markSuffix + " (a pod: delete the pod), which loses the node's state, so that the database is made anew"
	cureUnreadable = "copy the file to a disk that can be read, or delete it together with the file of the same name and " + markSuffix +
		" (a pod: delete the pod), which loses the node's state, so that the database is made anew"
	cureFull = "make room on its volume (a pod: raise spec.resources.limits of ephemeral-storage) and start the node again; " +
		"it goes on from the last turn that was written whole"
	cureSync = "what the disk holds from there on is unknown; the node has told nobody of it and ends; mend the disk and start the node again"
)

// Journal is a file of records, open for appending. It belongs to a single goroutine.
type Journal struct {
	f, mark File
	name    string
	size    int64 // size of the complete records with the magic, in bytes
	records int64
	pending []byte // not written yet
	added   int64  // records in pending
	failed  error  // error of Sync, after which the contents of the disk are unknown
	marked  [markBytes]byte
	// promised is the promised size in bytes, if it is known to exceed the size in the mark. found, if not nil, is called
	// for every complete record while the journal is opened.
	promised int64
	found    func(payload []byte)
}

// Open opens the journal with this name in a folder, and creates both if necessary. It returns ErrLocked while another
// process has the journal open, and an *Error if the journal is damaged or unreadable.
func Open(d Disk, folder, name string) (*Journal, error) {
	path := filepath.Join(folder, name)
	f, err := d.Open(path)
	if err != nil {
		return nil, named(path, err)
	}
	// Lock before reading, because recovery changes the file.
	if err := f.Lock(); err != nil {
		_ = f.Close()
		return nil, named(path, err)
	}
	return take(d, &Journal{f: f, name: path})
}

// take opens a journal whose file is already open and locked. It closes the file if it returns an error.
func take(d Disk, j *Journal) (*Journal, error) {
	if err := j.recover(d); err != nil {
		_ = j.Close()
		return nil, named(j.name, err)
	}
	return j, nil
}

// named adds the journal's path to an error that does not have it.
func named(path string, err error) error {
	if known := (*Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("journal %s: %w", path, err)
}

// wrong returns an Error about an offset of the journal.
func (j *Journal) wrong(offset int64, what string, err error, cure string) *Error {
	return &Error{File: j.name, Offset: offset, What: what, Err: err, Cure: cure}
}

// recover finds the end of the complete records. It cuts off data that was never promised, and returns an error if
// promised data is missing.
func (j *Journal) recover(d Disk) error {
	size, err := j.f.Size()
	if err != nil {
		return err
	}
	if j.mark, err = d.Open(j.name + markSuffix); err != nil {
		return err
	}
	marked, err := j.readMark()
	if err != nil {
		return err
	}
	// The previous generation of a log states how much of this generation was promised. The mark may be older.
	promised := max(marked, j.promised)
	if err := j.readMagic(size, promised); err != nil {
		return err
	}
	first := int64(len(magic))
	j.size = first
	bad := j.read(max(size, first), func(payload []byte) error {
		if j.found != nil {
			j.found(payload)
		}
		j.size += headerBytes + int64(len(payload))
		j.records++
		return nil
	})
	// A read error says nothing about the data itself, so do not truncate.
	if bad != nil && bad.Err != nil {
		return bad
	}
	if marked == 0 && size > first { // settle syncs the mark before any record can be written
		return &Error{File: j.name + markSuffix, What: "it is missing or empty, so nobody knows up to where the journal beside it was promised", Cure: cureLost}
	}
	if bad == nil && j.size < promised {
		bad = j.wrong(j.size, "the file ends", nil, "")
	}
	if bad != nil {
		if err := j.judge(bad, size, promised); err != nil {
			return err
		}
	}
	return j.settle(size, max(promised, first))
}

// readMark returns the promised size in bytes, or 0 if there is no mark yet.
func (j *Journal) readMark() (int64, error) {
	size, err := j.mark.Size()
	if err != nil || size == 0 {
		return 0, err
	}
	name := j.name + markSuffix
	if n, err := j.mark.ReadAt(j.marked[:], 0); n < markBytes && !errors.Is(err, io.EOF) {
		return 0, &Error{File: name, What: "it cannot be read", Err: err, Cure: cureUnreadable}
	}
	if size == markBytes && j.marked == [markBytes]byte{} { // a machine crash may leave zeros
		return 0, nil
	}
	promised := binary.LittleEndian.Uint64(j.marked[:])
	if size != markBytes || crc32.Checksum(j.marked[:8], castagnoli) != binary.LittleEndian.Uint32(j.marked[8:]) || promised < uint64(len(magic)) {
		return 0, &Error{File: name, What: "it does not match its checksum, so nobody knows up to where the journal beside it was promised", Cure: cureLost}
	}
	return int64(promised), nil
}

func (j *Journal) writeMark(promised int64) error {
	binary.LittleEndian.PutUint64(j.marked[:], uint64(promised))
	binary.LittleEndian.PutUint32(j.marked[8:], crc32.Checksum(j.marked[:8], castagnoli))
	return write(j.mark, j.marked[:], 0)
}

// readMagic checks the magic, or writes it if it is missing or incomplete. In that case the journal is new, or its
// process crashed while creating the file.
func (j *Journal) readMagic(size, promised int64) error {
	head := make([]byte, min(size, int64(len(magic))))
	if n, err := j.f.ReadAt(head, 0); n < len(head) {
		return j.wrong(0, "it cannot be read", err, cureUnreadable)
	}
	whole := string(head) == magic[:len(head)]
	switch {
	// If there is a mark, the magic was on the disk, so an incomplete magic is damage.
	case promised > 0 && (!whole || len(head) < len(magic)):
		return j.wrong(0, fmt.Sprintf("the file does not begin as a journal does, and its node had been promised %d bytes", promised), nil, cureLost)
	case !whole && strings.Trim(string(head), "\x00") != "": // a crash may leave zeros
		return j.wrong(0, fmt.Sprintf("the file begins with %q, not with %q", head, magic), nil, "it is some other file; name another folder for journals")
	case promised > 0:
		return nil
	}
	return write(j.f, []byte(magic), 0) // even if it is complete, because it may be only in the kernel's memory
}

// judge decides whether the damaged end of the file may be cut off. It returns nil if this is safe, and otherwise bad
// with an explanation.
func (j *Journal) judge(bad *Error, size, promised int64) error {
	later := fmt.Sprintf("the journal was promised up to offset %d", promised)
	// Beyond the mark, a later write proves that the damaged record was synced before that write.
	if bad.Offset >= promised {
		at := j.later(bad.Offset, size)
		if at < 0 {
			return nil
		}
		later = fmt.Sprintf("the record at offset %d was written when this was on the disk", at)
	}
	bad.What += ", and " + later
	bad.Cure = cureLost
	return bad
}

// later returns the offset of a record that proves that the damaged record was on the disk. The write of the later
// record started after offset, the position of the damaged record. It returns -1 if there is no such record.
func (j *Journal) later(offset, size int64) int64 {
	step := min(1<<16, size-offset)
	b := make([]byte, step+headerBytes)
	for from := offset + 1; from < size; from += step {
		n, _ := j.f.ReadAt(b, from)
		// Test every offset, because the length of the damaged record is unknown. Consecutive parts overlap by a header.
		for i := 0; i+headerBytes <= n && int64(i) < step; i++ {
			at := from + int64(i)
			if h, ok := decode(b[i:], at); ok && h.began > offset {
				return at
			}
		}
	}
	return -1
}

// settle makes the recovered records durable. After a failed sync, records beyond the mark may exist only in the
// kernel's memory, although the kernel treats them as written. settle writes them again, so that its sync covers them.
func (j *Journal) settle(size, promised int64) error {
	const step = 1 << 20
	b := make([]byte, min(step, max(0, j.size-promised)))
	for at := promised; at < j.size; at += step {
		part := b[:min(step, j.size-at)]
		if n, err := j.f.ReadAt(part, at); n < len(part) {
			return j.wrong(at, "it cannot be read", err, cureUnreadable)
		}
		if err := write(j.f, part, at); err != nil {
			return j.wrong(at, "it cannot be written", err, cureFull)
		}
	}
	// The rest of a write that was never promised must not follow the next records.
	if size > j.size {
		if err := j.f.Truncate(j.size); err != nil {
			return j.wrong(j.size, "it cannot be cut off there", err, cureSync)
		}
	}
	if err := j.f.Sync(); err != nil {
		return j.wrong(promised, "it cannot be synced", err, cureSync)
	}
	// Only now are the records durable, so that the mark may include them.
	if err := j.writeMark(j.size); err != nil {
		return err
	}
	// Once the mark is on the disk, an empty mark alongside existing records proves that the mark was lost: see recover.
	return j.mark.Sync()
}

// write writes b at an offset. It returns an error for a short write.
func write(f File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// Records returns the number of records in the file, that is, found by Open or written by Sync.
func (j *Journal) Records() int64 { return j.records }

// Bytes returns the size of the journal's file in bytes.
func (j *Journal) Bytes() int64 { return j.size }

// Each calls f for every record, in order. f must not retain the payload. If f fails, Each returns its error with the
// offset in the file. Each returns an *Error if a record differs from the one that Open found.
func (j *Journal) Each(f func(payload []byte) error) error {
	var failed error
	at := int64(len(magic))
	bad := j.read(j.size, func(payload []byte) error {
		if failed = f(payload); failed != nil {
			return failed
		}
		at += headerBytes + int64(len(payload))
		return nil
	})
	switch {
	case failed != nil:
		return fmt.Errorf("journal %s, offset %d: %w", j.name, at, failed)
	case bad != nil:
		if bad.Cure == "" {
			bad.Cure = cureLost
		}
		return bad
	}
	return nil
}

// header is the start of a record.
type header struct {
	length int64
	sum    uint32 // of the payload
	began  int64  // start of the write to which the record belongs
}

func appendHeader(b, payload []byte, at, began int64) []byte {
	first := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(payload, castagnoli))
	b = binary.LittleEndian.AppendUint32(b, uint32(at-began))
	return binary.LittleEndian.AppendUint32(b, placed(b[first:], at))
}

// placed returns the checksum of a header at offset at.
func placed(head []byte, at int64) uint32 {
	var place [8]byte
	binary.LittleEndian.PutUint64(place[:], uint64(at))
	return crc32.Update(crc32.Checksum(place[:], castagnoli), castagnoli, head)
}

// decode decodes the header at an offset of the file. ok is false if the header does not match its checksum.
func decode(b []byte, at int64) (h header, ok bool) {
	// The checksum includes the offset, so a header that the disk wrote to the wrong offset does not match.
	if placed(b[:headerBytes-4], at) != binary.LittleEndian.Uint32(b[headerBytes-4:]) {
		return h, false
	}
	h.length, h.sum = int64(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint32(b[4:])
	h.began = at - int64(binary.LittleEndian.Uint32(b[8:]))
	return h, h.length > 0 && h.length <= MaxRecord && h.began >= int64(len(magic))
}

// read calls f for every complete record in the first size bytes. It returns the problem with the first record that is
// not complete, or nil. If that record is damaged, the Error has no Err and no Cure.
func (j *Journal) read(size int64, f func([]byte) error) *Error {
	at := int64(len(magic))
	r := bufio.NewReaderSize(io.NewSectionReader(j.f, at, size-at), int(min(1<<20, size-at)))
	var head [headerBytes]byte
	var payload []byte
	for at < size {
		if size-at < headerBytes {
			return j.wrong(at, "the file ends in a record's header", nil, "")
		}
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return j.wrong(at, "it cannot be read", err, cureUnreadable)
		}
		h, ok := decode(head[:], at)
		if !ok {
			return j.wrong(at, "the record's header does not match its checksum", nil, "")
		}
		if size-at-headerBytes < h.length {
			return j.wrong(at, "the file ends in a record", nil, "")
		}
		if int64(cap(payload)) < h.length {
			payload = make([]byte, h.length, 2*h.length)
		}
		payload = payload[:h.length]
		if _, err := io.ReadFull(r, payload); err != nil {
			return j.wrong(at, "it cannot be read", err, cureUnreadable)
		}
		if crc32.Checksum(payload, castagnoli) != h.sum {
			return j.wrong(at, "the record does not match its checksum", nil, "")
		}
		if err := f(payload); err != nil {
			return j.wrong(at, "", err, "")
		}
		at += headerBytes + h.length
	}
	return nil
}

// Append adds a record, which must not be empty. Sync writes it. The caller may reuse the payload.
func (j *Journal) Append(payload []byte) error {
	if len(payload) == 0 || len(payload) > MaxRecord {
		return fmt.Errorf("journal %s: a record of %d bytes is not between 1 and %d", j.name, len(payload), MaxRecord)
	}
	if len(j.pending)+headerBytes+len(payload) > maxWrite {
		return fmt.Errorf("journal %s: records of more than %d bytes are not synced", j.name, maxWrite)
	}
	// All pending records belong to the same write, which starts at j.size.
	j.pending = appendHeader(j.pending, payload, j.size+int64(len(j.pending)), j.size)
	j.pending = append(j.pending, payload...)
	j.added++
	return nil
}

// Sync writes the appended records. It returns when the records are on the disk and the mark is written. After an error
// the contents of the disk are unknown. Every further Sync then returns the same error, and the journal can only be
// closed and opened again.
func (j *Journal) Sync() error {
	if j.failed != nil || len(j.pending) == 0 {
		return j.failed
	}
	j.failed = j.sync()
	return j.failed
}

func (j *Journal) sync() error {
	if err := write(j.f, j.pending, j.size); err != nil {
		return j.wrong(j.size, fmt.Sprintf("%d bytes cannot be written", len(j.pending)), err, cureFull)
	}
	if err := j.f.Sync(); err != nil {
		return j.wrong(j.size, "it cannot be synced", err, cureSync)
	}
	// Write the mark after the sync, because it must never promise more than is on the disk.
	if err := j.writeMark(j.size + int64(len(j.pending))); err != nil {
		return &Error{File: j.name + markSuffix, What: "it cannot be written", Err: err, Cure: cureSync}
	}
	j.size += int64(len(j.pending))
	j.records += j.added
	j.pending, j.added = j.pending[:0], 0
	return nil
}

// Close closes the journal. Unsynced records are lost.
func (j *Journal) Close() error {
	err := j.f.Close()
	if j.mark != nil {
		err = errors.Join(err, j.mark.Close())
	}
	return err
}
