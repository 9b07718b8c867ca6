package inprocess

import (
	"os"
	"testing"
	"time"
)

// Allow more time for the network check in the tests of this package, because go test builds and tests other packages
// concurrently.
func TestMain(m *testing.M) {
	verifyWithin = 10 * time.Minute
	os.Exit(m.Run())
}
