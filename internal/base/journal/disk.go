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
	// names in the folder are on the disk as they are in the kernel's memory, including the file's name.
	Open(path string) (File, error)
	// OpenExisting opens a file for reading and writing. It fails with fs.ErrNotExist where there is none, makes nothing,
	// and says nothing about names on the disk.
	OpenExisting(path string) (File, error)
	// List returns the names of the files in a folder, in order, without folders; none where there is no folder.
	List(folder string) ([]string, error)
	// Remove deletes a file; its name is gone from the disk when Remove returns nil. It is no error if the file does not
	// exist. After an error the name may exist or not, and a name that is gone may reappear after a machine crash.
	Remove(path string) error
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
	// Sync returns when all written data is on the disk. After an error the contents of the disk are unknown. A later
	// successful call does not change that: the kernel treats data that it failed to write as written.
	Sync() error
	// Lock keeps other processes from opening the journal until this process closes it or exits. It fails with ErrLocked.
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

// Remove implements Disk. A name that is gone already may be so in the kernel's memory alone: its folder is synced all
// the same.
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
