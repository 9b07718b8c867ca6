package main

import (
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"testing"
)

// quickstartDigest is the SHA-256 of what geobench simulate -f experiments/quickstart.yaml -o json prints on amd64: others may add and multiply
// at once, and round once less.
const quickstartDigest = "47bceb33a1b590511f123e5020a96b9d19f116589f128b44752b645e68e89128"

// The quickstart's simulated result is the same to the last byte, whatever the order of maps, the clock and the number of threads.
func TestQuickstartDigest(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("the digest is that of amd64, and this is %s", runtime.GOARCH)
	}
	code, stdout, stderr := geobench(t, "", "simulate", "-q", "-f", "../../experiments/quickstart.yaml", "-o", "json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	sum := sha256.Sum256([]byte(stdout))
	if got := hex.EncodeToString(sum[:]); got != quickstartDigest {
		t.Errorf("the simulated quickstart is not what it was: its digest is %s, not %s. If nothing was to change its figures, find the commit by git bisect, and what it depends on: "+
			"the order of a map, a clock, GOMAXPROCS, a message's size. If they were to change, "+
			"run the command twice, compare (geobench compare) the result with that of the commit before, "+
			"set quickstartDigest to the new digest, and say in the commit and in CHANGELOG.md what has changed and why", got, quickstartDigest)
	}
}
