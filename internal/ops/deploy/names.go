package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxSetName leaves room, in a pod's label of 63 characters, for the suffix that a StatefulSet appends to its name.
const maxSetName = 52

// JoinName joins parts to a DNS label of at most limit characters that starts with a letter. A name that had to be
// changed ends in a hash of the parts, so that different parts make different names.
func JoinName(limit int, parts ...string) string {
	name := strings.Join(parts, "-")
	clean := strings.ReplaceAll(name, ".", "-")
	if clean[0] < 'a' || clean[0] > 'z' {
		clean = "g" + clean
	}
	if clean == name && len(name) <= limit {
		return name
	}
	hash := ShortHash(parts...)
	if room := limit - len(hash) - 1; len(clean) > room {
		clean = strings.TrimRight(clean[:room], "-")
	}
	return clean + "-" + hash
}

// ShortHash is eight hexadecimal digits that stand for the parts.
func ShortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// Steward takes the place of the region in the names of the Jobs that load and audit a database for a run. No region
// has this name.
const Steward = "steward"

// GeneratorsName names the Service of a region's load generators.
func GeneratorsName(database, region string) string { return JoinName(63, database, region, "workers") }

// SetName names the StatefulSet and the headless Service of a role's pods in a region of a database; the role is empty
// where there are none.
func SetName(database, region, role string) string {
	if role == "" {
		return JoinName(maxSetName, database, region)
	}
	return JoinName(maxSetName, database, region, role)
}
