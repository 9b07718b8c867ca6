package local

import (
	"os"
	"testing"
	"time"
)

// The tests of a package wait for the machine to calm down: go test builds and runs other packages beside it.
func TestMain(m *testing.M) {
	verifyWithin = 10 * time.Minute
	os.Exit(m.Run())
}
