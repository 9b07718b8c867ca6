package version

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// Build returns an identifier of the build, which is the result of String. If String is not unique (uncommitted
// changes, no version), a hash of the program follows. A build does not use data that another build has stored.
var Build = sync.OnceValues(func() (string, error) {
	v := String()
	if v != "devel" && !strings.Contains(v, "dirty") {
		return v, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("builds are told apart by their bytes, and this program cannot find itself: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("builds are told apart by their bytes, and this program cannot read itself: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("builds are told apart by their bytes, and this program cannot read itself: %w", err)
	}
	return v + "-" + hex.EncodeToString(h.Sum(nil)[:8]), nil
})
