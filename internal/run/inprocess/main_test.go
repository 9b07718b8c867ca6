package inprocess

import (
	"os"
	"testing"
	"time"
)

// The tests of this package allow more time for the network check, because go test builds and runs other packages at
// the same time.
func TestMain(m *testing.M) {
	verifyWithin = 10 * time.Minute
	os.Exit(m.Run())
}
