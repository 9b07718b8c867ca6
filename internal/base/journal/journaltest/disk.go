// Package journaltest provides an in-memory disk that fails like real disks. See Pillai et al., All File Systems Are
// Not Created Equal, OSDI 2014. See also Rebello et al., Can Applications Recover from fsync Failures?, ATC 2020.
//
// A machine crash loses unsynced data, sector by sector. After a failed sync, the kernel's memory looks as if the sync
// had succeeded. Bits flip, files are truncated, space runs out, and sectors become unreadable. The test chooses the
// faults and their times, or derives them from a seed.
package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"

	"github.com/geobench/geobench/internal/base/journal"
)

// defaultSector is the default of Disk.Sector, in bytes.
const defaultSector = 512

// Kind is the kind of a disk operation.
type Kind string

// Kinds of operations.
const (
	Open     Kind = "open"
	Read     Kind = "read"
	Write    Kind = "write"
	Truncate Kind = "truncate"
	Sync     Kind = "sync"
	List     Kind = "list"
	Remove   Kind = "remove"
	// SyncFolder is the second step of an Open that may create the file, and of a Remove. It makes the name, or its
	// absence, durable. File is the folder.
	SyncFolder Kind = "sync folder"
)

// Op is a disk operation. Offset and Bytes are 0 for kinds that do not use them.
type Op struct {
	Kind   Kind
	File   string
	Offset int64
	Bytes  int
}

// Disk is an in-memory disk with a kernel cache in front of it. It implements journal.Disk. The zero value is empty.
type Disk struct {
	// Fail, if not nil, is called before every operation. If Fail returns an error, the operation fails with it. done is
	// the number of bytes that a failing write writes nevertheless.
	Fail func(Op) (done int, err error)
	// Sector is the size in bytes of the unit that a crash keeps or loses as a whole; 0 means 512.
	Sector int

	mu    sync.Mutex
	files map[string]*file // by name, in the kernel's memory
	names map[string]*file // by name, on the disk
}

// file is the contents of a file in the kernel's cache and on the disk.
type file struct {
	cache, disk []byte
	dirty       map[int]bool // sectors of the cache that the kernel has yet to write
	locked      bool
}

// handle is an open file.
type handle struct {
	d      *Disk
	name   string
	f      *file
	locks  bool
	closed bool
}

// Open implements journal.Disk. It returns only errors of Fail.
func (d *Disk) Open(path string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.fail(Op{Kind: Open, File: path}); err != nil {
		return nil, err
	}
	if d.files[path] == nil {
		d.put(path, &file{dirty: map[int]bool{}})
	}
	if err := d.syncFolder(path); err != nil {
		return nil, err
	}
	return &handle{d: d, name: path, f: d.files[path]}, nil
}

// OpenExisting implements journal.Disk.
func (d *Disk) OpenExisting(path string) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.fail(Op{Kind: Open, File: path}); err != nil {
		return nil, err
	}
	if d.files[path] == nil {
		return nil, fmt.Errorf("open %s: %w", path, fs.ErrNotExist)
	}
	return &handle{d: d, name: path, f: d.files[path]}, nil
}

// List implements journal.Disk.
func (d *Disk) List(folder string) (names []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.fail(Op{Kind: List, File: folder}); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(d.files)) {
		if filepath.Dir(path) == folder {
			names = append(names, filepath.Base(path))
		}
	}
	return names, nil
}

// Remove implements journal.Disk. Processes that have the file open can still use it.
func (d *Disk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.fail(Op{Kind: Remove, File: path}); err != nil {
		return err
	}
	delete(d.files, path)
	return d.syncFolder(path)
}

// syncFolder makes the names in the folder of path durable. If it fails, the next successful call makes these names
// durable.
func (d *Disk) syncFolder(path string) error {
	folder := filepath.Dir(path)
	if _, err := d.fail(Op{Kind: SyncFolder, File: folder}); err != nil {
		return err
	}
	here := func(name string, _ *file) bool { return filepath.Dir(name) == folder }
	// Replace all names of the folder, so that removals also become durable.
	maps.DeleteFunc(d.names, here)
	for name, f := range d.files {
		if here(name, f) {
			d.names[name] = f
		}
	}
	return nil
}

// put creates a file at path in the kernel's memory.
func (d *Disk) put(path string, f *file) {
	if d.files == nil {
		d.files, d.names = map[string]*file{}, map[string]*file{}
	}
	d.files[path] = f
}

func (d *Disk) sector() int {
	if d.Sector == 0 {
		return defaultSector
	}
	return d.Sector
}

func (d *Disk) fail(op Op) (int, error) {
	if d.Fail == nil {
		return 0, nil
	}
	return d.Fail(op)
}

// Files returns the paths of the existing files, sorted.
func (d *Disk) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files))
}

// Contents returns the contents of a file in the kernel's memory, or nil if there is no such file.
func (d *Disk) Contents(path string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.files[path]; f != nil {
		return bytes.Clone(f.cache)
	}
	return nil
}

// Put creates a durable file.
func (d *Disk) Put(path string, contents []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(path, &file{cache: bytes.Clone(contents), disk: bytes.Clone(contents), dirty: map[int]bool{}})
	d.names[path] = d.files[path]
}

// Kill kills the process that has files open. Its locks are released, and its written data stays in the kernel's
// memory.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		f.locked = false
	}
}

// Crash crashes the machine. Any subset of a file's unsynced sectors may have reached the disk, so the last sectors of
// a file may also be missing. A name that was created or removed after the last sync of its folder may or may not
// exist. keep decides each case in turn.
func (d *Disk) Crash(keep func(r *rand.Rand) bool, r *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Sort, so that the seed alone determines the outcome.
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if d.names[name] != d.files[name] && keep(r) {
			d.names[name] = d.files[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		if d.files[name] == nil && keep(r) {
			delete(d.names, name)
		}
	}
	// If the name of a file is not durable, the file is lost, even if its data was synced.
	d.files = maps.Clone(d.names)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		f := d.files[name]
		for _, s := range slices.Sorted(maps.Keys(f.dirty)) {
			if keep(r) {
				f.flush(s, d.sector())
			}
		}
		f.cache, f.dirty, f.locked = bytes.Clone(f.disk), map[int]bool{}, false
	}
}

// flush writes a sector of the cache to the disk. Earlier sectors that were never written become zeros.
func (f *file) flush(number, sector int) {
	from, to := number*sector, min((number+1)*sector, len(f.cache))
	// The file was truncated after this sector had been written.
	if from >= to {
		return
	}
	if len(f.disk) < to {
		f.disk = append(f.disk, make([]byte, to-len(f.disk))...)
	}
	copy(f.disk[from:to], f.cache[from:to])
}

var errClosed = errors.New("the file is closed")

func (h *handle) begin(op Op) (done int, err error) {
	h.d.mu.Lock()
	if h.closed {
		return 0, errClosed
	}
	op.File = h.name
	return h.d.fail(op)
}

// ReadAt implements journal.File.
func (h *handle) ReadAt(p []byte, at int64) (int, error) {
	_, err := h.begin(Op{Read, "", at, len(p)})
	defer h.d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	if at >= int64(len(h.f.cache)) {
		return 0, io.EOF
	}
	n := copy(p, h.f.cache[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements journal.File.
func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	done, err := h.begin(Op{Write, "", at, len(p)})
	defer h.d.mu.Unlock()
	if err != nil {
		// A write that fails may still have written its first bytes.
		p = p[:min(done, len(p))]
	}
	if end := int(at) + len(p); end > len(h.f.cache) && len(p) > 0 {
		h.f.cache = append(h.f.cache, make([]byte, end-len(h.f.cache))...)
	}
	copy(h.f.cache[min(int(at), len(h.f.cache)):], p)
	sector := h.d.sector()
	for s := int(at) / sector; s*sector < int(at)+len(p); s++ {
		h.f.dirty[s] = true
	}
	return len(p), err
}

// Size implements journal.File.
func (h *handle) Size() (int64, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return int64(len(h.f.cache)), nil
}

// Truncate implements journal.File. A crash does not undo a truncation.
func (h *handle) Truncate(size int64) error {
	_, err := h.begin(Op{Kind: Truncate, Offset: size})
	defer h.d.mu.Unlock()
	if err != nil {
		return err
	}
	h.f.cache = h.f.cache[:size]
	h.f.disk = h.f.disk[:min(int(size), len(h.f.disk))]
	return nil
}

// Sync implements journal.File. If Sync fails, no sector remains dirty, so the next Sync succeeds without writing these
// sectors.
func (h *handle) Sync() error {
	_, err := h.begin(Op{Kind: Sync})
	defer h.d.mu.Unlock()
	if err == nil {
		for _, s := range slices.Sorted(maps.Keys(h.f.dirty)) {
			h.f.flush(s, h.d.sector())
		}
	}
	clear(h.f.dirty)
	return err
}

// Lock implements journal.File.
func (h *handle) Lock() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.f.locked {
		return journal.ErrLocked
	}
	h.f.locked, h.locks = true, true
	return nil
}

// Close implements journal.File.
func (h *handle) Close() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.closed {
		return errClosed
	}
	h.closed = true
	// Closing another handle of the file must not release the lock.
	if h.locks {
		h.f.locked = false
	}
	return nil
}

// Nth returns a Disk.Fail that makes only the n-th operation of a kind on a file fail, counted from 1. done is as in
// Fail. If file is empty, operations on all files count.
func Nth(kind Kind, file string, n, done int, err error) func(Op) (int, error) {
	seen := 0
	return func(op Op) (int, error) {
		if op.Kind != kind || file != "" && op.File != file {
			return 0, nil
		}
		if seen++; seen == n {
			return done, fmt.Errorf("%s %s: %w", op.Kind, op.File, err)
		}
		return 0, nil
	}
}
