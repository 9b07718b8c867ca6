package journal

import (
	"io"
	"os"
	"path/filepath"
)

// Disk is where journals are. Tests have one that fails: package journaltest.
type Disk interface {
	// Open opens a file for reading and writing, and makes it if need be, with its folder; its name is on the disk then.
	Open(path string) (File, error)
}

// File is an open file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is in bytes.
	Size() (int64, error)
	// Truncate cuts the file off.
	Truncate(size int64) error
	// Sync returns when what was written is on the disk. After an error nobody knows what is, and a later call that succeeds
	// says nothing about it: a kernel takes what it could not write for written.
	Sync() error
	// Lock keeps other processes from opening the journal until this one closes it or ends. It fails with ErrLocked.
	Lock() error
}

// OS is the disk of the operating system.
type OS struct{}

// Open implements Disk.
func (OS) Open(path string) (File, error) {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syncFolder(folder); err != nil {
		_ = f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Lock() error { return lock(f.File) }

func syncFolder(folder string) error {
	d, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // nothing was written through it
	return d.Sync()
}
