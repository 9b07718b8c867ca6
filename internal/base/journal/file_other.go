//go:build !unix

package journal

import "os"

// lock does nothing on systems without advisory locks.
func lock(*os.File) error { return nil }
