package journal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData waits until a file's contents are on the disk. It does not sync the file's timestamps, because they are not
// used.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return err
		}
	}
}
