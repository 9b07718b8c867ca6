package journal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Disk stores journals. Tests use a disk that can fail: package journaltest.
type Disk interface {
	// Open opens a file for reading and writing. It creates the file and its folder if necessary. When it returns, the
	// names in the folder, including the file's name, are durable.
	Open(path string) (File, error)
	// OpenExisting opens a file for reading and writing. If there is no such file, it returns fs.ErrNotExist and creates
	// nothing. It does not make names durable.
	OpenExisting(path string) (File, error)
	// List returns the names of the files in a folder, sorted, without subfolders. A missing folder has no files.
	List(folder string) ([]string, error)
	// Remove deletes a file. When it returns nil, the removal is durable. It returns no error if the file does not exist.
	// After an error the file may or may not exist, and a deleted file may reappear after a machine crash.
	Remove(path string) error
}

// File is an open file of a Disk.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the size of the file in bytes.
	Size() (int64, error)
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
	// Sync returns when all written data is on the disk. After an error the contents of the disk are unknown, even if a
	// later call succeeds. The kernel treats data that it failed to write as written.
	Sync() error
	// Lock prevents other processes from opening the journal until this process closes it or exits. It returns ErrLocked
	// if another process has the lock.
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

// OpenExisting implements Disk.
func (OS) OpenExisting(path string) (File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// List implements Disk.
func (OS) List(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove implements Disk. It syncs the folder even if the name does not exist, because an earlier removal may not be
// durable yet.
func (OS) Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := syncFolder(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
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
