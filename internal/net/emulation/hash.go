package emulation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash is twelve hexadecimal digits that stand for the parts.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
