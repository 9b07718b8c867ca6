// Package journal keeps a file of records that outlives its process: a node's log of its inputs (the log sink of the
// real-time driver).
//
// A record is in the journal once Sync has returned. What a crash leaves behind the last record that is whole, half of
// a write that nobody was told of, is cut off when the journal is opened again.
package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// A file is its magic and then records: length of the payload, 4 bytes little-endian | its CRC-32C, 4 bytes | payload.
const (
	magic       = "geobench journal 1\n"
	headerBytes = 8
	// MaxRecord bounds a record's payload, in bytes.
	MaxRecord = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrLocked says that another process has the journal open.
var ErrLocked = errors.New("another process has it open")

// Journal is a file of records, open for more. It belongs to one goroutine.
type Journal struct {
	f       *os.File
	name    string
	size    int64 // of the file, in bytes, with whole records only
	records int64
	pending []byte // not written yet
	added   int64  // records in pending
}

// Open opens the journal of that name in a folder, which it makes if need be, together with the journal. It fails with
// ErrLocked while another process has it open.
func Open(folder, name string) (*Journal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &Journal{f: f, name: path}
	if err := j.recover(folder); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("journal %s: %w", path, err)
	}
	return j, nil
}

// recover finds the end of what is whole and cuts off the rest.
func (j *Journal) recover(folder string) error {
	if err := lock(j.f); err != nil {
		return err
	}
	info, err := j.f.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, min(info.Size(), int64(len(magic))))
	if _, err := j.f.ReadAt(head, 0); err != nil {
		return err
	}
	if string(head) != magic[:len(head)] {
		return errors.New("it is some other file")
	}
	if len(head) < len(magic) { // new, or the process died as it made it
		if _, err := j.f.WriteAt([]byte(magic), 0); err != nil {
			return err
		}
		if err := syncFolder(folder); err != nil {
			return err
		}
	}
	j.size = int64(len(magic))
	err = j.read(max(info.Size(), j.size), func(payload []byte) error {
		j.size += headerBytes + int64(len(payload))
		j.records++
		return nil
	})
	if err != nil {
		return err
	}
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	return j.f.Sync()
}

// Records is the number of records that Sync has written or Open has found.
func (j *Journal) Records() int64 { return j.records }

// Bytes is the size of the journal's file, in bytes.
func (j *Journal) Bytes() int64 { return j.size }

// Each calls f for every record, in order. The payload's memory is f's only until it returns. An error of f ends it.
func (j *Journal) Each(f func(payload []byte) error) error {
	if err := j.read(j.size, f); err != nil {
		return fmt.Errorf("journal %s: %w", j.name, err)
	}
	return nil
}

// read calls f for every whole record in the first size bytes.
func (j *Journal) read(size int64, f func([]byte) error) error {
	r := bufio.NewReaderSize(io.NewSectionReader(j.f, int64(len(magic)), size-int64(len(magic))), 1<<20)
	var head [headerBytes]byte
	var payload []byte
	for left := size - int64(len(magic)); ; {
		if _, err := io.ReadFull(r, head[:]); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return err
		}
		n := int64(binary.LittleEndian.Uint32(head[:]))
		if left -= headerBytes + n; n == 0 || n > MaxRecord || left < 0 {
			return nil
		}
		if int64(cap(payload)) < n {
			payload = make([]byte, n, 2*n)
		}
		payload = payload[:n]
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
			return nil
		}
		if err := f(payload); err != nil {
			return err
		}
	}
}

// Append adds a record, which must not be empty; Sync writes it. The payload stays the caller's.
func (j *Journal) Append(payload []byte) error {
	if len(payload) == 0 || len(payload) > MaxRecord {
		return fmt.Errorf("journal %s: a record of %d bytes is not between 1 and %d", j.name, len(payload), MaxRecord)
	}
	j.pending = binary.LittleEndian.AppendUint32(j.pending, uint32(len(payload)))
	j.pending = binary.LittleEndian.AppendUint32(j.pending, crc32.Checksum(payload, castagnoli))
	j.pending = append(j.pending, payload...)
	j.added++
	return nil
}

// Sync writes what was added and returns when it is on the disk. After an error nobody knows what is: the journal must
// not be used any more.
func (j *Journal) Sync() error {
	if len(j.pending) == 0 {
		return nil
	}
	if _, err := j.f.WriteAt(j.pending, j.size); err != nil {
		return fmt.Errorf("journal %s: %w", j.name, err)
	}
	if err := syncData(j.f); err != nil {
		return fmt.Errorf("journal %s: %w", j.name, err)
	}
	j.size += int64(len(j.pending))
	j.records += j.added
	j.pending, j.added = j.pending[:0], 0
	return nil
}

// Close lets go of the journal. What was not synced is lost.
func (j *Journal) Close() error { return j.f.Close() }

// RemoveOthers deletes the files of a folder that have name's extension, but for the one of that name: journals of what is
// no more.
func RemoveOthers(folder, name string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == name || filepath.Ext(e.Name()) != filepath.Ext(name) || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written through it
	return d.Sync()
}
