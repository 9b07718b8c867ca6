package emulation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash returns twelve hexadecimal digits that identify the given parts.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		// The length prefix keeps ("a", "bc") and ("ab", "c") distinct.
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
