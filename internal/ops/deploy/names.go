package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxSetName is the maximum length of a StatefulSet's name. A pod's label has at most 63 characters, which must include
// the suffix that the StatefulSet appends to its name.
const maxSetName = 52

// JoinName joins parts to a DNS label of at most limit characters that starts with a letter. If the joined name is not
// valid, the result ends in a hash of the parts, so that different parts give different names.
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
	// Keep the whole hash when truncating, because only the hash distinguishes the names.
	if room := limit - len(hash) - 1; len(clean) > room {
		clean = strings.TrimRight(clean[:room], "-")
	}
	return clean + "-" + hash
}

// ShortHash returns eight hexadecimal digits of a hash of the parts.
func ShortHash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// Steward replaces the region in the names of the Jobs that load and audit a database for a run. No region can have
// this name.
const Steward = "steward"

// GeneratorsName returns the name of the Service of a region's load generators.
func GeneratorsName(database, region string) string { return JoinName(63, database, region, "workers") }

// SetName returns the name of the StatefulSet and of the headless Service for a role's pods in a region. role is empty
// for a database without roles.
func SetName(database, region, role string) string {
	if role == "" {
		return JoinName(maxSetName, database, region)
	}
	return JoinName(maxSetName, database, region, role)
}
